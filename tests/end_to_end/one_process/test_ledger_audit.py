"""Damage in the ledger of a running service: reported, and put right by the next leader.

It is written past the scripts, as sealed records, with the server's own client. The cluster and the
coordinator's books know nothing of it, so that nobody but the ledger audit can see it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis

from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.intake.documents.kinds import EVENT
from coordinator.ledger_audit import bind_watch, loop
from coordinator.ledger_audit.findings import AuditKind
from coordinator.service import reconcile_loop, service
from shared.ledger import codec, records
from shared.ledger.entries.audit import Table
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.entries.stored import TaskRecord
from shared.ledger.keys import BINDERS, key
from shared.ledger.protocol import Ledger
from shared.ledger.records import ALLOCATABLE, NOMINATED, OBSERVED, RELEASING, USED, pack_task
from shared.ledger.redis.client import RedisLedger
from shared.messages.messages import TaskState
from shared.units.slots import PODS
from tests.coordinator.controllers.support import ledger_of, submit
from tests.coordinator.ledger_audit.damage import held_off, node_off, queue_off, stray_thing
from tests.coordinator.ledger_audit.looking import write
from tests.end_to_end.one_process.harness import PATIENCE, Running, running
from tests.end_to_end.one_process.test_deletion import Moody, job, tasks
from tests.end_to_end.one_process.test_reconcile import node

pytestmark = pytest.mark.all

OFTEN: dict[str, Any] = {"ledger_audit_seconds": 0.02, "reconcile_seconds": 1000.0}
ROUNDS = 500
"""Rounds of a busy loop: 50 are enough where the machine has time for the audit's thread too."""
LEAF = 1
"""The number of the default queue's record, below the root."""


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow down the loops that would put such damage right first: the sweep of nominations and the
    comparison of foreign use. And let audits follow at once."""
    monkeypatch.setattr(service, "SWEEP_SECONDS", 1000.0)
    monkeypatch.setattr(reconcile_loop, "AGAIN_SECONDS", 1000.0)
    monkeypatch.setattr(loop, "AGAIN_SECONDS", 0.02)


@dataclass(frozen=True, slots=True)
class PlantedDamage:
    kind: AuditKind
    plant: Callable[[Ledger], Awaitable[None]]
    event: str
    """The kind of the object that tells it, "" where there is none."""


async def stray_task(ledger: Ledger) -> None:
    """Plant a task of a job without a record; its node counts it."""
    cid = min((await ledger.snapshot()).classes)
    task = TaskRecord(TaskState.RUNNING, 0, cid, 1)
    await write(ledger, Table.TASK, "999.3", pack_task(task, 999, 3))
    await node_off(ledger, 0, USED, 1000)
    await node_off(ledger, 0, USED, 1, slot=PODS)


async def stray_nomination(ledger: Ledger) -> None:
    cid = min((await ledger.snapshot()).classes)
    held = records.sealed(codec.pack([0, 1.0, 0.0, [[cid, 0, [0], [1], [3]]]]))
    await write(ledger, Table.NOMINATION, "998", held)
    await node_off(ledger, 1, NOMINATED, 1000)
    await node_off(ledger, 1, NOMINATED, 1, slot=PODS)


async def negative_counter(ledger: Ledger) -> None:
    await write(ledger, Table.DOMAIN, "term/zone", records.pack_count(-1))


def on_node(part: int, delta: int) -> Callable[[Ledger], Awaitable[None]]:
    return lambda ledger: node_off(ledger, 0, part, delta)


def on_queue(part: str, delta: int) -> Callable[[Ledger], Awaitable[None]]:
    async def plant(ledger: Ledger) -> None:
        queues = (await ledger.snapshot()).queues
        await queue_off(ledger, max(qid for qid in queues if queues[qid].used), part, delta)

    return plant


def on_group(held: int) -> Callable[[Ledger], Awaitable[None]]:
    async def plant(ledger: Ledger) -> None:
        await held_off(ledger, min((await ledger.snapshot()).jobs), 0, held)

    return plant


K = AuditKind
BINDING = TaskState.BINDING

CASES: dict[str, PlantedDamage] = {
    "node-used": PlantedDamage(K.NODE_USED, on_node(USED, 700), "Node"),
    "node-used-too-little": PlantedDamage(K.NODE_USED, on_node(USED, -300), "Node"),
    "node-releasing": PlantedDamage(K.NODE_RELEASING, on_node(RELEASING, 1000), "Node"),
    "node-nominated": PlantedDamage(K.NODE_NOMINATED, on_node(NOMINATED, 1000), "Node"),
    "thing": PlantedDamage(K.THING, lambda ledger: stray_thing(ledger, 0, "port/TCP/80"), "Node"),
    "queue-used": PlantedDamage(K.QUEUE_USED, on_queue("used", 5000), "Queue"),
    "queue-leaving": PlantedDamage(K.QUEUE_LEAVING, on_queue("leaving", 1000), "Queue"),
    "group-held": PlantedDamage(K.GROUP_HELD, on_group(5), "Job"),
    "task-without-job": PlantedDamage(K.TASK_WITHOUT_JOB, stray_task, "Node"),
    "nomination-without-job": PlantedDamage(K.NOMINATION_WITHOUT_JOB, stray_nomination, "Node"),
    "negative-used": PlantedDamage(K.NEGATIVE, on_node(USED, -8000), "Node"),
    "negative-capacity": PlantedDamage(K.NEGATIVE, on_node(ALLOCATABLE, -9000), "Node"),
    "negative-use-by-others": PlantedDamage(K.NEGATIVE, on_node(OBSERVED, -1), "Node"),
    "negative-queue": PlantedDamage(K.NEGATIVE, on_queue("used", -8000), "Queue"),
    "negative-group": PlantedDamage(K.NEGATIVE, on_group(-1), "Job"),
    "negative-counter": PlantedDamage(K.NEGATIVE, negative_counter, ""),
}


def totals(snapshot: Snapshot) -> Any:
    """All that a recount may have to put right; versions of nodes rise with it."""
    nodes = [records.unpack_node(record)[2] for record in snapshot.nodes.records]
    things = [(row, name) for row, name, _ in snapshot.nodes.things]
    return nodes, things, snapshot.queues, snapshot.jobs, snapshot.tasks, snapshot.nominations


async def alarm(service: Running, case: PlantedDamage) -> str:
    """Wait for the alarm, and return the message in ``/health``."""
    figures = service.service.core.tally.ledger_audit
    deadline = time.monotonic() + PATIENCE
    while not figures.found[case.kind.value]:
        assert time.monotonic() < deadline, figures
        await asyncio.sleep(0.02)
    async with aiohttp.ClientSession() as http, http.get(f"{service.url}/health") as answer:
        body = await answer.json()
    label = f'kind="{case.kind.value}"'
    assert f"quadrant_ledger_audit_findings_total{{{label}}} 1.0" in await series(service)
    assert (body["healthy"], body["ready"]) == (False, True)
    checks = {check["name"]: check["message"] for check in body["checks"]}
    return str(checks["ledger_audit"])


async def series(service: Running) -> str:
    async with aiohttp.ClientSession() as http, http.get(f"{service.url}/metrics") as answer:
        return await answer.text()


def events(service: Running, kind: str) -> list[str]:
    """Audit messages in the events of objects of a kind."""
    listed = service.service.objects.list(EVENT, namespace=None, limit=None).items
    objects = [entry.object() for entry in listed]
    return [
        event["message"]
        for event in objects
        if event["reason"] == "LedgerContradiction" and event["involvedObject"]["kind"] == kind
    ]


@pytest.mark.parametrize("name", CASES)
async def test_damage_raises_the_alarm_and_is_put_right_by_the_next_leader(
    tmp_path: Path, redis_url: str, name: str
) -> None:
    ledger = RedisLedger(redis_url)
    try:
        await damaged(tmp_path, redis_url, CASES[name], ledger)
    finally:
        await ledger.close()


async def damaged(tmp_path: Path, url: str, case: PlantedDamage, ledger: RedisLedger) -> None:
    kubelets = LocalCluster(speedup=1e-6)
    async with running(url, tmp_path, kubelets=kubelets, **OFTEN) as service:
        await submit(service, node("n0"), node("n1"), job("a", 3))
        await service.until(tasks(running=3))
        before = totals(await ledger_of(service))
        await case.plant(ledger)
        damaged = totals(await ledger_of(service))
        assert damaged != before or case.event == ""
        message = await alarm(service, case)
        assert case.kind.value in message and "restart the leader" in message
        if case.event:
            assert any(case.kind.value in text for text in events(service, case.event))
        assert totals(await ledger_of(service)) == damaged
    async with running(url, tmp_path, kubelets=kubelets, **OFTEN) as service:
        assert totals(await ledger_of(service)) == before
        label = f'kind="{case.kind.value}"'
        assert f"quadrant_ledger_audit_recounted_total{{{label}}} 1.0" in await series(service)
        await submit(service, job("b", 1))
        await service.until(tasks(running=4))
        assert not service.service.core.tally.ledger_audit.found
        service.service.core.validate()


async def test_a_bind_that_nobody_will_drive_is_driven_under_the_next_leader(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry is acknowledged and the answer was never recorded. The first leader after that sees
    it; the second one, which was asked to recount, drives it."""
    monkeypatch.setattr(bind_watch, "BIND_SECONDS", 0.3)
    kubelets = Moody()
    kubelets.deaf_to.add("bind")
    async with running(redis_url, tmp_path, kubelets=kubelets, **OFTEN) as service:
        await submit(service, node("n0"), job("a", 2))
        await service.until(lambda _: service.service.core.order.accounts.tasks[BINDING] == 2)
    with redis.Redis.from_url(redis_url, protocol=2) as client:
        entries = [entry for entry, _ in client.xrange(key("binds"))]
        assert client.xack(key("binds"), BINDERS, *entries) == len(entries) > 0
    kubelets.deaf_to.clear()
    async with running(redis_url, tmp_path, kubelets=kubelets, **OFTEN) as service:
        figures = service.service.core.tally.ledger_audit
        await service.until(lambda _: bool(figures.found))
        assert figures.found == {K.BIND_LOST: 2}
        assert events(service, "Pod")
        assert K.BIND_LOST.value in figures.message()
        assert service.service.core.order.accounts.tasks[BINDING] == 2
    async with running(redis_url, tmp_path, kubelets=kubelets, **OFTEN) as service:
        await service.until(tasks(running=2))
        assert service.service.core.tally.ledger_audit.recounted == {K.BIND_LOST: 2}
        held = (await ledger_of(service)).tasks
        assert {task.state for of in held.values() for task in of.values()} == {TaskState.RUNNING}


async def test_a_right_ledger_is_never_found_wrong(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, ledger_audit_seconds=0.0, speedup=1.0) as service:
        await submit(service, node("n0"), node("n1"), *(job(f"j{i}", 2) for i in range(3)))
        await service.until(tasks(running=6))
        figures = service.service.core.tally.ledger_audit
        looks = figures.looks
        deadline = time.monotonic() + PATIENCE
        while figures.looks < looks + 3:
            assert time.monotonic() < deadline, figures
            await asyncio.sleep(0.02)
        assert not figures.found
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{service.url}/health") as answer,
        ):
            assert (await answer.json())["healthy"]


async def test_looks_end_beside_a_loop_that_is_always_busy(tmp_path: Path, redis_url: str) -> None:
    """Every round of the loop takes 30 ms, and the log grows with each: as under load."""
    async with running(redis_url, tmp_path, ledger_audit_seconds=0.0) as service:
        await submit(service, node("n0"), job("a", 3))
        await service.until(tasks(running=3))
        figures = service.service.core.tally.ledger_audit
        looks = figures.looks
        for number in range(ROUNDS):
            if number >= 50 and figures.looks - looks >= 3:
                break
            end = time.thread_time() + 0.03
            while time.thread_time() < end:
                pass
            if number % 5 == 0:
                await submit(service, job(f"more-{number}", 1))
            await asyncio.sleep(0)
        assert figures.looks - looks >= 3
        assert not figures.found
