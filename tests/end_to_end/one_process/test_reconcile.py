"""The cluster is right: what the ledger believed otherwise is repaired, on a real server."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis

from coordinator.cluster.protocol import BindAnswers, BindRequests, Phase
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.faulty import Faults, FaultyCluster
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import EVENT, NODE, POD
from coordinator.objects.columns import pod_status
from shared.codec.packed import replace
from shared.ledger.redis.client import RedisLedger
from shared.messages.messages import StatusItem, TaskState
from shared.records.quarantine import quarantined_row
from shared.units.slots import CPU
from tests.builders import objects
from tests.builders.objects import Item
from tests.coordinator.controllers.support import ledger_of, submit
from tests.end_to_end.one_process.harness import PATIENCE, Running, running
from tests.end_to_end.one_process.test_deletion import job, tasks

OFTEN: dict[str, Any] = {"reconcile_seconds": 0.1}


def node(name: str, cpu: int = 4) -> Item:
    return objects.node(name, cpu=cpu)


async def where(service: Running) -> dict[str, tuple[str, str]]:
    """Task -> (state, node) as the ledger has it."""
    snapshot, names = await ledger_of(service), service.service.core.names
    return {
        f"{jid}.{tix}": (TaskState(task.state).name, names[task.row])
        for jid, held in snapshot.tasks.items()
        for tix, task in held.items()
    }


def running_at(kubelets: LocalCluster) -> dict[str, tuple[str, str]]:
    """Task -> (phase, node) of those that are on a node. A listing has those too that ended and
    whose last report nobody acknowledged yet: they hold nothing any more."""
    listed = kubelets.listing("")
    columns = zip(listed.tasks, listed.nodes, listed.phases, strict=True)
    return {
        task: (Phase(phase).name, node)
        for task, node, phase in columns
        if phase in (Phase.BOUND, Phase.RUNNING, Phase.RELEASING)
    }


async def agreed(service: Running, kubelets: LocalCluster, count: int) -> None:
    """Ledger and cluster say the same of so many running tasks, and the books add up."""
    deadline = time.monotonic() + PATIENCE
    while await where(service) != running_at(kubelets) or len(running_at(kubelets)) != count:
        assert time.monotonic() < deadline, (await where(service), running_at(kubelets))
        await asyncio.sleep(0.02)
    service.service.core.validate()
    snapshot = await ledger_of(service)
    held = {qid: queue.used.get(CPU) for qid, queue in snapshot.queues.items() if queue.used}
    assert set(held.values()) == {1000 * count}


def repaired(service: Running) -> dict[str, int]:
    return dict(service.service.core.tally.repaired)


class RivalCluster(LocalCluster):
    """Another writer is quicker: the first bind of a task goes to another node than asked."""

    def __init__(self, nodes: list[str]) -> None:
        super().__init__(grace=0.01)
        self.nodes = nodes

    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        for i, task in enumerate(requests.tasks):
            if not self.knows(task):
                other = next(name for name in self.nodes if name != requests.nodes[i])
                one = BindRequests([task], [requests.uids[i]], [requests.pods[i]], [other], [None])
                super().bind(one, now)
        return super().bind(requests, now)


async def test_a_pod_bound_to_another_node_is_adopted_there(tmp_path: Path, redis_url: str) -> None:
    kubelets = RivalCluster(["n0", "n1"])
    async with running(redis_url, tmp_path, kubelets=kubelets, **OFTEN) as service:
        await submit(service, node("n0"), node("n1"), job("a", 3))
        await agreed(service, kubelets, 3)
        assert repaired(service)["elsewhere"] == 3
        assert service.service.core.tally.unexplained.get("orphan", 0) == 0


async def test_a_lost_member_stays_lost_and_the_rest_of_its_gang_is_released_in_time(
    tmp_path: Path, redis_url: str
) -> None:
    kubelets = LocalCluster(grace=0.01)
    settings: dict[str, Any] = {**OFTEN, "gang_repair_seconds": 0.3}
    async with running(redis_url, tmp_path, kubelets=kubelets, **settings) as service:
        await submit(service, node("n0"), job("a", 3))
        await agreed(service, kubelets, 3)
        kubelets.lose(["0.1"], time.time())
        await service.until(tasks(running=0, finished=3))
        assert repaired(service)["lost"] == 1
        assert service.service.core.order.gangs.released == 1
        assert running_at(kubelets) == {}
        states = {task: state for task, (state, _) in (await where(service)).items()}
        assert states == {"0.0": "FAILED", "0.1": "LOST", "0.2": "FAILED"}
        live = service.service.objects.get(POD, "ns", "a-a-1")
        assert live is not None
        status = live["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "NodeLost")
        assert pod_status(live) == "NodeLost"
        events = service.service.objects.list(EVENT, namespace="ns", limit=None).items
        assert "GangReleased" in {event.field("reason") for event in events}


async def test_foreign_usage_is_not_scheduled_over(tmp_path: Path, redis_url: str) -> None:
    kubelets = LocalCluster(grace=0.01)
    kubelets.occupy("n0", {"cpu": 3000, "unheard-of": 1})
    kubelets.occupy("not-ours", {"cpu": 3000})
    async with running(redis_url, tmp_path, kubelets=kubelets, **OFTEN) as service:
        await submit(service, node("n0"))
        await service.until(lambda _: service.service.core.observed == {0: {CPU: 3000}})
        await submit(service, job("a", 2))
        await service.until(tasks(pending=2))
        await asyncio.sleep(0.3)
        assert running_at(kubelets) == {}
        kubelets.occupy("n0", {})
        await agreed(service, kubelets, 2)


async def test_books_that_are_not_the_ledgers_are_read_anew(tmp_path: Path, redis_url: str) -> None:
    kubelets = LocalCluster(grace=0.01)
    async with running(redis_url, tmp_path, kubelets=kubelets) as service:
        await submit(service, node("n0"), job("a", 3))
        await agreed(service, kubelets, 3)
        core = service.service.core
        core.recorded([StatusItem(TaskState.SUCCEEDED, 0, [1], [0])], [[1]])  # nobody recorded it
        await service.until(lambda _: repaired(service).get("books") == 1)
        await service.until(tasks(running=3))
        core.validate()
        assert core.dispatcher.idle_of(0)[CPU] == 1000


async def test_a_placement_during_the_audit_is_no_difference(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit reads a job that waits; before the answer is here its turn has come and gone."""
    kubelets = LocalCluster(grace=0.01)
    read, late = RedisLedger.read_tasks, asyncio.Event()

    async def slow(self: RedisLedger, jids: list[int]) -> Any:
        read_result = await read(self, jids)
        state = service.service.core.order.jobs.get(0)
        if state is not None and not late.is_set():
            late.set()
            await submit(service, node("n0"))
            await service.until(lambda _: bool(state.states[0]))
        return read_result

    async with running(redis_url, tmp_path, kubelets=kubelets) as service:
        await submit(service, job("a", 1))
        monkeypatch.setattr(RedisLedger, "read_tasks", slow)
        await asyncio.wait_for(late.wait(), PATIENCE)
        await agreed(service, kubelets, 1)
        assert repaired(service) == {}


# --- an old copy of the ledger ----------------------------------------------------------------


def copy(url: str) -> dict[bytes, Any]:
    with redis.Redis.from_url(url, protocol=2) as client:
        return {key: client.dump(key) for key in client.keys("*")}


def restore(url: str, records: dict[bytes, Any]) -> None:
    with redis.Redis.from_url(url, protocol=2) as client:
        client.flushall()
        for key, value in records.items():
            client.restore(key, 0, value)


async def test_an_old_copy_of_the_ledger_follows_the_cluster(
    tmp_path: Path, redis_url: str
) -> None:
    """Copied before anything was placed; what was submitted later is not known to it at all."""
    kubelets = LocalCluster(grace=0.01)
    async with running(redis_url, tmp_path, kubelets=kubelets, **OFTEN) as service:
        await submit(service, job("a", 3), job("b", 2))
        old = copy(redis_url)
        await submit(service, node("n0"), node("n1"), job("c", 1))
        await agreed(service, kubelets, 6)
    before = running_at(kubelets)
    restore(redis_url, old)
    async with running(redis_url, tmp_path, kubelets=kubelets, **OFTEN) as service:
        await submit(service, node("n0"), node("n1"), job("d", 1))
        core = service.service.core
        assert core.order.jobs.keys() == {0, 1, 3}  # the number of c is not given out again
        await service.until(tasks(running=6, pending=0))
        await service.until(lambda _: core.tally.unexplained.get("orphan") == 1)
        result = running_at(kubelets)
        assert {task: at for task, at in result.items() if task != "3.0"} == before
        places = await where(service)
        assert places == {task: at for task, at in result.items() if task != "2.0"}
        core.validate()


async def statuses(service: Running) -> dict[str, str]:
    """Column Status of ``get nodes``, by name."""
    header = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    url = f"{service.url}/api/v1/nodes"
    async with aiohttp.ClientSession(headers=header) as http, http.get(url) as answer:
        table = await answer.json()
    names = [column["name"] for column in table["columnDefinitions"]]
    name, status = names.index("Name"), names.index("Status")
    return {row["cells"][name]: row["cells"][status] for row in table["rows"]}


# --- nodes that refuse ------------------------------------------------------------------------


async def test_a_node_that_refuses_is_set_aside_for_all_and_comes_back(
    tmp_path: Path, redis_url: str
) -> None:
    """Among twelve nodes some are broken by seed; all jobs get their place on the others."""
    kubelets = FaultyCluster(LocalCluster(grace=0.01), Faults(broken=0.1), 0)
    nodes = [node(f"n{i}", cpu=2) for i in range(12)]
    broken = {f"n{i}" for i in range(12) if kubelets._refuses_all(f"n{i}")}
    assert len(broken) == 1
    settings: dict[str, Any] = {"node_quarantine_seconds": 600.0, "node_refusals": 3}
    async with running(redis_url, tmp_path, kubelets=kubelets, **settings) as service:
        core = service.service.core
        await submit(service, *nodes)
        await submit(service, *[job(f"j{i}", 1) for i in range(20)])
        await service.until(tasks(running=20))
        await service.until(lambda _: {core.names[row] for row in core.quarantines.now} == broken)
        stored = (await ledger_of(service)).objects
        assert [
            core.names[quarantined_row(key)] for key in stored if quarantined_row(key) >= 0
        ] == [*broken]
        live = service.service.objects.get(NODE, "", *broken)
        assert live is not None
        (condition,) = [c for c in live["status"]["conditions"] if c["type"] == "SetAside"]
        assert "NodeBroken" in condition["message"]
        assert await statuses(service) == {"n0": "Ready,SetAside"} | {
            f"n{i}": "Ready" for i in range(1, 12)
        }
        reports = [(t.about, t.happening.reason) for t in service.service.objects.cluster_events]
        assert (Key("Node", "", *broken), "NodeSetAside") in reports
        refused = kubelets.drain()
        assert sum("REFUSED" in event.answers for event in refused) <= 20
        # Its time comes when all of this was seen, however long that took.
        ((row, quarantine),) = core.quarantines.now.items()
        assert quarantine.until - quarantine.since == pytest.approx(600.0)
        core.quarantines.now[row], core.quarantines._due = (
            replace(quarantine, until=0.0),
            [(0.0, row)],
        )
        await service.until(lambda _: not core.quarantines.now)
        assert not any(quarantined_row(key) >= 0 for key in (await ledger_of(service)).objects)


async def test_a_successor_knows_which_nodes_are_set_aside(tmp_path: Path, redis_url: str) -> None:
    kubelets = FaultyCluster(LocalCluster(grace=0.01), Faults(broken=0.1), 0)
    nodes = [node(f"n{i}", cpu=1) for i in range(12)]
    async with running(redis_url, tmp_path, kubelets=kubelets, node_refusals=2) as service:
        await submit(service, *nodes, *[job(f"j{i}", 1) for i in range(12)])
        await service.until(tasks(running=11))
        await service.until(lambda _: len(service.service.core.quarantines.now) == 1)
        quarantines = dict(service.service.core.quarantines.now)
    kubelets.drain()
    async with running(redis_url, tmp_path, kubelets=kubelets, node_refusals=2) as service:
        assert service.service.core.quarantines.now == quarantines
        await asyncio.sleep(0.5)
        assert not any("REFUSED" in event.answers for event in kubelets.drain())
        await service.until(tasks(running=11, pending=1))
        reasons = service.service.status()["pending_reasons"]
        assert set(reasons) <= {"NotEnoughResources", "Fragmented"}, reasons


async def test_a_driver_that_is_silent_half_of_the_time_is_asked_again(
    tmp_path: Path, redis_url: str
) -> None:
    faults = Faults(silent_before=0.3, silent_after=0.3, refuse=0.1, duplicate=0.3)
    inner = LocalCluster(grace=0.01)
    kubelets = FaultyCluster(inner, faults, 7)
    async with running(redis_url, tmp_path, kubelets=kubelets, **OFTEN) as service:
        await submit(service, *[node(f"n{i}") for i in range(3)])
        await submit(service, *[job(f"j{i}", 2) for i in range(5)])
        await agreed(service, inner, 10)
        assert not {"lost", "forgotten", "revived"} & repaired(service).keys()
