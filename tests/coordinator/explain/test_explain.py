"""Explain on a whole service with real workers: one job for each reason."""

from __future__ import annotations

from pathlib import Path

from tests.builders.objects import GPU, Item, queue
from tests.coordinator.explain.cluster import (
    asking,
    explained,
    gang,
    job,
    node,
    pod,
    pod_group,
    role,
    settled,
    tried,
)
from tests.end_to_end.one_process.harness import running, submit


def adds_up(answer: Item) -> None:
    nodes = answer["nodes"]
    assert sum(check["count"] for check in nodes["first"]) + nodes["fits"] == nodes["total"]


async def test_a_fragmented_gangs_reason_names_shortage_and_remedy(
    tmp_path: Path, redis_url: str
) -> None:
    infer = [{"key": "dedicated", "value": "infer", "effect": "NoSchedule"}]
    async with running(redis_url, tmp_path) as service:
        await submit(
            service,
            *[node(f"full-{n}", gpus=8) for n in range(4)],
            *[node(f"infer-{n}", gpus=8, taints=infer) for n in range(2)],
            *[node(f"cpu-{n}") for n in range(3)],
        )
        await submit(service, job("small", 4, gpus=5))
        await settled(service, bound=4)
        await submit(service, job("wide", 3, gpus=4))
        await tried(service)
        explanation = await explained(service, "wide")
    adds_up(explanation)
    assert explanation["reason"] == "Fragmented"
    assert explanation["message"].startswith(
        "3 cpu, 12 nvidia.com/gpu are free in total, but not where "
    )
    assert explanation["room"] == "gang of 3 (worker), none can start now"
    assert explanation["requested"] == {"cpu": "3", GPU: "12"}
    assert explanation["short"] == {}
    assert explanation["position"] == 1
    assert explanation["nodes"]["total"] == 9
    taint, amount = explanation["nodes"]["first"]
    assert (taint["check"], taint["count"], taint["onlyThis"]) == ("taint dedicated=infer", 2, 2)
    assert (amount["check"], amount["count"]) == (GPU, 7)
    assert taint["examples"] == ["infer-0", "infer-1"]
    near = explanation["near"][0]
    assert near["node"].startswith("full-")
    assert near["heldBy"] == ["default/small"]
    assert near["lacks"] == [{"resource": GPU, "needs": "4", "idle": "3", "futureIdle": "3"}]
    helps = {entry["change"]: entry["fits"] for entry in explanation["if"]}
    assert helps[f"3 {GPU} per task"] is True
    assert helps["tolerate dedicated=infer"] is True
    assert explanation["attempts"]["infeasible"] >= 1
    assert explanation["session"]
    assert explanation["shard"] in (0, 1)
    assert explanation["epoch"]


async def test_no_node_matches(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a", labels={"zone": "x"}), node("b"))
        await submit(service, job("picky", nodeSelector={"zone": "y"}))
        explanation = await explained(service, "picky")
    adds_up(explanation)
    assert explanation["reason"] == "NoMatchingNodes"
    assert explanation["room"] == ""
    assert [check["check"] for check in explanation["nodes"]["first"]] == ["label zone=y"]
    assert explanation["if"] == [
        {"change": "without label zone=y in the selector", "fits": True, "starts": 128, "nodes": 2}
    ]


async def test_a_resource_nobody_has_and_a_task_larger_than_any_node(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a", labels={"zone": "x"}, cpu="96"), node("b"))
        await submit(service, job("gpus", gpus=1), job("huge", cpu="100"))
        await submit(
            service, job("large-here", cpu="80", nodeSelector={"kubernetes.io/os": "linux"})
        )
        gpus, huge = await explained(service, "gpus"), await explained(service, "huge")
    assert gpus["reason"] == "NoMatchingNodes"
    assert huge["reason"] == "ExceedsNodeCapacity"
    assert "100 cpu" in huge["message"]


async def test_not_enough_in_total(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a", gpus=8))
        await submit(service, job("runs", 6, gpus=1))
        await settled(service, bound=6)
        await submit(service, job("waits", 4, gpus=1))
        explanation = await explained(service, "waits")
    adds_up(explanation)
    assert explanation["reason"] == "NotEnoughResources"
    assert "could give 2 nvidia.com/gpu; short by 2 nvidia.com/gpu" in explanation["message"]
    assert explanation["room"] == "gang of 4 (worker), 2 can start now"
    changes = [entry["change"] for entry in explanation["if"]]
    assert "a minimum of 2 instead of 4" in changes


async def test_the_role_that_fails_decides(tmp_path: Path, redis_url: str) -> None:
    roles = [role("ps", 1, {"cpu": "1"}), role("worker", 2, {GPU: "8", "cpu": "1"})]
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a", gpus=8))
        await submit(service, gang("two-roles", roles, minimum=3))
        explanation = await explained(service, "two-roles")
    assert explanation["role"] == "worker"
    assert "short by 8" in explanation["message"]
    assert explanation["room"].startswith("gang of 2 (worker), 1 can start now")
    assert [entry["role"] for entry in explanation["roles"]] == ["worker", "ps"]


async def test_quota_capability_closed_and_missing_queues(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a", gpus=8), queue("lab", capability={GPU: "4"}))
        await submit(service, job("runs", 3, gpus=1, queue="lab"))
        await settled(service, bound=3)
        await submit(
            service,
            job("quota", 2, gpus=1, queue="lab"),
            job("never", 5, gpus=1, queue="lab"),
            job("nowhere", queue="no-such"),
        )
        quota = await explained(service, "quota")
        never = await explained(service, "never")
        nowhere = await explained(service, "nowhere")
    assert quota["reason"] == "WaitingForQuota"
    assert "queue lab uses 3 of the 4 nvidia.com/gpu it may have" in quota["message"]
    assert {
        "change": f"1 {GPU} more for queue lab",
        "fits": True,
        "starts": 5,
        "nodes": 0,
    } in quota["if"]
    assert never["reason"] == "ExceedsCapability"
    assert nowhere["reason"] == "Misconfigured"
    assert "create queue no-such" in nowhere["message"]
    assert "nodes" not in nowhere


async def test_a_placed_job_says_where(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, shards=1) as service:
        await submit(service, node("a", gpus=8))
        await submit(service, job("runs", 3, gpus=1))
        await settled(service, bound=3)
        await service.until(lambda status: status["tasks"]["running"] == 3)
        explanation = await explained(service, "runs")
        pod = await explained(service, "runs-worker-1", kind="pods")
    assert explanation["reason"] is None
    assert explanation["phase"] == "Running"
    assert explanation["places"] == [
        {"node": "a", "tasks": 3, "shard": 0, "level": "L1", "because": "idle, own shard"}
    ]
    assert pod["pod"] == {
        "name": "runs-worker-1",
        "role": "worker",
        "state": "Running",
        "node": "a",
    }
    assert pod["job"] == {"kind": "Job", "namespace": "default", "name": "runs"}


async def test_without_an_answering_worker_the_stored_facts_are_shown(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a", gpus=8))
        await submit(service, job("waits", 9, gpus=1))
        await settled(service, bound=0)
        service.shards.mute = True
        explanation = await explained(service, "waits")
    assert explanation["reason"] == "NotEnoughResources"
    assert "short by 1 nvidia.com/gpu" in explanation["message"]
    assert "what follows is what the coordinator remembers" in explanation["incomplete"]


async def test_the_story_of_a_pod_without_its_group_has_no_minimum(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a"), pod("p", group="absent"))
        explanation = await explained(service, "p", kind="pods")
    assert explanation["story"][0]["message"] == "1 task, to queue default"
    assert explanation["tasks"]["minimum"] == 0


async def test_explaining_an_unknown_job_is_answered_404(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path) as service, asking(service) as client:
        path = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/none/explain"
        async with client.get(path) as answer:
            body = await answer.json()
    assert answer.status == 404
    assert body["reason"] == "NotFound"
    assert body["message"] == 'jobs.batch.volcano.sh "none" not found'


async def test_behind_walls_a_gang_that_no_shard_could_ever_hold(
    tmp_path: Path, redis_url: str
) -> None:
    """One node of each shard has the label that it asks for: together they would do."""
    async with running(redis_url, tmp_path, shards=2, mode="hard") as service:
        await submit(service, *[node(f"n{n}", gpus=8) for n in range(4)])
        await settled(service, bound=0)
        core = service.service.core
        one_of_each = {shard: core.names[row] for row, shard in core.dispatcher.shard_of.items()}
        fast = [node(name, gpus=8, labels={"fast": "yes"}) for name in one_of_each.values()]
        await submit(service, *fast, job("wide", 2, gpus=8, nodeSelector={"fast": "yes"}))
        explanation = await explained(service, "wide")
    adds_up(explanation)
    assert explanation["reason"] == "LargerThanShard"
    assert "no shard could ever hold its 2 tasks" in explanation["message"]
    assert explanation["nodes"]["first"][0]["kind"] == "foreign"


async def test_a_lone_pod_is_its_own_job_and_a_member_is_reported_with_its_group(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a"))
        await submit(service, pod("lone", cpu="80"), pod_group("pg", 3), pod("m-0", group="pg"))
        lone = await explained(service, "lone", kind="pods")
        member = await explained(service, "m-0", kind="pods")
        whole = await explained(service, "pg", kind="podgroups")
    assert lone["reason"] == "ExceedsNodeCapacity"
    assert lone["of"] == {"kind": "Pod", "namespace": "default", "name": "lone"}
    assert member["job"]["name"] == "pg"
    assert member["pod"]["name"] == "m-0"
    assert member["reason"] == whole["reason"] == "NotEnoughTasks"
    assert whole["message"] == "1 of the 3 members that the job needs exist"


async def test_a_job_that_is_being_deleted_says_so(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, grace=600.0) as service:
        await submit(service, node("a"))
        await submit(service, job("runs", 2))
        await settled(service, bound=2)
        path = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/runs"
        async with asking(service) as client, client.delete(path) as answer:
            assert answer.status in (200, 202), await answer.text()
        explanation = await explained(service, "runs")
    assert (explanation["phase"], explanation["reason"]) == ("Terminating", None)
    assert "being deleted; 2 tasks of it still hold a node" in explanation["message"]
