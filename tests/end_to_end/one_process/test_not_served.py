"""Fields that the policy in force does not serve: the job waits, named, and is placed as soon as a
policy serves it. About 2 s a test: one service, two shards."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from coordinator.core.reasons.reasons import why
from laboratory.workloads.bulk_client import BASE
from shard_worker.session_model.demands import DEMANDS, Demand
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.reason import Reason
from tests.builders.objects import a_list, container, hyper_node, job, node, pod, task
from tests.conftest import flush
from tests.end_to_end.one_process.demands import examples
from tests.end_to_end.one_process.harness import Running, running, submit

PLAIN = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: predicates
"""
WITH_TOPOLOGY = PLAIN + "  - name: network-topology-aware\n"


async def nodes_of_pods(parts: Running) -> Counter[str]:
    """How many pods each node has; "" for those without one."""
    path = "/api/v1/namespaces/ns/pods"
    async with aiohttp.ClientSession(parts.url) as client, client.get(path) as reply:
        pods = (await reply.json())["items"]
    return Counter(pod["spec"].get("nodeName", "") for pod in pods)


def not_served(parts: Running) -> dict[Demand, str]:
    """The message of each job that waits for a plugin, by the demand that the job is named for."""
    core, messages = parts.service.core, {}
    for state in core.order.jobs.values():
        reason = why(core, state)
        if reason is not None and reason.reason is Reason.NOT_SERVED:
            messages[Demand[state.job.name.upper().replace("-", "_")]] = reason.message
    return messages


async def test_a_hard_topology_waits_until_a_policy_serves_it(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(PLAIN)
    flush(embedded_server)
    racks = [("r0", "n0", "n1"), ("r1", "n2", "n3")]
    items = [node(name) for _, *nodes in racks for name in nodes]
    items += [hyper_node(*rack) for rack in racks]
    hard = {"mode": "hard", "highestTierAllowed": 1}
    together = job("together", tasks=[task("w", replicas=12)], networkTopology=hard)
    anywhere = job("anywhere", tasks=[task("w", replicas=12)])
    async with running(embedded_server.url, short_dir, policy=file) as parts:
        await submit(parts, *items, together)
        await parts.until(lambda status: status["pending_reasons"].get("NotServed") == 1)
        await submit(parts, anywhere)
        await parts.until(lambda status: status["tasks"]["running"] == 12)
        assert parts.service.status()["tasks"]["pending"] == 12
        async with aiohttp.ClientSession(parts.url) as client:
            path = "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/together"
            async with client.get(path) as reply:
                text = await reply.text()
            async with client.delete(path.replace("together", "anywhere")) as reply:
                assert reply.status == 200
        assert (
            "does not serve networkTopology (mode hard): add plugin network-topology-aware" in text
        )
        await parts.until(lambda status: status["tasks"]["running"] == 0)
        file.write_text(WITH_TOPOLOGY)
        await parts.until(lambda status: status["tasks"]["running"] == 12)
        where = await nodes_of_pods(parts)
    assert set(where) in ({"n0", "n1"}, {"n2", "n3"})


BARE = """
actions: "allocate"
tiers:
- plugins:
  - name: priority
"""
EVERYTHING = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: network-topology-aware
  - name: nodegroup
  - name: numa-aware
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.GPUSharingEnable: true
"""


async def test_every_field_of_the_table_is_named_and_looked_at_again_when_a_policy_serves_it(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    objects = examples()
    assert set(objects) == set(Demand) == set(DEMANDS)
    file = tmp_path / "policy.yaml"
    file.write_text(BARE)
    flush(embedded_server)
    async with running(embedded_server.url, short_dir, policy=file) as parts:
        await submit(parts, *[node(f"n{i}") for i in range(4)])
        await submit(parts, *[item for items in objects.values() for item in items])
        await submit(parts, job("plain", tasks=[task("w", replicas=1)]))
        await parts.until(lambda status: status["pending_reasons"] == {"NotServed": len(DEMANDS)})
        await parts.until(lambda status: status["tasks"]["running"] == 1)
        waiting = not_served(parts)
        assert set(waiting) == set(DEMANDS)
        for demand, message in waiting.items():
            entry = DEMANDS[demand]
            assert f"{entry.field}: " in message
            assert f"add plugin {entry.plugin}" in message or not entry.plugin, message
        file.write_text(EVERYTHING)
        await parts.until(lambda status: status["pending_reasons"].get("NotServed") == 4)
        unserved = {
            Demand.GPU_FRACTION,
            Demand.GPU_NUMBER,
            Demand.VGPU_PERCENTAGE,
            Demand.CARD_CHOICE,
        }
        assert set(not_served(parts)) == unserved
        # No node has what the others ask for, and no worker of the policy before places them.
        jobs = parts.service.core.order.jobs.values()
        others = [state for state in jobs if state.job.name != "plain"]
        await parts.until(
            lambda status: (
                not status["open_turns"]
                and all(state.last or state.reason is Reason.NOT_SERVED for state in others)
            )
        )
        assert all(state.unplaced for state in others)


# --- pods of other schedulers -----------------------------------------------------------------


async def test_they_use_their_nodes_and_are_left_to_the_scheduler_that_they_name(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    flush(embedded_server)
    nodes = [node("n0"), node("n1")]
    theirs = [
        pod("waits", schedulerName="kai-scheduler"),
        pod("runs", schedulerName="kai-scheduler", nodeName="n0", containers=[container("7")]),
        job("all", tasks=[task("w", replicas=1)], schedulerName="kai-scheduler"),
    ]
    names = ("default-scheduler", "volcano", "quadrant", "")
    ours = [pod(f"ours-{i}", schedulerName=name) for i, name in enumerate(names)]
    filling = [pod(f"f{i}", containers=[container("2")]) for i in range(4)]
    async with running(embedded_server.url, short_dir, reconcile_seconds=0.1) as parts:
        await submit(parts, *nodes)
        await submit(parts, *theirs)
        await parts.until(lambda _: any(parts.service.core.observed.values()))
        await submit(parts, *ours, *filling)
        status = await parts.until(
            lambda s: s["tasks"]["running"] == 6 and s["pending_reasons"].get("OtherScheduler") == 3
        )
        assert status["tasks"]["pending"] == 5  # three of theirs, two that n0 has no room for
        async with aiohttp.ClientSession(parts.url) as client:
            async with client.get("/api/v1/namespaces/ns/pods") as reply:
                pods = {p["metadata"]["name"]: p for p in (await reply.json())["items"]}
            async with client.delete("/api/v1/namespaces/ns/pods/runs") as reply:
                assert reply.status == 200
        assert pods["runs"]["spec"]["nodeName"] == "n0"
        assert "nodeName" not in pods["waits"]["spec"]
        assert "kai-scheduler places it, not we" in orjson.dumps(pods["waits"]).decode()
        await parts.until(lambda s: s["tasks"]["running"] == 8)


async def test_the_setting_names_ours(embedded_server: EmbeddedServer, short_dir: Path) -> None:
    flush(embedded_server)
    pods = [pod("a", schedulerName="mine"), pod("b", schedulerName="volcano"), pod("c")]
    async with running(embedded_server.url, short_dir, scheduler_names="mine, yours") as parts:
        await submit(parts, node("n0"), *pods)
        status = await parts.until(lambda s: s["tasks"]["running"] == 2)
        assert status["pending_reasons"] == {"OtherScheduler": 1}


# --- what is said to the author ---------------------------------------------------------------


async def posted(parts: Running, path: str, item: dict[str, Any]) -> list[str]:
    """The Warning headers of a POST that is taken."""
    async with aiohttp.ClientSession(parts.url) as client, client.post(path, json=item) as reply:
        assert reply.status == 201, await reply.text()
        return reply.headers.getall("Warning", [])


BATCH = "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs"
POLICIES = "/apis/policy/v1/namespaces/ns/poddisruptionbudgets"


async def test_the_author_is_warned_of_what_the_policy_does_not_serve(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(BARE)
    flush(embedded_server)
    hard = {"mode": "hard", "highestTierAllowed": 1}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    one = [task("w", replicas=1)]
    async with running(embedded_server.url, short_dir, policy=file) as parts:
        await submit(parts, node("n0"))
        [waits] = await posted(parts, BATCH, job("hard", tasks=one, networkTopology=hard))
        assert "it is kept and waits (NotServed)" in waits
        assert "networkTopology (mode hard): add plugin network-topology-aware" in waits
        [alone] = await posted(
            parts, BATCH, job("gang", tasks=[task("w", replicas=2)], minAvailable=2)
        )
        assert "so tasks start one by one, as each finds room: add plugin gang" in alone
        [budgets] = await posted(parts, POLICIES, budget)
        assert "add plugin pdb to the policy" in budgets
        assert await posted(parts, BATCH, job("plain", tasks=one)) == []
        body = [job(f"l{i}", tasks=one, networkTopology=hard) for i in range(120)]
        async with (
            aiohttp.ClientSession(parts.url) as client,
            client.post(f"{BASE}/lists", json=a_list(*body)) as reply,
        ):
            notices = (await reply.json())["notices"]
        assert [(notice["name"], notice["count"]) for notice in notices] == [("ns/l0", 120)]
        file.write_text(EVERYTHING + "  - name: pdb\n")
        await parts.until(lambda status: "NotServed" not in status["pending_reasons"])
        assert await posted(parts, BATCH, job("later", tasks=one, networkTopology=hard)) == []


async def test_a_tier_that_no_hyper_node_has_keeps_a_hard_job_waiting(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    """It was no limit at all: 12 tasks ran over both racks."""
    file = tmp_path / "policy.yaml"
    file.write_text(WITH_TOPOLOGY)
    flush(embedded_server)
    racks = [hyper_node("r0", "n0", "n1"), hyper_node("r1", "n2", "n3")]
    hard = {"mode": "hard", "highestTierName": "rack"}
    async with running(embedded_server.url, short_dir, policy=file) as parts:
        await submit(parts, *[node(f"n{i}") for i in range(4)], *racks)
        together = job("together", tasks=[task("w", replicas=12)], networkTopology=hard)
        [warning] = await posted(parts, BATCH, together)
        assert "no hyper node has tierName rack (no tier has a name)" in warning
        await parts.until(lambda status: status["pending_reasons"].get("NotServed") == 1)
        named = [{**rack, "spec": {**rack["spec"], "tierName": "rack"}} for rack in racks]
        await submit(parts, *named)
        await parts.until(lambda status: status["tasks"]["running"] == 12)
        where = await nodes_of_pods(parts)
        async with aiohttp.ClientSession(parts.url) as client:
            for rack in ("r0", "r1"):
                path = f"/apis/topology.volcano.sh/v1alpha1/hypernodes/{rack}"
                async with client.delete(path) as reply:
                    assert reply.status == 200
        again = job("again", tasks=[task("w", replicas=2)], networkTopology=hard)
        assert len(await posted(parts, BATCH, again)) == 1
        await parts.until(lambda status: status["pending_reasons"].get("NotServed") == 1)
    assert set(where) in ({"n0", "n1"}, {"n2", "n3"})
