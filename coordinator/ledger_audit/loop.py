"""Runs the ledger audit beside a leader's work: passes one after another, and the alarm.

Passes (:mod:`coordinator.ledger_audit.looker`) run in a thread with its own event loop and
connections; findings are handled in the leader's loop, which has the books. Nothing is put right
here: the ledger is marked, and the next leader recounts (:mod:`coordinator.ledger_audit.recount`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import structlog

from coordinator.ledger_audit.figures import AuditFigures
from coordinator.ledger_audit.findings import Finding, confirmed
from coordinator.ledger_audit.looker import AuditReader
from coordinator.ledger_audit.loop_thread import LoopThread
from shared.ledger.errors import LedgerTrimmed

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
LOOKS_TO_CONFIRM = 3
"""Maximum passes in direct succession after a finding: one may miss it, because its record changes
while it is read."""

REMEDY = "put right when a leader takes over; to have that at once, restart the leader"
NO_REMEDY = "it cannot be recomputed, because a record that it depends on is missing"

log = structlog.get_logger(__name__)

T = TypeVar("T")

Report = Callable[[Finding, str], str]
"""Reports a finding, and what becomes of it, to people; returns one line that names the object."""


class LedgerAudit:
    def __init__(
        self,
        looker: AuditReader,
        *,
        closing: Callable[[], Awaitable[None]],
        request_recount: Callable[[str], Awaitable[None]],
        report: Report,
        figures: AuditFigures,
        every: float,
        recorded: Callable[[], int],
        processor_time: Callable[[], float] = time.process_time,
    ) -> None:
        """``looker``: its ledger belongs to another event loop, in which ``closing`` ends it.
        ``every``: seconds between the end of a pass and the next one; longer if :data:`PAUSE_RATIO`
        demands it or the process is busy; 0: no pauses. ``request_recount`` marks the ledger.
        ``recorded``: task states recorded so far; ``processor_time``: seconds used by this
        process."""
        self._looker = looker
        self._closing = closing
        self._request_recount = request_recount
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
        async with LoopThread("ledger audit", closing=self._closing) as self._thread:
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
        """One pass; after findings, further ones in direct succession until some are confirmed."""
        findings, counted = await self._look(self._looker.look()), list[Finding]()
        for _ in range(LOOKS_TO_CONFIRM):
            if not findings or counted:
                break
            await asyncio.sleep(AGAIN_SECONDS)
            again = await self._look(self._looker.look())
            # Two looks in a row: one may have raced with a write, and nobody is alarmed by a single
            # reading (decision 0039).
            counted, findings = confirmed(findings, again), again
        self._figures.keep(findings)
        fresh = [f for f in counted if f.identity not in self._figures.present]
        for finding in fresh:
            self._record_finding(finding)
        if recomputable := [f for f in fresh if f.recomputable]:
            await self._request_recount(self._figures.present[recomputable[0].identity])

    def _record_finding(self, finding: Finding) -> None:
        figures = self._figures
        text = self._report(finding, REMEDY if finding.recomputable else NO_REMEDY)
        figures.found[finding.kind.value] += 1
        figures.present[finding.identity] = text
        log.error("The ledger contradicts its task records", finding=text)
