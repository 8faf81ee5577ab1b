"""Counts of waiting jobs, computed in slices where there are many, so that no request blocks the
loop.

A walk over 20,000 lines takes 0.4 s, and progress displays ask ten times a second. So concurrent
callers share one walk, which yields to the loop every few milliseconds, and its counts are valid
for ten times as long as it took.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from coordinator.core.coordinator import Coordinator
from coordinator.service.metrics.pending_counts import (
    PendingTotals,
    reasons_in_steps,
    waiting_in_steps,
)
from shared.slices import Steps, at_once

T = TypeVar("T")

SLICE_SECONDS = 0.004
"""Processor time of one slice: a fifth of what a callback may take."""

GOOD_FOR = 10
"""Counts are valid for this multiple of their walk's time, so that walks take a tenth of the
time."""

FEW_LINES = 200
"""Up to this many lines are counted at once, in some 4 ms."""

FEW_JOBS = 5_000
"""Up to this many jobs likewise."""


class InSlices(Generic[T]):
    """The cached result of a walk."""

    def __init__(self, walk: Callable[[], Steps[T]]) -> None:
        self.latest: T | None = None
        self._walk = walk
        self._lock = asyncio.Lock()
        self._good_until = float("-inf")

    async def refresh(self) -> None:
        """Walk, unless the last result is still valid. Concurrent callers wait for the same
        walk."""
        async with self._lock:
            if time.monotonic() < self._good_until:
                return
            steps, spent = self._walk(), 0.0
            while not self._over(steps, began := time.thread_time()):
                spent += time.thread_time() - began
                await asyncio.sleep(0)
            spent += time.thread_time() - began
            self._good_until = time.monotonic() + GOOD_FOR * spent

    def _over(self, steps: Steps[T], began: float) -> bool:
        """Walk for one slice."""
        try:
            next(steps)
            while time.thread_time() - began < SLICE_SECONDS:
                next(steps)
        except StopIteration as end:
            self.latest = end.value
            return True
        return False


class WaitingCounts:
    def __init__(self, core: Coordinator, names: Callable[[], Sequence[str]]) -> None:
        """``names``: the resource of each slot."""
        self._core = core
        self._names = names
        self._reasons = InSlices(self._reasons_in_steps)
        self._waiting = InSlices(self._waiting_in_steps)

    async def refresh_reasons(self) -> None:
        """Await this before :meth:`reasons` is called for an outside request."""
        if self._many_lines():
            await self._reasons.refresh()

    async def refresh_waiting(self) -> None:
        """Await this before :meth:`waiting` is called for an outside request."""
        if self._many_lines() or self._many_jobs():
            await self._waiting.refresh()

    def reasons(self) -> Mapping[str, int]:
        """Number of jobs by reason; as of the last :meth:`refresh_reasons` where there are many
        lines."""
        latest = self._reasons.latest
        if latest is not None and self._many_lines():
            return latest
        return at_once(self._reasons_in_steps())

    def waiting(self) -> PendingTotals:
        """Counts of waiting jobs; as of the last :meth:`refresh_waiting` where there are many."""
        latest = self._waiting.latest
        if latest is not None and (self._many_lines() or self._many_jobs()):
            return latest
        return at_once(self._waiting_in_steps())

    def _reasons_in_steps(self) -> Steps[dict[str, int]]:
        return reasons_in_steps(self._core, names=self._names())

    def _waiting_in_steps(self) -> Steps[PendingTotals]:
        return waiting_in_steps(self._core, time.time(), names=self._names())

    def _many_lines(self) -> bool:
        queues = self._core.order.lines.queues.values()
        return sum(len(queue.lines) for queue in queues) > FEW_LINES

    def _many_jobs(self) -> bool:
        return len(self._core.order.accounts.cluster.jobs) > FEW_JOBS
