"""The loop on a ledger in memory: what counts, and what does not end it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator

import pytest

from coordinator.ledger_audit import loop
from coordinator.ledger_audit.figures import AuditFigures
from coordinator.ledger_audit.findings import AuditKind, Finding, confirmed
from coordinator.ledger_audit.look import AuditPass
from coordinator.ledger_audit.looker import AuditReader
from coordinator.ledger_audit.loop import LedgerAudit
from shared.ledger.entries.audit import Table
from shared.ledger.errors import LedgerAltered
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.records import USED
from tests.coordinator.ledger_audit.damage import DAMAGES, GANG, OTHER_JOB, node_off, settle
from tests.coordinator.ledger_audit.looking import write
from tests.shared.ledger.support import COORDINATOR, Desk, cluster, run, statement


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
    *,
    every: float = 0.0,
    recorded: Callable[[], int] = lambda: 0,
    processor_time: Callable[[], float] = time.process_time,
) -> LedgerAudit:
    figures = AuditFigures()
    return LedgerAudit(
        AuditReader(desk.ledger, figures=figures),
        closing=desk.ledger.close,
        request_recount=desk.ledger.request_recount,
        report=lambda finding, outcome: f"{finding.describe()}: {outcome}",
        figures=figures,
        every=every,
        recorded=recorded,
        processor_time=processor_time,
    )


async def requested(desk: Desk) -> str:
    """Why the next leader is to recount."""
    return await desk.ledger.take_up(desk.epochs[COORDINATOR], lambda progress: None)


async def test_a_finding_of_two_looks_raises_the_alarm_once_and_marks_the_ledger() -> None:
    desk = await damaged("a-node-with-too-much-used")
    auditing = audit(desk)
    for _ in range(3):
        await auditing.once()
    figures = auditing._figures
    assert figures.found == {"node-used": 1}
    text = "node-used, slot 0: 5000, should be 2000"
    assert text in figures.message() and loop.REMEDY in figures.message()
    assert text in await requested(desk)


async def test_the_alarm_ends_when_the_damage_is_gone_and_comes_back_with_it() -> None:
    desk = await damaged("a-node-with-too-much-used")
    auditing = audit(desk)
    await auditing.once()
    await node_off(desk.ledger, 1, USED, -3000)
    await auditing.once()
    assert auditing._figures.message() == ""
    await node_off(desk.ledger, 1, USED, 3000)
    await auditing.once()
    assert "node-used" in auditing._figures.message()
    assert auditing._figures.found == {"node-used": 2}


async def test_a_finding_of_one_look_alarms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that read wrong would look like this."""
    desk = await damaged("a-node-with-too-much-used")
    auditing = audit(desk)
    look = auditing._looker.look

    async def once_wrong() -> list[Finding]:
        findings = await look()
        await node_off(desk.ledger, 1, USED, -3000)
        monkeypatch.setattr(auditing._looker, "look", look)
        return findings

    monkeypatch.setattr(auditing._looker, "look", once_wrong)
    await auditing.once()
    assert not auditing._figures.found and not auditing._figures.present
    assert await requested(desk) == ""


async def test_a_record_that_cannot_be_recomputed_is_reported_as_such() -> None:
    desk = await damaged("a-group-with-too-many")
    await write(desk.ledger, Table.JOB_SPEC, str(GANG), None)
    auditing = audit(desk)
    await auditing.once()
    assert loop.NO_REMEDY in auditing._figures.message()
    assert await requested(desk) == ""


async def test_a_difference_on_a_queue_that_moves_all_the_time_counts() -> None:
    desk = await damaged("a-queue-with-too-much-used")
    auditing = audit(desk)
    first = await auditing._looker.look()
    await desk.commit(statement(OTHER_JOB, run([3], [0])))
    second = await auditing._looker.look()
    assert first[0].record != second[0].record
    assert [f.kind for f in confirmed(first, second)] == [AuditKind.QUEUE_USED]


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
    auditing = audit(desk, every=1000.0, processor_time=clock.processor(shares))
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
    auditing = audit(desk, every=every, processor_time=clock.processor(always))
    await auditing._calm()
    assert clock.now == loop.PATIENCE_PAUSES * every
