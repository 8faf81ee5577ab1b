"""Plan on a whole service with real workers: each verdict, and that nothing of it stays."""

from __future__ import annotations

import asyncio
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from coordinator.dispatch.inquiry_client import Inquiries
from coordinator.errors import Problem
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeReply
from shared.ledger.redis.client import RedisLedger
from shared.messages.messages import StatusItem, TaskState
from tests.builders.objects import GPU, Item, a_list, queue
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
)
from tests.coordinator.explain.random_clusters import at_rest
from tests.end_to_end.one_process.harness import Running, running, submit

PLANS = "/apis/quadrant.dev/v1alpha1/plans"


async def planned(service: Running, *items: Item) -> Item:
    """The plan; asked for again where no shard answered in time, as it says."""
    body = a_list(*items)
    async with asking(service) as client:
        for _ in range(5):
            async with client.post(PLANS, json=body) as answer:
                report: Item = await answer.json()
                assert answer.status == 200, report
            if not any(job.get("incomplete") for job in report["jobs"]):
                break
    return report


def one(answer: Item) -> Item:
    (job,) = answer["jobs"]
    result: Item = job
    return result


async def test_a_plan_names_nodes_and_levels_and_charges_the_next_job(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, shards=1) as service:
        await submit(service, node("a", gpus=8), node("b", gpus=8))
        await settled(service, bound=0)
        plan = await planned(service, job("first", 2, gpus=6), job("second", 2, gpus=2))
        third = await planned(service, job("first", 2, gpus=6), job("second", 3, gpus=2))
    first, second = plan["jobs"]
    assert plan["verdict"] == first["verdict"] == second["verdict"] == "now"
    assert first["nodes"] == [{"node": "a", "tasks": 1}, {"node": "b", "tasks": 1}]
    assert first["levels"] == {"L1": 2}
    assert plan["totals"]["tasksNow"] == 4
    assert plan["revision"]
    assert "not a reservation" in plan["note"]
    assert [j["verdict"] for j in third["jobs"]] == ["now", "waits"]
    assert third["jobs"][1]["reason"] in ("Fragmented", "NotEnoughResources")


@pytest.mark.parametrize("replicas", [1, 2])
async def test_members_that_ask_for_nothing_are_placed_with_the_others(
    tmp_path: Path, redis_url: str, replicas: int
) -> None:
    roles = [role("worker", 2, {"cpu": "1"}), role("driver", replicas, {})]
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a"), node("b"))
        await settled(service, bound=0)
        item = gang("mixed", roles, minimum=2 + replicas)
        row = one(await planned(service, item))
        await submit(service, item)
        await settled(service, bound=2 + replicas)
    assert row["verdict"] == "now"
    assert row["tasks"] == {"total": 2 + replicas, "minimum": 2 + replicas} | {
        "now": 2 + replicas,
        "later": 0,
    }


async def test_members_that_ask_for_nothing_wait_with_the_others(
    tmp_path: Path, redis_url: str
) -> None:
    roles = [role("worker", 2, {"cpu": "2"}), role("driver", 1, {})]
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a", cpu="3"))
        await settled(service, bound=0)
        row = one(await planned(service, gang("mixed", roles, minimum=3)))
    assert row["verdict"] == "never"
    assert row["tasks"] == {"total": 3, "minimum": 3, "now": 0, "later": 0}
    assert row["nodes"] == []


async def test_an_elastic_job_tells_how_many_would_start(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a", gpus=8))
        row = one(await planned(service, job("wide", 20, minimum=2, gpus=1)))
    assert row["verdict"] == "now"
    assert row["tasks"] == {"total": 20, "minimum": 2, "now": 8, "later": 0}


async def test_not_now_and_never_and_why(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a", gpus=8), queue("lab", capability={GPU: "4"}))
        await submit(service, job("runs", 3, gpus=1, queue="lab"))
        await settled(service, bound=3)
        waits = one(await planned(service, job("waits", 2, gpus=4)))
        quota = one(await planned(service, job("quota", 2, gpus=1, queue="lab")))
        never = one(await planned(service, job("never", 5, gpus=2)))
        large = one(await planned(service, job("large", 1, gpus=9)))
        beyond = one(await planned(service, job("beyond", 5, gpus=1, queue="lab")))
        nowhere = one(await planned(service, job("nowhere", queue="none")))
        label = one(await planned(service, job("label", nodeSelector={"zone": "x"})))
        strange = one(
            await planned(service, gang("new", [role("w", 1, {"a.b/c": "1"})], minimum=1))
        )
    assert (waits["verdict"], waits["reason"]) == ("waits", "NotEnoughResources")
    assert "1 can start now" in waits["message"]
    assert (quota["verdict"], quota["reason"]) == ("waits", "WaitingForQuota")
    assert (never["verdict"], never["reason"]) == ("never", "NotEnoughResources")
    assert "even empty, the matching nodes hold only 4 tasks" in never["message"]
    assert (large["verdict"], large["reason"]) == ("never", "ExceedsNodeCapacity")
    assert (beyond["verdict"], beyond["reason"]) == ("never", "ExceedsCapability")
    assert (nowhere["verdict"], nowhere["reason"]) == ("waits", "Misconfigured")
    assert (label["verdict"], label["reason"]) == ("never", "NoMatchingNodes")
    assert (strange["verdict"], strange["reason"]) == ("never", "NoMatchingNodes")
    assert "a.b/c" in strange["message"]


async def test_a_plan_says_in_the_sentence_of_explain_that_no_node_matches(
    tmp_path: Path, redis_url: str
) -> None:
    picky = role("picky", 1, {"cpu": "1"}, nodeSelector={"disk": "ssd"})
    jobs = [
        gang("one", [picky], minimum=1),
        gang("two", [role("plain", 1, {"cpu": "1"}), picky], minimum=2),
    ]
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a"), node("b"))
        plan = await planned(service, *jobs)
        await submit(service, *jobs)
        await at_rest(service)
        explanations = [await explained(service, job["name"]) for job in plan["jobs"]]
    assert [job["verdict"] for job in plan["jobs"]] == ["never", "never"]
    assert [job["message"] for job in plan["jobs"]] == [e["message"] for e in explanations]
    assert plan["jobs"][0]["message"] == (
        "no node takes role picky of one: 2 nodes: 2 didn't match Pod's node selector"
    )


@pytest.mark.parametrize("shards", [1, 2])
async def test_a_plan_says_that_shards_compete_for_room(
    tmp_path: Path, redis_url: str, shards: int
) -> None:
    both = [job("one", cpu="3"), job("two", cpu="3"), job("huge", cpu="9")]
    async with running(redis_url, tmp_path, shards=shards) as service:
        await submit(service, node("a", cpu="4"))
        alone = await planned(service, both[0])
        plan = await planned(service, *both)
    assert one(alone)["certain"]
    assert alone["others"] == []
    assert sorted(j["verdict"] for j in plan["jobs"]) == ["never", "now", "waits"]
    certain = {j["name"]: j["certain"] for j in plan["jobs"]}
    assert certain == {"one": shards == 1, "two": shards == 1, "huge": True}
    assert len(plan["others"]) == shards - 1
    assert all("several shards place 2 of these jobs" in text for text in plan["others"])


async def test_a_job_to_a_queue_of_the_same_list_counts_its_capability(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a", gpus=8))
        plan = await planned(
            service,
            queue("new", capability={GPU: "4"}),
            job("first", 3, gpus=1, queue="new"),
            job("second", 2, gpus=1, queue="new"),
        )
    assert [j["verdict"] for j in plan["jobs"]] == ["now", "waits"]
    assert plan["jobs"][1]["reason"] == "WaitingForQuota"


async def test_host_ports_that_nobody_used_before(tmp_path: Path, redis_url: str) -> None:
    """Every node has one of each: two tasks fit on two nodes, three do not."""
    port = {"name": "main", "ports": [{"hostPort": 8443, "containerPort": 1}]}
    port["resources"] = {"requests": {"cpu": "1"}}  # type: ignore[assignment]
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a"), node("b"))
        await settled(service, bound=0)
        two = one(await planned(service, job("two", 2, containers=[port])))
        three = one(await planned(service, job("three", 3, containers=[port])))
        assert (two["verdict"], three["verdict"]) == ("now", "never")
        server = service.shards._servers[0][0]
        assert not server.view.things.image(), "nothing is left of what was tried"


async def test_a_plan_after_leaving_tasks_names_their_job(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, shards=1, grace=5.0) as service:
        await submit(service, node("a", gpus=8))
        await submit(service, job("old", 1, gpus=8))
        await settled(service, bound=1)
        core = service.service.core
        (jid,) = core.order.jobs
        recorder = service.service._recorder
        assert recorder is not None
        await recorder.record([StatusItem(TaskState.RELEASING, jid, [0], [0])])
        row = one(await planned(service, job("next", 1, gpus=8)))
    assert row["verdict"] == "later"
    assert row["after"] == ["default/old"]
    assert row["nodes"] == [{"node": "a", "tasks": 1}]


async def test_behind_walls_the_first_shard_with_room_takes_it(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, shards=2, mode="hard") as service:
        await submit(service, node("a", gpus=8), node("b", gpus=8))
        await settled(service, bound=0)
        plan = await planned(
            service, job("one", 1, gpus=8), job("two", 1, gpus=8), job("three", 1, gpus=8)
        )
        wide = one(await planned(service, job("wide", 2, gpus=8)))
    assert [j["verdict"] for j in plan["jobs"]] == ["now", "now", "waits"]
    assert {j["nodes"][0]["node"] for j in plan["jobs"][:2]} == {"a", "b"}
    assert (wide["verdict"], wide["reason"]) == ("never", "LargerThanShard")


async def test_refused_objects_are_told_with_the_field(tmp_path: Path, redis_url: str) -> None:
    bad = job("bad")
    bad["spec"]["tasks"][0]["replicas"] = -1
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a"))
        plan = await planned(service, bad, job("good"))
    assert plan["verdict"] == "never"
    (refused,) = plan["refused"]
    assert refused["field"] == "spec.tasks[0].replicas"
    assert one(plan)["verdict"] == "now"


async def test_nothing_of_a_plan_or_an_explanation_stays(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, shards=1) as service:
        await submit(service, node("a", gpus=8), node("b", gpus=4))
        await submit(service, job("runs", 1, gpus=6), job("waits", 2, gpus=6))
        await settled(service, bound=1)
        inner = service.service
        before = await _facts(service)
        await planned(service, job("new", 3, gpus=1), queue("q"), node("c"), job("waits", 1))
        await planned(service, gang("strange", [role("w", 1, {"x.y/z": "1"})], minimum=1))
        async with asking(service) as client:
            path = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/waits/explain"
            async with client.get(path) as answer:
                assert answer.status == 200
        assert await _facts(service) == before
        inner.core.validate()


async def _facts(service: Running) -> dict[str, Any]:
    inner = service.service
    server = service.shards._servers[0][0]
    worker, view = server.worker, server.view
    worker.validate()
    return {
        "log": await inner._ledger.log_tail(),
        "documents": dict(inner.intake.documents),
        "numbers": (inner.intake.registry.next_jid, len(inner.intake.registry.classes)),
        "slots": list(inner.intake.registry.slots.names),
        "view": view.columns.image(),
        "classes": set(view.classes),
        "compiled": list(worker.classes._kept),
        "statements": dict(inner.core.status()["statements"]),
    }


async def test_questions_beyond_the_limit_are_refused_with_a_retry_time() -> None:
    inquiries = Inquiries(shards=None, at_once=2)  # type: ignore[arg-type]
    with inquiries.turnstile(), inquiries.turnstile():
        with pytest.raises(Problem) as refused, inquiries.turnstile():
            pass
        assert (refused.value.status, refused.value.retry_after) == (429, 1.0)
    with inquiries.turnstile():
        await asyncio.sleep(0)


async def test_the_questions_of_one_caller_leave_room_for_others() -> None:
    inquiries = Inquiries(shards=None, at_once=4)  # type: ignore[arg-type]
    with inquiries.turnstile("tenant"), inquiries.turnstile("tenant"):
        with pytest.raises(Problem, match="2 of them yours"), inquiries.turnstile("tenant"):
            pass
        with inquiries.turnstile("user"):
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("body", "content", "status"),
    [
        (b"{", "application/json", 400),
        (b"a: [", "application/yaml", 400),
        (b"{}", "text/html", 415),
        (b"x" * (2 << 20), "application/json", 413),
        (b'{"apiVersion": "v1", "kind": "Nothing", "metadata": {"name": "x"}}', None, 200),
    ],
)
async def test_a_body_that_cannot_be_read_is_the_senders_mistake(
    tmp_path: Path, redis_url: str, *, body: bytes, content: str | None, status: int
) -> None:
    async with running(redis_url, tmp_path) as service, asking(service) as client:
        headers = {"Content-Type": content or "application/json"}
        async with client.post(PLANS, data=BytesIO(body), headers=headers) as answer:
            assert answer.status == status
            report = await answer.json()
    assert report["kind"] == ("Plan" if status == 200 else "Status")


async def test_a_plan_of_an_existing_job_covers_its_unplaced_tasks(
    tmp_path: Path, redis_url: str
) -> None:
    def members(count: int) -> list[Item]:
        return [pod(f"m-{n}", group="pg") for n in range(count)]

    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a", cpu="4"), pod_group("pg", 2), *members(2))
        await settled(service, bound=2)
        same = await planned(service, pod_group("pg", 2), *members(2))
        grown = one(await planned(service, *members(6)))
    assert (same["jobs"], same["totals"]["unchanged"], same["verdict"]) == ([], 3, "now")
    assert (grown["change"], grown["verdict"]) == ("configured", "now")
    assert grown["tasks"]["now"] == 2  # two of the four new ones: the node has four cores


async def test_odd_lists(tmp_path: Path, redis_url: str) -> None:
    """Odd lists are the sender's mistake or say what is odd; none is an error of the server."""
    async with running(redis_url, tmp_path) as service:
        await submit(service, node("a"))
        empty = await planned(service)
        nothing = await planned(service, job("none", 0, minimum=1))
        lonely = one(await planned(service, pod("lonely", group="no-such-group")))
        idle = one(await planned(service, gang("idle", [role("w", 1, {})], minimum=1)))
        priority = await planned(service, {"apiVersion": "v1", "kind": "Pod"})
    assert (empty["verdict"], empty["jobs"]) == ("now", [])
    assert nothing["verdict"] in ("waits", "never", "now")
    assert (lonely["verdict"], lonely["reason"]) == ("waits", "Misconfigured")
    assert (idle["verdict"], idle["tasks"]["now"]) == ("now", 1)
    assert priority["verdict"] == "never"


async def test_a_plan_works_while_a_job_of_its_class_is_being_stored(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, storing, go_on = RedisLedger.store, asyncio.Event(), asyncio.Event()

    async def slow(self: RedisLedger, batch: IntakeBatch) -> IntakeReply:
        storing.set()
        await go_on.wait()
        return await store(self, batch)

    async with running(redis_url, tmp_path, shards=1) as service:
        await submit(service, node("n1"))
        monkeypatch.setattr(RedisLedger, "store", slow)
        async with asyncio.TaskGroup() as group:
            group.create_task(submit(service, job("first")))
            await storing.wait()
            plan = await planned(service, job("second"))
            go_on.set()
        assert one(plan)["verdict"] == "now", plan
