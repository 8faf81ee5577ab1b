"""A leader and its lease: kept, over by its own clock first, lost to another, taken up again."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import cast

import pytest

from coordinator.bind.status_writer import Recorder
from coordinator.cluster.protocol import BindAnswers, BindRequests, RunsTasks, StopAnswers
from coordinator.service.leadership.lease import Leadership, LedCluster
from coordinator.service.leadership.lease_keeper import KeeperThread
from shared.ledger.errors import Deposed, LedgerUnavailable
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.ledger.protocol import COORDINATOR
from shared.ledger.retry import AcceptedRun
from shared.messages.messages import Epoch, StatusItem

LEASE = 2.0
PATIENCE = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Away(MemoryLedger):
    """A ledger that may be away."""

    away = False

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        if self.away:
            raise LedgerUnavailable("nobody there")
        return await super().renew(writer, epoch, lease=lease)


class Renewing:
    """The ledger, asked from a thread."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        return at_once(self._ledger.renew(writer, epoch, lease=lease))

    def close(self) -> None:
        pass


class Told:
    """A cluster that only counts what it is told."""

    def __init__(self) -> None:
        self.binds = 0
        self.deletes = 0

    async def bind(self, requests: BindRequests) -> BindAnswers:
        self.binds += 1
        return cast(BindAnswers, None)

    async def delete(self, tasks: list[str], uids: list[str] | None = None) -> StopAnswers:
        self.deletes += 1
        return StopAnswers([])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Away:
    return Away(random.Random(1), clock=clock)


async def lead(ledger: Away, clock: Clock) -> Leadership:
    request_time = clock.now
    epoch = await ledger.claim(COORDINATOR, lease=LEASE)
    clock.now += 0.1  # the answer took so long: the ledger counts from later than we do
    return Leadership(ledger, epoch=epoch, seconds=LEASE, asked=request_time, clock=clock)


async def test_it_is_over_here_before_it_is_over_for_the_ledger(ledger: Away, clock: Clock) -> None:
    leadership = await lead(ledger, clock)
    printed = []
    for clock.now in (100.0 + LEASE - 0.01, 100.0 + LEASE):
        printed.append(leadership.sure)
    assert printed == [True, False]
    assert await leadership.renew()
    assert leadership.sure


async def test_an_unsure_leader_holds_back_requests_to_the_cluster(
    ledger: Away, clock: Clock
) -> None:
    leadership = await lead(ledger, clock)
    report = Told()
    cluster = LedCluster(cast(RunsTasks, report), leadership)
    await cluster.bind(cast(BindRequests, None))
    clock.now += LEASE
    async with asyncio.TaskGroup() as group:
        group.create_task(cluster.bind(cast(BindRequests, None)))
        group.create_task(cluster.delete([]))
        await asyncio.sleep(0.01)
        assert (report.binds, report.deletes) == (1, 0)
        assert await leadership.renew()
    assert (report.binds, report.deletes) == (2, 1)


async def test_a_leader_whose_lease_was_claimed_is_deposed(ledger: Away, clock: Clock) -> None:
    leadership = await lead(ledger, clock)
    clock.now += 2 * LEASE
    await ledger.claim(COORDINATOR, lease=LEASE)
    with pytest.raises(Deposed):
        await asyncio.wait_for(
            leadership.keep_forever(partial(KeeperThread, Renewing(ledger))), PATIENCE
        )
    assert not leadership.sure


async def test_a_ledger_that_was_away_finds_the_leader_where_it_was(
    ledger: Away, clock: Clock
) -> None:
    leadership = await lead(ledger, clock)
    keeping = asyncio.create_task(leadership.keep_forever(partial(KeeperThread, Renewing(ledger))))
    try:
        ledger.away = True
        clock.now += 3 * LEASE
        await asyncio.sleep(0.05)
        assert not leadership.sure
        ledger.away = False
        await asyncio.wait_for(leadership.surely(), PATIENCE)
        assert not keeping.done()
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


async def test_a_record_after_the_lease_ran_out_is_taken_where_nobody_else_claimed(
    ledger: Away, clock: Clock
) -> None:
    leadership = await lead(ledger, clock)
    await ledger.bless(leadership.epoch)
    applied: list[list[StatusItem]] = []
    recorder = Recorder(
        ledger,
        epoch=leadership.epoch,
        run=AcceptedRun(lambda: ledger.bless(leadership.epoch), await ledger.run_id()),
        renew=leadership.renew,
        current=lambda items: items,
        applied=lambda items, _: applied.append(items),
        guard=asyncio.Lock(),
    )
    running = asyncio.create_task(recorder.run())
    clock.now += 2 * LEASE
    await asyncio.wait_for(recorder.record([]), PATIENCE)
    assert len(applied) == 1
    clock.now += 2 * LEASE
    await ledger.claim(COORDINATOR, lease=LEASE)
    with pytest.raises(Deposed):
        await asyncio.wait_for(recorder.record([]), PATIENCE)
    with pytest.raises(Deposed):
        await running
