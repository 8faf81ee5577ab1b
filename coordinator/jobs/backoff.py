"""Parking: jobs whose turns came to nothing again and again, taken out of the lines.

Infeasible jobs need no such place: their line waits for capacity. Parked are those that find room
every time and never get to keep it: the ledger refuses what is placed, the turn is lost with its
worker, or the cluster refuses the bind. They are not lost: each is tried once more when capacity
was freed, at most every :data:`PARK_SECONDS`, and at once when somebody changes the job.
"""

from __future__ import annotations

import heapq

from coordinator.jobs.state import JobState

ATTEMPTS = 20
"""So many attempts in a row may fail. With the pauses between them (up to 1 s) a job that is only
unlucky has half a minute; one that takes its worker down with it has cost 20 of them."""

PARK_SECONDS = 30.0
"""The shortest time between two attempts of a parked job."""


class Parking:
    """Parked jobs, and when each may be tried again."""

    def __init__(self, attempts: int = ATTEMPTS) -> None:
        self.attempts = attempts
        self.parked = 0
        """Times that a job was parked, since the start."""
        self._due: list[tuple[float, int, int]] = []
        """Heap of (when, jid, stamp)."""
        self._ripe: list[tuple[int, int]] = []
        """(jid, stamp): their time is over, they wait for capacity."""
        self._seen = -1
        """The count of capacity changes when the last of those became ripe."""

    def full(self, state: JobState) -> bool:
        """Whether a job has had all its attempts."""
        return state.refusals >= self.attempts or state.conflicts >= self.attempts

    def park(self, state: JobState, now: float) -> None:
        """``state`` stands where it is to wait; a later stamp voids this."""
        self.parked += 1
        heapq.heappush(self._due, (now + PARK_SECONDS, state.job.jid, state.stamp))

    def wake(self, now: float, changes: int) -> list[tuple[int, int]]:
        """(jid, stamp) of those that may try once more; ``changes``: of capacity, so far."""
        woken: list[tuple[int, int]] = []
        if self._ripe and changes != self._seen:
            woken, self._ripe = self._ripe, []
        while self._due and self._due[0][0] <= now:
            _, jid, stamp = heapq.heappop(self._due)
            self._ripe.append((jid, stamp))
            self._seen = changes
        return woken

    def once_more(self, state: JobState) -> None:
        """Allow one attempt: if that fails too, the job is parked again."""
        state.refusals = min(state.refusals, self.attempts - 1)
        state.conflicts = min(state.conflicts, self.attempts - 1)

    def next_due(self) -> float | None:
        """When :meth:`wake` may have something though nothing happens; None: never."""
        return self._due[0][0] if self._due else None
