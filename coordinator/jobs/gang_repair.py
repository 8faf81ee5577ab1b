"""Gangs that hold members, but fewer than their minimum: repaired in time, or released.

A statement never leaves a gang in that state. A refused bind does, and so does a member that the
cluster lost (its state is LOST; docs/decisions/0040). The missing members are placed again; where
that does not succeed within a set time, the others are stopped, so that no half gang holds nodes
that others could use.

A member that ran and failed is not such a case: the job's policies decide what follows.
"""

from __future__ import annotations

import heapq

from coordinator.jobs.state import JobState
from shared.messages.messages import TaskState

REPAIR_SECONDS = 30.0
"""Default for how long a gang may stay below its minimum."""

LOOK_AGAIN_SECONDS = 1.0
"""Delay before a gang is looked at again whose turn was open when its time was over."""


class Gangs:
    """The gangs below their minimum, and since when."""

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
        """Note that a member was lost: starts the gang's time limit if it is below its minimum."""
        if state.job.jid not in self and short(state):
            self.broken += 1
            self._fresh.add(state.job.jid)

    def settle(self, state: JobState) -> None:
        """Members of a noted gang came or went: stop watching it where it is whole again, or
        empty."""
        if not short(state) and state.job.jid in self:
            self.forget(state.job.jid)
            self.repaired += state.info.held[0] > 0

    def forget(self, jid: int) -> None:
        """Forget a deleted job: its members are stopped anyhow."""
        self._fresh.discard(jid)
        self._since.pop(jid, None)

    def due(self, now: float) -> list[int]:
        """Jobs whose time limit is over."""
        for jid in self._fresh:
            self._since[jid] = now
            heapq.heappush(self._due, (now + self.seconds, jid))
        self._fresh.clear()
        due = []
        while self._due and self._due[0][0] <= now:
            _, jid = heapq.heappop(self._due)
            since = self._since.get(jid)
            # The entry may be of an earlier time at which the gang was short; it was whole in
            # between.
            if since is not None and since + self.seconds <= now:
                due.append(jid)
        return due

    def later(self, jid: int, now: float) -> None:
        """Look again later at a gang that cannot be released yet."""
        heapq.heappush(self._due, (now + LOOK_AGAIN_SECONDS, jid))

    def release(self, jid: int) -> None:
        """Note that the gang's remaining members are being stopped."""
        self.released += 1
        self.forget(jid)

    def next_due(self) -> float | None:
        return self._due[0][0] if self._due else None


def short(state: JobState) -> bool:
    """Whether a group of the job holds members, but fewer than its minimum."""
    info = state.info
    return any(
        members > 0 and members + best < group.minimum
        for group, members, best in zip(state.job.groups, info.held, info.best_effort, strict=True)
    )


def left_short(state: JobState) -> bool:
    """Whether a loss or a refused bind left a group of the job below its minimum, judged by its
    task states alone, because a new leader has nothing else.

    A group with lost members counts. Otherwise failed members count as present: where that reaches
    the minimum, the failures explain the gap, and the job's policies decide. The records do not say
    why evicted members wait again, so such a job is left alone.
    """
    info, waits = state.info, state.info.pending and not state.incarnations
    for at, group in enumerate(state.job.groups):
        placed, members = info.held[at], info.held[at] + info.best_effort[at]
        # A group that holds nobody is not broken: it waits for a turn as any other.
        if not 0 < placed <= members < group.minimum:
            continue
        # Told from the records alone, which is why LOST is a state of its own beside FAILED
        # (decision 0040).
        if _count(state, at, TaskState.LOST):
            return True
        if waits and members + _count(state, at, TaskState.FAILED) < group.minimum:
            return True
    return False


def _count(state: JobState, group: int, task_state: TaskState) -> int:
    """The tasks in this state, in a group or its descendants."""
    groups, states, total = state.job.groups, state.states, 0
    for role in state.job.roles:
        at = role.group
        while at not in (group, -1):
            at = groups[at].parent
        if at == group:
            total += states.count(task_state, role.first, role.first + role.count)
    return total
