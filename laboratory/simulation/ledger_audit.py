"""The ledger audit in a seeded run: the service's reader, paced by virtual time.

It reads the ledger directly and draws nothing from the seed, so that a run is the same with and
without it. Confirmed findings mark the ledger as in the service, so that the next leader recounts,
and fail the run: no script may cause them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from coordinator.ledger_audit.bind_watch import StuckBinds
from coordinator.ledger_audit.figures import AuditFigures
from coordinator.ledger_audit.findings import Finding, confirmed
from coordinator.ledger_audit.look import AuditPass
from coordinator.ledger_audit.looker import AuditReader
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once

PAUSE_SECONDS = 0.025
"""Pause of a pass in place of the service's. In a run of a few seconds there are several passes,
with most changes in the middle of one."""
PAGE_RECORDS = 12
"""Few, so that tables have several pages and change between them."""
TASKS = 256
"""Room that a pass begins with. That of the service, 20 MB, took a sixth of a run's time to get and
give back."""
BIND_SECONDS = 1.0
"""Shorter than in the service: here answers are lost for tenths of a second, not for seconds."""

T = TypeVar("T")


class VirtualPace:
    """Implements :class:`coordinator.ledger_audit.looker.Pace`."""

    used = 0.0
    is_over = False

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    async def give_way(self, rest: float) -> None:
        await asyncio.sleep(PAUSE_SECONDS)


class SimulatedAudit:
    def __init__(self, ledger: MemoryLedger, *, now: Callable[[], float]) -> None:
        self.found: list[Finding] = []
        """Confirmed findings."""
        self._ledger = ledger
        self._reader = AuditReader(
            ledger,
            figures=AuditFigures(),
            watch=StuckBinds(BIND_SECONDS),
            pace=VirtualPace(now),
            begin=partial(AuditPass, count=PAGE_RECORDS, tasks=TASKS),
        )

    async def run_forever(self) -> None:
        before: list[Finding] = []
        clean_at = ""
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            # Another pass over the same ledger would find the same.
            if (since := at_once(self._ledger.log_tail())) == clean_at:
                continue
            findings = await self._reader.look()
            if counted := confirmed(before, findings):
                seen = {finding.identity for finding in self.found}
                self.found += [finding for finding in counted if finding.identity not in seen]
                at_once(self._ledger.request_recount(str(counted[0])))
            clean_at = "" if findings or self._reader.binding else since
            before = findings
