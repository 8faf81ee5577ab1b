"""Explain on a whole service: jobs that sessions place, why a pod is where it is, what would help.

Everywhere the same word: explain, describe's explanations, the event and the counts of top."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coordinator.service.metrics.pending_counts import reasons_in_steps
from shared.slices import at_once
from tests.builders.objects import GPU, Item, a_list, hyper_node, queue
from tests.coordinator.explain.cluster import (
    asking,
    explained,
    gang,
    job,
    node,
    role,
    settled,
    tried,
)
from tests.end_to_end.one_process.harness import Running, running, submit

NEAR = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: network-topology-aware
"""


def close(item: Item, tier: int) -> Item:
    item["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": tier}
    return item


async def words(service: Running, name: str) -> dict[str, Any]:
    """The word of a job wherever it is told."""
    core = service.service.core
    path = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/" + name
    async with asking(service) as client:
        async with client.get(path) as answer:
            body: Item = await answer.json()
        async with client.get("/api/v1/namespaces/default/events") as answer:
            events = (await answer.json())["items"]
    await service.until(lambda status: not status["open_turns"])
    top = at_once(reasons_in_steps(core, names=[]))  # counted without what an open turn holds
    printed = [
        event["message"].partition(":")[0]
        for event in events
        if event["involvedObject"]["name"].startswith(name) and event["type"] == "Warning"
    ]
    status = body["status"]
    return {
        "explanations": status["explanations"][0]["reason"],
        "event": printed[-1],
        "top": [*top],
    }


async def test_a_gang_larger_than_every_rack_gets_that_reason_and_a_remedy(
    tmp_path: Path, redis_url: str
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(NEAR)
    async with running(redis_url, tmp_path, shards=1, policy=policy) as service:
        await submit(
            service,
            *[node(f"n{n}", gpus=4) for n in range(4)],
            hyper_node("r0", "n0", "n1"),
            hyper_node("r1", "n2", "n3"),
            hyper_node("row", "r0", "r1", tier=2, kind="HyperNode"),
        )
        await settled(service, bound=0)
        await submit(service, close(job("near", 3, gpus=4), 1))
        await tried(service)
        explanation = await explained(service, "near")
        everywhere = await words(service, "near")
    assert explanation["reason"] == "TopologyPlacementFailed"
    assert explanation["message"] == f"16 {GPU} are free, no tier-1 domain has more than 8"
    word = explanation["reason"]
    assert everywhere == {"explanations": word, "event": word, "top": [word]}
    helps = {entry["change"]: entry["fits"] for entry in explanation["if"]}
    assert helps["one tier wider (highestTierAllowed 2)"] is True
    assert helps["topology as a wish (mode soft)"] is True
    assert explanation["nodes"]["total"] == 4 == explanation["nodes"]["fits"]


async def test_pods_that_keep_apart_are_counted_by_their_rule(
    tmp_path: Path, redis_url: str
) -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "web"}},
                }
            ]
        }
    }
    web = role("web", 3, {"cpu": "1"}, affinity=apart)
    web["template"]["metadata"] = {"labels": {"app": "web"}}
    async with running(redis_url, tmp_path, shards=1) as service:
        hosts = [node(n, labels={"kubernetes.io/hostname": n}) for n in ("a", "b")]
        await submit(service, *hosts)
        await settled(service, bound=0)
        await submit(service, gang("spread", [web], minimum=3))
        await tried(service)
        explanation = await explained(service, "spread")
        everywhere = await words(service, "spread")
    assert explanation["reason"] == "NotEnoughResources" == everywhere["explanations"]
    assert everywhere["event"] == explanation["reason"] and everywhere["top"] == [
        explanation["reason"]
    ]
    assert "2 didn't match pod anti-affinity rules" in explanation["message"]


async def test_a_selector_with_full_nodes_and_one_with_small_nodes(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, shards=1) as service:
        await submit(service, node("fast", gpus=4, labels={"fast": "yes"}), node("slow", gpus=8))
        await submit(service, job("runs", 1, gpus=3, nodeSelector={"fast": "yes"}))
        await settled(service, bound=1)
        for name, gpus in (("full", 2), ("small", 6)):
            await submit(service, job(name, 1, gpus=gpus, nodeSelector={"fast": "yes"}))
        core = service.service.core
        await service.until(
            lambda s: all(state.last for state in core.order.jobs.values() if state.info.pending)
        )
        reports = {name: await explained(service, name) for name in ("full", "small")}
        everywhere = {name: await words(service, name) for name in reports}
    assert reports["full"]["reason"] == everywhere["full"]["explanations"] == "Fragmented"
    assert (
        reports["small"]["reason"] == everywhere["small"]["explanations"] == "ExceedsNodeCapacity"
    )
    assert sorted(everywhere["small"]["top"]) == ["ExceedsNodeCapacity", "Fragmented"]
    assert f"one task asks 6 {GPU}" in reports["small"]["message"]


async def test_why_a_pod_is_where_it_is_with_each_plugins_part(
    tmp_path: Path, redis_url: str
) -> None:
    async with running(redis_url, tmp_path, shards=1) as service:
        await submit(
            service, node("small", cpu="8"), node("large", cpu="64"), node("other", cpu="4")
        )
        await settled(service, bound=0)
        await submit(service, job("runs", 1, cpu="2"))
        await settled(service, bound=1)
        explanation = await explained(service, "runs-worker-0", kind="pods")
        whole = await explained(service, "runs")
    here = explanation["here"]
    assert here == whole["here"]
    assert here["pod"] == "runs-worker-0"
    assert here["nodes"] == {"L1": 3, "L2": 0, "L3": 0, "L4": 0}
    finals = [one["final"] for one in here["candidates"]]
    assert finals == sorted(finals, reverse=True)
    (chosen,) = [one for one in here["candidates"] if one["chosen"]]
    assert chosen["node"] == explanation["pod"]["node"] == here["candidates"][0]["node"]
    assert set(chosen["scores"]) == set(here["plugins"]) == {"nodeorder"}
    assert chosen["final"] == sum(chosen["scores"].values())


async def test_more_quota_is_tried_by_a_session_too(tmp_path: Path, redis_url: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(NEAR)
    async with running(redis_url, tmp_path, shards=1, policy=policy) as service:
        lab = queue("lab", capability={GPU: "4"})
        await submit(service, node("a", gpus=8), hyper_node("r0", "a"), lab)
        await settled(service, bound=0)
        await submit(service, close(job("runs", 3, gpus=1, queue="lab"), 1))
        await settled(service, bound=3)
        await submit(service, close(job("more", 2, gpus=1, queue="lab"), 1))
        explanation = await explained(service, "more")
    assert explanation["reason"] == "WaitingForQuota"
    assert explanation["if"][0] == {
        "change": f"1 {GPU} more for queue lab",
        "fits": True,
        "starts": 2,
        "nodes": 0,
    }


async def test_a_plan_asks_a_session_about_jobs_of_session_turns(
    tmp_path: Path, redis_url: str
) -> None:
    near = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "db"}},
            }
        ]
    }
    beside = job("beside", 1, affinity={"podAntiAffinity": near})
    db = role("db", 1, {"cpu": "1"})
    db["template"]["metadata"] = {"labels": {"app": "db"}}
    nothing = gang("nothing", [role("worker", 1, {})], minimum=1)
    async with running(redis_url, tmp_path, shards=1) as service:
        await submit(service, node("a", labels={"kubernetes.io/hostname": "a"}))
        await settled(service, bound=0)
        before = service.service.core.order.spanning.any
        empty = await planned(service, beside)
        await submit(service, gang("db", [db], minimum=1))
        await settled(service, bound=1)
        full = await planned(service, beside)
        best_effort = await planned(service, nothing)
        assert service.service.core.order.spanning.any == before  # nothing of it is kept
    assert (empty["verdict"], empty["tasks"]["now"]) == ("now", 1)
    assert (full["verdict"], full["reason"]) == ("waits", "NotEnoughResources")
    assert "didn't match pod anti-affinity rules" in full["message"]
    assert (best_effort["verdict"], best_effort["tasks"]["now"]) == ("now", 1)


async def planned(service: Running, item: Item) -> Item:
    async with (
        asking(service) as client,
        client.post("/apis/quadrant.dev/v1alpha1/plans", json=a_list(item)) as answer,
    ):
        result: Item = await answer.json()
        assert answer.status == 200, result
        (report,) = result["jobs"]
        return dict(report)


async def test_a_pod_that_asks_for_nothing_is_explained_by_backfill(
    tmp_path: Path, redis_url: str
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(NEAR)
    async with running(redis_url, tmp_path, shards=1, policy=policy) as service:
        await submit(service, node("a", unschedulable=True))
        await settled(service, bound=0)
        await submit(service, gang("nothing", [role("worker", 1, {})], minimum=1))
        await tried(service)
        explanation = await explained(service, "nothing")
        everywhere = await words(service, "nothing")
    assert explanation["reason"] == everywhere["explanations"] == "NoMatchingNodes"
    assert everywhere["event"] == "NoMatchingNodes" and everywhere["top"] == ["NoMatchingNodes"]
    assert [check["check"] for check in explanation["nodes"]["first"]] == ["were unschedulable"]
