"""Counts of who waits give the loop back, and are those of one walk for all who ask at once."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.service.metrics import sliced_counts
from coordinator.service.metrics.pending_counts import (
    reasons_in_steps,
    waiting_in_steps,
)
from coordinator.service.metrics.sliced_counts import FEW_LINES, WaitingCounts
from shared.model.model import Queue, TaskClass
from shared.slices import at_once
from shared.units.slots import BASE, CPU, PODS
from tests.builders.rows import job
from tests.coordinator.order.helpers import order, turns

LINES = FEW_LINES + 100


def waiting(lines: int) -> Coordinator:
    """A cluster of 16 cores, and so many jobs that ask for different amounts of them."""
    new_order = order(queues=("a", "b"))
    new_order.accounts.classes.update(
        {cid: TaskClass(requests=((CPU, 900 + cid), (PODS, 1))) for cid in range(lines)}
    )
    for jid in range(lines):
        new_order.put_job(job(jid, cid=jid, queue="b" if jid % 7 == 0 else "a"))
    turns(new_order)
    return Coordinator(new_order, Dispatcher(1))


async def test_a_long_walk_yields_to_the_loop_and_counts_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sliced_counts, "SLICE_SECONDS", 0.0)
    core = waiting(LINES)
    counts, others = WaitingCounts(core, lambda: list(BASE)), 0

    async def somebody_else() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(somebody_else())
    await counts.reasons.refresh()
    assert others > FEW_LINES / 2
    await counts.waiting.refresh()
    beside.cancel()
    assert counts.reasons() == at_once(reasons_in_steps(core, names=BASE))
    now = at_once(waiting_in_steps(core, core.order.now, names=BASE))
    assert (counts.waiting().tasks, counts.waiting().jobs) == (now.tasks, now.jobs)
    assert sum(counts.reasons().values()) == LINES


async def test_concurrent_requests_share_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_counts, "GOOD_FOR", 10**9)
    core, walks = waiting(LINES), 0

    def counted(*args, **options):  # type: ignore[no-untyped-def]
        nonlocal walks
        walks += 1
        return reasons_in_steps(*args, **options)

    monkeypatch.setattr(sliced_counts, "reasons_in_steps", counted)
    counts = WaitingCounts(core, lambda: list(BASE))
    await asyncio.gather(*(counts.reasons.refresh() for _ in range(20)))
    counts.reasons()
    assert walks == 1


async def test_few_lines_are_counted_as_they_stand() -> None:
    core = waiting(20)
    counts = WaitingCounts(core, lambda: list(BASE))
    await counts.reasons.refresh()
    before = dict(counts.reasons())
    core.order.put_job(job(1_000, queue="nobody's"))
    assert counts.reasons() == {**before, "Misconfigured": 1}


def test_unvisited_lines_beyond_the_queue_limit_have_that_reason() -> None:
    """A search leaves them out, where a scan would note it with the first job of each. Two of them
    fit into the queue, and the cluster has room for all."""
    new_order = order(nodes=100, cpus=16, window=64)
    new_order.accounts.classes.update(
        {cid: TaskClass(requests=((CPU, 900 + cid), (PODS, 1))) for cid in range(90)}
    )
    new_order.put_queue(Queue(qid=0, name="a", capability=((CPU, 2_000),)))
    for jid in range(90):
        new_order.put_job(job(jid, cid=jid))
    assert len(turns(new_order)) == 2
    core = Coordinator(new_order, Dispatcher(1))
    assert new_order.lines.queues[0].order is not None
    assert at_once(reasons_in_steps(core, names=BASE))["WaitingForQuota"] == 88
    assert (
        at_once(waiting_in_steps(core, new_order.now, names=BASE)).jobs[0, "WaitingForQuota"] == 88
    )
