"""Volcano's scheduling gate is taken off once the pod's queue has room: one service, two shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from coordinator.core.reasons.reasons import why
from shard_worker.session_model.queue_totals import QUEUE_GATE
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import a_list, container, job, node, pod, queue, task
from tests.conftest import flush
from tests.end_to_end.one_process.harness import Running, running, submit

Json = dict[str, Any]
POLICY = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: capacity
"""
GATE = {"name": QUEUE_GATE}
OTHER = {"name": "example.com/budget"}


def gated(name: str, *gates: Json, cpu: str = "1", opted_in: str = "true") -> Json:
    """A pod of queue q."""
    new = pod(name, containers=[container(cpu)], schedulingGates=list(gates))
    new["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "q"}
    if opted_in:
        new["metadata"]["annotations"][QUEUE_GATE] = opted_in
    return new


async def pods(parts: Running) -> dict[str, tuple[str, list[str]]]:
    """Pod -> its phase, and the names of its gates."""
    path = "/api/v1/namespaces/ns/pods"
    async with aiohttp.ClientSession(parts.url) as client, client.get(path) as reply:
        items = (await reply.json())["items"]
    return {
        item["metadata"]["name"]: (
            item["status"]["phase"],
            [gate["name"] for gate in item["spec"].get("schedulingGates", ())],
        )
        for item in items
    }


async def until_waits(parts: Running, name: str, *, reason: str, text: str) -> None:
    """Until the pod's job waits for this."""
    core = parts.service.core

    def says(_: Json) -> bool:
        [state] = [state for state in core.order.jobs.values() if state.job.name == name]
        result = why(core, state)
        return result is not None and result.reason == reason and text in result.message

    await parts.until(says)


def policy(folder: Path) -> Path:
    file = folder / "policy.yaml"
    file.write_text(POLICY)
    return file


async def change(parts: Running, path: str, patch: Json | None) -> None:
    """Patch the object; None deletes it."""
    kind = {"Content-Type": "application/merge-patch+json"}
    async with aiohttp.ClientSession(parts.url) as client:
        call = (
            client.delete(path) if patch is None else client.patch(path, json=patch, headers=kind)
        )
        async with call as reply:
            assert reply.status == 200, await reply.text()


async def planned(parts: Running, *items: Json) -> list[Json]:
    path = "/apis/quadrant.dev/v1alpha1/plans"
    async with (
        aiohttp.ClientSession(parts.url) as client,
        client.post(path, json=a_list(*items)) as reply,
    ):
        plans: list[Json] = (await reply.json())["jobs"]
    return plans


async def test_a_gated_pod_runs_once_its_queue_has_room_and_not_before(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    """The queue has room for two: one pod of two comes in beside a pod without a gate."""
    flush(embedded_server)
    items = [node("n0"), node("n1"), queue("q", capability={"cpu": "2"})]
    async with running(embedded_server.url, short_dir, policy=policy(tmp_path)) as parts:
        await submit(parts, *items, gated("first", cpu="2", opted_in=""))
        await parts.until(lambda status: status["tasks"]["running"] == 1)
        waiting = [gated("second", GATE, cpu="2"), gated("third", GATE, cpu="2")]
        await submit(parts, *waiting)
        for name in ("second", "third"):
            await until_waits(parts, name, reason="WaitingForQuota", text="queue q")
        assert (await pods(parts))["second"] == ("Pending", [QUEUE_GATE])
        await change(parts, "/api/v1/namespaces/ns/pods/first", None)
        await parts.until(
            lambda status: status["jobs"]["deleted"] == status["tasks"]["running"] == 1
        )
        await until_waits(parts, "third", reason="WaitingForQuota", text="queue q")
        assert await pods(parts) == {
            "second": ("Running", []),
            "third": ("Pending", [QUEUE_GATE]),
        }
        parts.service.core.order.validate()


async def test_gates_of_others_stay_and_explain_tells_who_has_to_act(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    flush(embedded_server)
    async with running(embedded_server.url, short_dir, policy=policy(tmp_path)) as parts:
        await submit(parts, node("n0"), queue("q", capability={"cpu": "4"}))
        waiting = [gated("both", GATE, OTHER), gated("not-asked", GATE, opted_in="")]
        await submit(parts, *waiting, gated("runs", GATE))
        await parts.until(lambda status: status["tasks"]["running"] == 1)
        await until_waits(parts, "both", reason="Gated", text="whoever set those takes them away")
        await until_waits(parts, "not-asked", reason="Gated", text=f'{QUEUE_GATE}: "true"')
        assert await pods(parts) == {
            "both": ("Pending", [QUEUE_GATE, OTHER["name"]]),
            "not-asked": ("Pending", [QUEUE_GATE]),
            "runs": ("Running", []),
        }
        await change(
            parts, "/api/v1/namespaces/ns/pods/both", {"spec": {"schedulingGates": [GATE]}}
        )
        await parts.until(lambda status: status["tasks"]["running"] == 2)
        assert (await pods(parts))["both"] == ("Running", [])
        [plan] = await planned(parts, gated("next", GATE))
        assert (plan["verdict"], plan["nodes"]) == ("now", [{"node": "n0", "tasks": 1}])
        [plan] = await planned(parts, gated("wide", GATE, cpu="3"))
        assert (plan["verdict"], plan["reason"]) == ("waits", "WaitingForQuota")


async def test_pods_of_a_job_lose_their_gates_as_far_as_the_queue_has_room(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    """Also after the leader has changed. What is reserved for a pod without its gate, another pod
    of the queue does not get. The gates come with the annotation, as by Volcano's webhook."""
    flush(embedded_server)
    role = task("w", replicas=3)
    role["template"]["metadata"] = {"annotations": {QUEUE_GATE: "true"}}
    role["template"]["spec"]["nodeSelector"] = {"zone": "a"}
    # Its room is reserved before there is a node for it.
    items = [node("n0"), queue("q", capability={"cpu": "2"}), gated("late")]
    async with running(embedded_server.url, short_dir, policy=policy(tmp_path)) as parts:
        await submit(parts, *items[:2], job("j", tasks=[role], minAvailable=1, queue="q"))
        gates = [[QUEUE_GATE], [], []]
        await parts.until(
            lambda _: [r.count for r in _roles(parts) if not r.gated] == [2],
        )
        assert sorted((g for _, g in (await pods(parts)).values()), reverse=True) == gates
    async with running(embedded_server.url, short_dir, policy=policy(tmp_path)) as parts:
        await submit(parts, items[2])
        await until_waits(parts, "late", reason="WaitingForQuota", text="queue q")
        await submit(parts, node("n1", labels={"zone": "a"}))
        await parts.until(lambda status: status["tasks"]["running"] == 2)
        await until_waits(parts, "late", reason="WaitingForQuota", text="queue q")
        live = await pods(parts)
        waits: tuple[str, list[str]] = ("Pending", [QUEUE_GATE])
        runs: tuple[str, list[str]] = ("Running", [])
        assert sorted(live.values()) == [waits, waits, runs, runs]
        assert live["late"] == waits
        await submit(parts, items[2])
        assert (await pods(parts))["late"] == waits, "as first written, without the gate"
        parts.service.core.order.validate()


def _roles(parts: Running) -> Any:
    return [role for state in parts.service.core.order.jobs.values() for role in state.job.roles]


def asking_nothing(name: str, *gates: Json, opted_in: str = "true") -> Json:
    new = gated(name, *gates, opted_in=opted_in)
    new["spec"]["containers"] = [{"name": "c"}]
    return new


async def test_a_gated_pod_that_asks_for_nothing_runs_once_its_gate_is_gone(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    """Backfill places it; the gate of the queue goes by itself, for it takes nothing of a share,
    another when somebody removes it."""
    flush(embedded_server)
    async with running(embedded_server.url, short_dir, policy=policy(tmp_path)) as parts:
        await submit(parts, node("n0"), queue("q", capability={"cpu": "4"}))
        await submit(
            parts, asking_nothing("own", GATE), asking_nothing("other", OTHER, opted_in="")
        )
        await parts.until(lambda status: status["tasks"]["running"] == 1)
        await until_waits(parts, "other", reason="Gated", text="whoever set those takes them away")
        assert await pods(parts) == {"own": ("Running", []), "other": ("Pending", [OTHER["name"]])}
        patch = {"spec": {"schedulingGates": None}}
        await change(parts, "/api/v1/namespaces/ns/pods/other", patch)
        await parts.until(lambda status: status["tasks"]["running"] == 2)
        parts.service.core.order.validate()
