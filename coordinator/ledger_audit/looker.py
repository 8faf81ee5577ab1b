"""Looks of the ledger audit, in slices.

A slice is what a look does between two times of giving way. After it the audit rests for
:data:`REST` times what it used of the processor, so that a look takes its fifth of a core whatever
the machine, and everybody else comes in between. It is the pace of the audit of the books
(:mod:`coordinator.service.reconcile_loop`: a fixed size, then a pause that grows with what was
read), but measured: here a slice is of tasks, records, or operations of the log. A seeded run
paces it by virtual time (:mod:`laboratory.simulation.ledger_audit`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from coordinator.ledger_audit.bind_watch import StuckBinds, Task, lost_binds, named_in
from coordinator.ledger_audit.figures import AuditFigures
from coordinator.ledger_audit.findings import Finding
from coordinator.ledger_audit.look import AuditPass, PageRequest
from coordinator.ledger_audit.portions import portions
from coordinator.ledger_audit.step_meter import StepMeter
from shared.ledger.entries.audit import AuditPage, Table
from shared.ledger.protocol import Ledger
from shared.ledger.retry import insist

SLICE_SECONDS = 0.002
"""Processor time after which a slice gives way. An indivisible step may follow (a page, or the seal
of a large log entry: 1 to 2 ms), so that a slice stays below 5 ms."""
REST = 4.0
"""Ratio of rest to work: a pass over 140,000 tasks takes 5 to 10 s."""
CATCH_UP_REST = 1.0
"""The same while the log is ahead by more entries than come with one page, because with longer
rests the audit would never catch up: following a task costs it 20 us, writing one costs the
coordinator 50 to 200."""
BIND_ENTRIES = 8
"""Bind entries read at once: with 500 tasks each, 2 ms to unpack."""
RECORDS = 256
"""Records read by name at once."""

T = TypeVar("T")


class Pace(Protocol):
    """When work in slices lets others run."""

    @property
    def used(self) -> float:
        """Processor seconds so far."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the present slice has lasted long enough."""
        ...

    def now(self) -> float:
        """Seconds, never backwards."""
        ...

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work in slices."""
        ...

    async def give_way(self, rest: float) -> None:
        """End the slice, and rest for so many times what was used since the last rest."""
        ...


class MeasuredPace:
    """By the processor time of this thread."""

    now = staticmethod(time.monotonic)

    def __init__(self, observe: Callable[[float], None]) -> None:
        """``observe`` is called with the processor seconds of each step."""
        self._meter = StepMeter(observe)
        self._rested = 0.0
        """The part of the meter's seconds for which it has rested."""
        self._resumed = time.monotonic()
        """When the last rest ended."""
        self.run = self._meter.run

    @property
    def used(self) -> float:
        return self._meter.seconds

    @property
    def is_over(self) -> bool:
        return self._meter.step_seconds >= SLICE_SECONDS

    async def give_way(self, rest: float) -> None:
        """Time spent waiting for the server or for a turn counts as rest; otherwise a busy machine
        would stretch a pass many times."""
        used, self._rested = self._meter.seconds - self._rested, self._meter.seconds
        end = self._resumed + (1 + rest) * used
        await asyncio.sleep(max(0.0, end - time.monotonic()))
        self._resumed = time.monotonic()


class AuditReader:
    def __init__(
        self,
        ledger: Ledger,
        *,
        figures: AuditFigures,
        watch: StuckBinds | None = None,
        pace: Pace | None = None,
        begin: Callable[[str], AuditPass] = AuditPass,
    ) -> None:
        """``begin`` makes a pass from the present end of the log."""
        self._ledger = ledger
        self._figures = figures
        self._watch = watch or StuckBinds()
        self._pace = pace or MeasuredPace(figures.slices.observe)
        self._begin = begin
        self._look: AuditPass | None = None
        self.binding = 0
        """Tasks that were BINDING in the last pass."""

    @property
    def used(self) -> float:
        """Processor seconds of all passes so far."""
        return self._pace.used

    def read(self) -> str | None:
        """Position up to which the current pass has followed the log, which must not be trimmed
        beyond; None between passes."""
        look = self._look
        return None if look is None else look.log_id

    async def look(self) -> list[Finding]:
        """All findings of one pass through the whole ledger. Raises LedgerTrimmed."""
        try:
            return await self._pace.run(self._findings())
        finally:
            self._look = None

    async def _findings(self) -> list[Finding]:
        began = self._pace.now()
        self._look = look = await self._new_pass()
        while (question := look.question) is not None:
            page = await self._page(look, question)
            await self._slices(look.take(page), rest=REST if page.current else CATCH_UP_REST)
        await self._slices(look.compare())
        for question in look.specs_wanted():
            look.take_specs(question, await self._current_page(look, question))
            await self._give_way()
        self._look = None  # what follows is read as it stands then
        self.binding = len(look.binding)
        await self._slices(self._watch.noting(look.binding, self._pace.now()))
        findings = [*look.findings]
        if self._watch.stuck:
            findings += await self._lost_binds(self._watch.stuck)
        self._figures.tasks = look.picture.tasks.count
        await self._slices(look.picture.clearing())
        self._figures.looks += 1
        self._figures.look_seconds = self._pace.now() - began
        return findings

    async def _new_pass(self) -> AuditPass:
        return self._begin(await insist(self._ledger.log_tail, call_name="log tail"))

    async def _slices(self, steps: Iterable[None], *, rest: float = REST) -> None:
        for _ in steps:
            if self._pace.is_over:
                await self._give_way(rest)
        await self._give_way(rest)

    async def _give_way(self, rest: float = REST) -> None:
        await self._pace.give_way(rest)

    async def _page(self, look: AuditPass, question: PageRequest) -> AuditPage:
        page = await insist(
            lambda: self._ledger.audit_page(
                question.table,
                after=look.log_id,
                cursor=question.cursor,
                count=question.count,
                fields=question.fields,
            ),
            call_name="read a page",
        )
        if page.current:
            await self._give_way()  # reading the answer was a slice
        return page

    async def _current_page(self, look: AuditPass, question: PageRequest) -> AuditPage:
        """Read the page, following the log meanwhile."""
        page = await self._page(look, question)
        while not page.current:
            await self._slices(look.take(page), rest=CATCH_UP_REST)
            page = await self._page(look, question)
        return page

    async def _lost_binds(self, stuck: dict[Task, int]) -> list[Finding]:
        named: set[tuple[int, int, int]] = set()
        after = "0"
        while True:
            read = partial(self._ledger.open_binds, after, count=BIND_ENTRIES)
            entries, after = await insist(read, call_name="read open binds")
            named |= named_in(entries)
            await self._give_way()
            if not after:
                break
        findings: list[Finding] = []
        for tasks in portions([*stuck], RECORDS):
            names = {f"{jid}.{tix}": (jid, tix) for jid, tix in tasks}
            read_records = await self.records(Table.TASK, [*names])
            records = {names[name]: record for name, record in read_records.items()}
            findings += lost_binds({task: stuck[task] for task in tasks}, named, records)
            await self._give_way()
        return findings

    async def records(self, table: Table, names: Sequence[str]) -> dict[str, bytes]:
        """The current records of these fields of a table; missing ones are left out."""
        look = await self._new_pass()
        page = await self._current_page(look, PageRequest(table, fields=tuple(names)))
        return {name.decode(): record for name, record in page.records}
