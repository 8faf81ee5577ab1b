"""Counts of waiting jobs, computed in slices where there are many, so that no request blocks the
loop.

A walk over 20,000 lines takes 0.4 s, and progress displays ask ten times a second. So concurrent
callers share one walk, which yields to the loop every few milliseconds, and its counts are valid
for ten times as long as it took.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
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
    """The result of a walk; ``many``: whether it is one that has to be cut."""

    def __init__(self, walk: Callable[[], Steps[T]], many: Callable[[], bool]) -> None:
        self._latest: T | None = None
        self._walk = walk
        self._many = many
        self._lock = asyncio.Lock()
        self._good_until = float("-inf")

    def __call__(self) -> T:
        """The result, as of the last :meth:`refresh` where it takes a long walk."""
        latest = self._latest
        return latest if latest is not None and self._many() else at_once(self._walk())

    async def refresh(self) -> None:
        """Await this before the result is asked for by an outside request. Walks, unless the last
        result is still valid; concurrent callers wait for the same walk."""
        if not self._many():
            return
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
            self._latest = end.value
            return True
        return False


class WaitingCounts:
    def __init__(self, core: Coordinator, names: Callable[[], Sequence[str]]) -> None:
        """``names``: the resource of each slot."""
        self._core = core
        self._names = names
        self.reasons = InSlices(self._reasons_in_steps, self._many_lines)
        """Number of jobs by reason."""
        self.waiting = InSlices(
            self._waiting_in_steps, lambda: self._many_lines() or self._many_jobs()
        )
        """Counts of waiting jobs."""

    def _reasons_in_steps(self) -> Steps[dict[str, int]]:
        return reasons_in_steps(self._core, names=self._names())

    def _waiting_in_steps(self) -> Steps[PendingTotals]:
        return waiting_in_steps(self._core, time.time(), names=self._names())

    def _many_lines(self) -> bool:
        queues = self._core.order.lines.queues.values()
        return sum(len(queue.lines) for queue in queues) > FEW_LINES

    def _many_jobs(self) -> bool:
        return len(self._core.order.accounts.cluster.jobs) > FEW_JOBS
