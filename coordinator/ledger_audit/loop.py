"""Runs the ledger audit beside a leader's work: passes one after another, and repairs.

Passes (:mod:`coordinator.ledger_audit.looker`) run in a thread with its own event loop and
connections; findings are handled in the leader's loop, which has the writers and books.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import structlog

from coordinator.ledger_audit.figures import AuditFigures
from coordinator.ledger_audit.findings import Finding, Subject, confirmed
from coordinator.ledger_audit.looker import AuditReader
from coordinator.ledger_audit.loop_thread import LoopThread
from coordinator.ledger_audit.repairing import (
    REPAIRS,
    request_of,
    results_of,
    rows_to_store_again,
)
from shared.ledger.entries.repair import RepairReply, RepairRequest, RepairResult
from shared.ledger.errors import LedgerArgument, LedgerFault, LedgerTrimmed

AGAIN_SECONDS = 0.5
"""Delay between a pass with findings and the next one, after which whatever was in progress is
done."""
PAUSE_RATIO = 100.0
"""Minimum ratio of a pause to the processor time of the passes since the pause before: all passes
together take at most a hundredth of a core, whatever one costs (0.8 s at 140,000 tasks, more beside
thousands of binds a second)."""
CALM_SHARE = 0.3
"""A process that uses less than this part of a core has time for a pass."""
CALM_TASKS = 100.0
"""Recorded task states a second up to which a pass may begin.

A pass follows all of them, 20 us each: beside thousands of binds a second it costs five times as
much, and competes for what is scarcest. Measured: 3 to 5 s of the leader's processor time beside
100,000 binds, 12% of what they took. The share of a core alone does not tell such a time: where
100,000 nodes keep the workers busy, 600 binds a second are a sixth of a core to the leader, and on
a machine with other work it gets no more, however much it has to do.
"""
CALM_SECONDS = 5.0
"""How long both must have been lower; never longer than the pause."""
PATIENCE_PAUSES = 10
"""A pass waits at most this many pauses for a calm time: a cluster that is never calm is audited
too, every ten minutes."""
REPAIRED_TASKS = 300_000
"""Above so many task records nothing is repaired: a call reads all of them, at 3 to 5 us each, and
holds up the server meanwhile. A leader has 2 s to renew its lease (decision 0102)."""
LOOKS_IN_A_ROW = 4
"""Maximum passes in direct succession after a finding: one to confirm it, one to see that it is
repaired, and two more for records that changed between a pass and the repair."""

log = structlog.get_logger(__name__)

T = TypeVar("T")

Report = Callable[[Finding, str], str]
"""Reports a finding and its result to people; returns one line that names the object."""


class LedgerAudit:
    def __init__(
        self,
        looker: AuditReader,
        *,
        repair: Callable[[RepairRequest], Awaitable[RepairReply]],
        store_again: Callable[[Sequence[int]], Awaitable[None]],
        report: Report,
        figures: AuditFigures,
        every: float,
        recorded: Callable[[], int],
        processor_time: Callable[[], float] = time.process_time,
    ) -> None:
        """``looker``: its ledger belongs to another event loop, and is closed at the end.
        ``every``: seconds between the end of a pass and the next one; longer if :data:`PAUSE_RATIO`
        demands it or the process is busy; 0: no pauses. ``store_again``: store the known state of
        these rows' nodes. ``recorded``: task states recorded so far; ``processor_time``: seconds
        used by this process."""
        self._looker = looker
        self._repair = repair
        self._store_again = store_again
        self._report = report
        self._figures = figures
        self._every = every
        self._recorded = recorded
        self._processor_time = processor_time
        self._thread: LoopThread | None = None

    def read(self) -> str | None:
        """Position up to which a pass has read the log; None between passes."""
        return self._looker.read()

    async def run_forever(self) -> None:
        async with LoopThread("ledger audit", closing=self._looker.close) as self._thread:
            used = self._looker.used
            while True:
                if self._every:
                    await asyncio.sleep(max(self._every, PAUSE_RATIO * (self._looker.used - used)))
                    await self._calm()
                else:
                    await asyncio.sleep(0)
                used = self._looker.used
                try:
                    await self.once()
                except LedgerTrimmed as error:
                    # The log waits for a look, but not for ever (service/log_trim.py): the machine
                    # stood still for minutes. Nothing was concluded from half a look.
                    log.warning("Ledger audit was too slow", error=str(error))

    async def _calm(self) -> None:
        """Wait until the process has been calm for a while, or patience runs out."""
        end = time.monotonic() + PATIENCE_PAUSES * self._every
        while time.monotonic() < end:
            began, used, recorded = time.monotonic(), self._processor_time(), self._recorded()
            await asyncio.sleep(min(CALM_SECONDS, self._every))
            seconds = time.monotonic() - began
            if self._recorded() - recorded > CALM_TASKS * seconds:
                continue
            if self._processor_time() - used < CALM_SHARE * seconds:
                return

    async def _look(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work of the looker in its thread."""
        return await (work if self._thread is None else self._thread.run(work))

    async def once(self) -> None:
        """One pass; after findings, further ones in direct succession."""
        findings = await self._look(self._looker.look())
        for _ in range(LOOKS_IN_A_ROW):
            if not findings:
                return
            await asyncio.sleep(AGAIN_SECONDS)
            again = await self._look(self._looker.look())
            # Two looks in a row: one may have raced with a write, and nothing is repaired on the
            # word of a single reading (decision 0039).
            if counted := confirmed(findings, again):
                await self._treat(counted)
            findings = again

    # --- what follows -----------------------------------------------------------------------------

    async def _treat(self, findings: list[Finding]) -> None:
        """Repair what can be repaired, and report everything."""
        affordable = self._figures.tasks <= REPAIRED_TASKS
        able = [f for f in findings if f.repairable and affordable][:REPAIRS]
        tasks = [(f.name[0], f.name[1]) for f in able if f.subject is Subject.TASK]
        request = request_of(able, await self._look(self._looker.task_records(tasks)))
        try:
            results = results_of(request, await self._repair(request)) if len(request) else {}
        except (LedgerFault, LedgerArgument) as error:
            # It has written nothing (plan.lua). Whatever it stumbles over is in the ledger already:
            # to end with it would be to end again after each restart.
            log.error("The ledger did not take a repair", error=str(error))
            results = {}
        for finding in findings:
            key = "" if finding.subject is Subject.NODE else finding.key
            result = results.get((finding.subject, finding.name, key))
            self._record_finding(finding, result, UNREPAIRED if affordable else DEAR)
        if rows := rows_to_store_again(able):
            await self._store_again(rows)

    def _record_finding(
        self, finding: Finding, result: RepairResult | None, unrepaired: str
    ) -> None:
        """``unrepaired``: why there is no result."""
        figures = self._figures
        if result is RepairResult.SOUND:
            # The reading was wrong, twice. Nothing is damaged: it is a fault of the audit itself.
            log.error("Ledger audit found what the ledger denies", finding=finding.describe())
            return
        figures.found[finding.kind.value] += 1
        if result is RepairResult.REPAIRED:
            figures.repaired[finding.kind.value] += 1
        outcome = unrepaired if result is None else _OUTCOMES[result]
        text = self._report(finding, outcome)
        figures.shown.append((time.time(), text))
        log.error("The ledger contradicts its task records", finding=text)


UNREPAIRED = "it cannot be recomputed"
DEAR = (
    f"not repaired: there are more than {REPAIRED_TASKS:,} task records, and to read them in one "
    "call would hold up the ledger for longer than a lease"
)
_OUTCOMES: dict[RepairResult, str] = {
    RepairResult.REPAIRED: "repaired",
    RepairResult.MOVED: "it moved meanwhile: looked at again",
    RepairResult.UNKNOWN: UNREPAIRED,
    RepairResult.DEFERRED: "looked at again when fewer binds are open",
}
