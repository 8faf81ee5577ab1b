"""Gangs that hold members, but fewer than their minimum: repaired in time, or released.

A statement never leaves a gang there. A refused bind does, and so does a member that the cluster
lost. The members that are missing are placed again; where that does not succeed within a set time,
the rest is stopped, so that no half gang holds nodes that others could use.

A member that ran and failed is no such case: what follows from that is for the job's policies.
"""

from __future__ import annotations

import heapq

from coordinator.jobs import JobState

REPAIR_SECONDS = 30.0
"""How long a gang may stay below its minimum, unless the settings say otherwise."""

LOOK_AGAIN_SECONDS = 1.0
"""A gang whose turn is out when its time is over is looked at again after this long."""


class Gangs:
    """Which gangs are below their minimum, and since when."""

    def __init__(self, seconds: float = REPAIR_SECONDS) -> None:
        self.seconds = seconds
        self.broken = 0
        """Gangs that fell below their minimum, since the start."""
        self.repaired = 0
        self.released = 0
        self._fresh: set[int] = set()
        """Noted since the last step: their time begins with the next one, which tells the time."""
        self._since: dict[int, float] = {}
        self._due: list[tuple[float, int]] = []
        """Heap of (when, jid); void where the job is not in ``_since``, or is there since later."""

    def __contains__(self, jid: int) -> bool:
        return jid in self._since or jid in self._fresh

    def note(self, state: JobState) -> None:
        """A member was lost: the gang's time begins, if it has too few left."""
        if state.job.jid not in self and short(state):
            self.broken += 1
            self._fresh.add(state.job.jid)

    def settle(self, state: JobState) -> None:
        """Members of a noted gang came or went: it may be whole again, or nothing left of it."""
        if not short(state) and state.job.jid in self:
            self.forget(state.job.jid)
            self.repaired += state.info.held[0] > 0

    def forget(self, jid: int) -> None:
        """The job was deleted: its members are stopped anyhow."""
        self._fresh.discard(jid)
        self._since.pop(jid, None)

    def due(self, now: float) -> list[int]:
        """Jobs whose time is over."""
        for jid in self._fresh:
            self._since[jid] = now
            heapq.heappush(self._due, (now + self.seconds, jid))
        self._fresh.clear()
        found = []
        while self._due and self._due[0][0] <= now:
            _, jid = heapq.heappop(self._due)
            since = self._since.get(jid)
            if since is not None and since + self.seconds <= now:
                found.append(jid)
        return found

    def later(self, jid: int, now: float) -> None:
        """It cannot be released yet."""
        heapq.heappush(self._due, (now + LOOK_AGAIN_SECONDS, jid))

    def release(self, jid: int) -> None:
        """Its rest is being stopped."""
        self.released += 1
        self.forget(jid)

    def next_due(self) -> float | None:
        return self._due[0][0] if self._due else None


def short(state: JobState) -> bool:
    """Whether a group of the job holds members, but fewer than its minimum."""
    info = state.info
    return any(
        held > 0 and held + best < group.minimum
        for group, held, best in zip(state.job.groups, info.held, info.best_effort, strict=True)
    )
