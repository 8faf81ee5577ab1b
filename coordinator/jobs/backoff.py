"""Parking: jobs whose turns fail again and again are taken out of the lines.

Infeasible jobs need no parking: their line waits for capacity. Parked are those that find room
every time and never keep it: the ledger refuses the placement, the turn is lost with its worker, or
the cluster refuses the bind. They are not lost: each is tried once more when capacity is freed, at
most every :data:`PARK_SECONDS`, without that after :data:`STILL_SECONDS`, and at once when somebody
changes the job.
"""

from __future__ import annotations

import heapq
from collections import deque

from coordinator.jobs.state import JobState

ATTEMPTS = 20
"""Failed attempts in a row before a job is parked. With the pauses between them (up to 1 s) a job
that is only unlucky has half a minute; one that crashes its worker has cost 20 of them."""

PARK_SECONDS = 30.0
"""Shortest time between two attempts of a parked job."""
STILL_SECONDS = 300.0
"""Longest time between them. What refused the job (a webhook of the cluster, a worker that ran out
of memory) may be well again without any capacity being freed, as in a full cluster of jobs that run
for weeks."""


class Parking:
    """The parked jobs, and when each may be tried again."""

    def __init__(self, attempts: int = ATTEMPTS) -> None:
        self.attempts = attempts
        self.parked = 0
        """Times that a job was parked, since the start."""
        self._due: list[tuple[float, int, int]] = []
        """Heap of (when, jid, stamp)."""
        self._ripe: deque[tuple[float, int, int]] = deque()
        """(when at the latest, jid, stamp), soonest first: they may be tried as soon as capacity is
        freed."""
        self._seen = -1
        """The count of capacity changes when the last of those became ripe."""

    def full(self, state: JobState) -> bool:
        """Whether a job has used all its attempts."""
        return state.refusals >= self.attempts or state.conflicts >= self.attempts

    def park(self, state: JobState, now: float) -> None:
        """Park a job, which the caller has moved to its waiting state; a later stamp voids the
        entry."""
        self.parked += 1
        heapq.heappush(self._due, (now + PARK_SECONDS, state.job.jid, state.stamp))

    def wake(self, now: float, changes: int) -> list[tuple[int, int]]:
        """(jid, stamp) of the jobs to try once more; ``changes`` is the count of capacity
        changes."""
        woken: list[tuple[int, int]] = []
        while self._ripe and (changes != self._seen or self._ripe[0][0] <= now):
            _, jid, stamp = self._ripe.popleft()
            woken.append((jid, stamp))
        while self._due and self._due[0][0] <= now:
            when, jid, stamp = heapq.heappop(self._due)
            self._ripe.append((when - PARK_SECONDS + STILL_SECONDS, jid, stamp))
            # Capacity that was freed while the job was parked does not count: it is tried again for
            # what is freed after its time is over.
            self._seen = changes
        return woken

    def once_more(self, state: JobState) -> None:
        """Allow one attempt: if that fails too, the job is parked again."""
        state.refusals = min(state.refusals, self.attempts - 1)
        state.conflicts = min(state.conflicts, self.attempts - 1)

    def next_due(self) -> float | None:
        """When :meth:`wake` may return a job although nothing happened; None for never."""
        soonest = [waiting[0][0] for waiting in (self._due, self._ripe) if waiting]
        return min(soonest, default=None)
