"""The loop on a ledger in memory: what counts, and what does not end it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator

import pytest

from coordinator.ledger_audit import loop
from coordinator.ledger_audit.figures import AuditFigures
from coordinator.ledger_audit.findings import AuditKind, confirmed
from coordinator.ledger_audit.look import AuditPass
from coordinator.ledger_audit.looker import AuditReader
from coordinator.ledger_audit.loop import LedgerAudit
from shared.ledger.entries.repair import RepairReply, RepairRequest, Table
from shared.ledger.errors import LedgerAltered, LedgerFault
from shared.ledger.memory.ledger import MemoryLedger
from tests.coordinator.ledger_audit.damage import DAMAGES, OTHER_JOB, settle
from tests.coordinator.ledger_audit.test_repair import repair
from tests.shared.ledger.support import Desk, cluster, run, statement


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "AGAIN_SECONDS", 0.0)


async def damaged(name: str) -> Desk:
    desk = await Desk(MemoryLedger(random.Random(1))).open("1")
    await desk.store(*cluster())
    await settle(desk)
    await DAMAGES[name].plant(desk)
    return desk


def audit(
    desk: Desk,
    repairs: list[RepairRequest],
    fault: str = "",
    *,
    every: float = 0.0,
    recorded: Callable[[], int] = lambda: 0,
    processor_time: Callable[[], float] = time.process_time,
) -> LedgerAudit:
    async def repaired(request: RepairRequest) -> RepairReply:
        repairs.append(request)
        if fault:
            raise LedgerFault(fault)
        return await repair(desk, request)

    async def store_again(rows: object) -> None:
        assert rows

    figures = AuditFigures()
    return LedgerAudit(
        AuditReader(desk.ledger, figures=figures),
        repair=repaired,
        store_again=store_again,
        report=lambda finding, outcome: f"{finding.describe()}: {outcome}",
        figures=figures,
        every=every,
        recorded=recorded,
        processor_time=processor_time,
    )


async def test_what_two_looks_have_is_repaired_once() -> None:
    desk, repairs = await damaged("a-node-with-too-much-used"), list[RepairRequest]()
    auditing = audit(desk, repairs)
    await auditing.once()
    figures = auditing._figures
    assert (figures.found, figures.repaired) == ({"node-used": 1}, {"node-used": 1})
    assert len(repairs) == 1
    assert "node-used, slot 0: " in figures.message(figures.shown[0][0])
    assert figures.message(figures.shown[0][0] + loop.AGAIN_SECONDS + 700.0) == ""
    await auditing.once()
    assert len(repairs) == 1


async def test_what_is_gone_at_the_second_look_never_was() -> None:
    """A look that read wrong would look like this."""
    desk, repairs = await damaged("a-node-with-too-much-used"), list[RepairRequest]()
    auditing = audit(desk, repairs)
    first = await auditing._looker.look()
    assert [finding.kind for finding in first] == [AuditKind.NODE_USED]
    await auditing.once()
    assert len(repairs) == 1
    assert await auditing._looker.look() == []


async def test_a_difference_on_a_queue_that_moves_all_the_time_counts() -> None:
    desk, repairs = await damaged("a-queue-with-too-much-used"), list[RepairRequest]()
    auditing = audit(desk, repairs)
    first = await auditing._looker.look()
    await desk.commit(statement(OTHER_JOB, run([3], [0])))
    second = await auditing._looker.look()
    assert first[0].record != second[0].record
    assert [f.kind for f in confirmed(first, second)] == [AuditKind.QUEUE_USED]


async def test_a_repair_that_the_ledger_cannot_make_ends_nothing() -> None:
    desk, repairs = await damaged("a-node-with-too-much-used"), list[RepairRequest]()
    auditing = audit(desk, repairs, fault="script failed")
    await auditing.once()
    assert repairs and auditing._figures.found and not auditing._figures.repaired


async def test_a_repair_that_would_hold_up_the_ledger_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is told, with the reason, as often as it is found."""
    monkeypatch.setattr(loop, "REPAIRED_TASKS", 3)
    desk, repairs = await damaged("a-node-with-too-much-used"), list[RepairRequest]()
    auditing = audit(desk, repairs)
    await auditing.once()
    figures = auditing._figures
    assert figures.tasks > 3 and not repairs and not figures.repaired
    assert figures.found["node-used"] >= 1
    assert "not repaired: there are more than" in figures.message(figures.shown[0][0])


async def test_a_field_that_is_no_tasks_name_is_told_as_altered() -> None:
    desk = await damaged("a-node-with-too-much-used")
    page = await desk.ledger.audit_page(Table.TASK, after=await desk.ledger.log_tail())
    picture = AuditPass(since="0").picture
    with pytest.raises(LedgerAltered):
        picture.take(Table.TASK, [(b"seven", page.records[0][1])])


class AuditClock:
    """Time that passes by waiting alone: how long this process is kept from its core is no part of
    the rule."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def processor(self, shares: Iterator[float]) -> Callable[[], float]:
        """Seconds used by a process that takes these shares of a core from one question to the
        next."""
        used, asked = 0.0, self.now

        def processor_time() -> float:
            nonlocal used, asked
            used, asked = used + next(shares) * (self.now - asked), self.now
            return used

        return processor_time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> AuditClock:
    audit_clock = AuditClock()
    monkeypatch.setattr(loop, "time", audit_clock)
    monkeypatch.setattr(loop, "asyncio", audit_clock)
    return audit_clock


async def test_a_look_waits_for_a_calm_time(clock: AuditClock) -> None:
    """Each window asks twice: at its begin, and at its end."""
    shares = iter([1.0, 0.9] * 5 + [1.0, 0.1] + [1.0] * 9)
    desk = await damaged("a-node-with-too-much-used")
    auditing = audit(desk, [], every=1000.0, processor_time=clock.processor(shares))
    await auditing._calm()
    assert len(list(shares)) == 9
    assert clock.now == pytest.approx(6 * loop.CALM_SECONDS)


async def test_a_look_waits_until_few_tasks_are_recorded(clock: AuditClock) -> None:
    """However little the process does: others may have the cores, or be what takes the time."""
    always = iter(lambda: 0.01, None)
    window = loop.CALM_TASKS * loop.CALM_SECONDS
    counts = iter([0, window * 6, 0, window + 1, 0, window, 0])
    desk = await damaged("a-node-with-too-much-used")
    auditing = audit(
        desk,
        [],
        every=1000.0,
        recorded=lambda: int(next(counts)),
        processor_time=clock.processor(always),
    )
    await auditing._calm()
    assert list(counts) == [0]
    assert clock.now == pytest.approx(3 * loop.CALM_SECONDS)


async def test_a_process_that_is_never_calm_is_audited_too(clock: AuditClock) -> None:
    always = iter(lambda: 1.0, None)
    desk = await damaged("a-node-with-too-much-used")
    every = 0.25  # whose multiples are exact: no pause more for a sum that is a bit too small
    auditing = audit(desk, [], every=every, processor_time=clock.processor(always))
    await auditing._calm()
    assert clock.now == loop.PATIENCE_PAUSES * every
