"""Nominations: which pipelined jobs wait for which nodes, and when they are retried.

A nominated gang waits for the tasks that are leaving its nodes. The last of them wakes it; a timer
only covers events that our records do not show (another job's nomination that expired).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from coordinator.jobs.state import NO_TASKS, JobState, count_group
from shared.messages.messages import Level, Outcome, TaskState

LOOK_AGAIN_SECONDS = 1.0
"""A nominated job is retried after this time even if no release on its nodes was seen (what blocks
it may be none of our tasks); doubles each time, up to 8 s: less than the lifetime of a nomination,
so that none expires unnoticed."""


class Nominations:
    def __init__(self) -> None:
        self._jobs: dict[int, set[int]] = {}
        """row -> jids that wait for tasks leaving it."""
        self._leaving: Counter[int] = Counter()
        """Tasks that are leaving, by node."""
        self.overdue: frozenset[int] = frozenset()
        """Nodes of tasks that should have left by now."""
        self._timers: list[tuple[float, int, int]] = []
        """Heap of (when, jid, stamp)."""

    def add(self, state: JobState, outcome: Outcome) -> bool:
        """Note where a job waits. False where nothing is leaving those nodes any more: it had left
        before the nomination was known here."""
        for p in outcome.placements:
            for tix, row, level in zip(p.tasks, p.rows, p.levels, strict=True):
                state.nominated[tix] = row
                # Levels L3 and L4 are promised what is leaving; the other places are idle already.
                if level >= Level.FUTURE_OWN and self._leaving[row] > 0:
                    state.waits_for |= {row}
        self._count(state, +1)
        for row in state.waits_for:
            self._jobs.setdefault(row, set()).add(state.job.jid)
        return bool(state.waits_for)

    def move(self, state: JobState, places: Mapping[int, int]) -> None:
        """Note the nodes that tasks of a job move to: they wait for whoever leaves those."""
        self.drop(state)
        state.nominated = dict(places)
        self._count(state, +1)
        self.wait_for(state, places.values())

    def wait_for(self, state: JobState, rows: Iterable[int]) -> None:
        """Let a nominated job wait for the tasks that leave these nodes, as far as it is nominated
        there."""
        nominated_rows = set(state.nominated.values())
        for row in rows:
            if row in nominated_rows and self._leaving[row] > 0:
                state.waits_for |= {row}
                self._jobs.setdefault(row, set()).add(state.job.jid)

    def drop(self, state: JobState) -> None:
        """Forget the job's nominations."""
        if not state.nominated:
            return
        self._count(state, -1)
        for row in state.waits_for:
            waiting = self._jobs.get(row)
            if waiting is not None:
                waiting.discard(state.job.jid)
                if not waiting:
                    del self._jobs[row]
        state.nominated, state.waits_for = {}, NO_TASKS

    def _count(self, state: JobState, sign: int) -> None:
        for tix in state.nominated:
            role = state.job.role_of(tix)
            count_group(state.info.waiting, state.job.groups, role.group, sign)

    # --- what wakes them ----------------------------------------------------------------------

    def leaving(self, row: int) -> None:
        """Note that a task on this node is leaving (also on recovery)."""
        self._leaving[row] += 1

    def left(self, row: int) -> None:
        """Note that a leaving task has left this node."""
        self._leaving[row] -= 1

    def moved(self, job: JobState, new: TaskState, tasks: list[int], rows: list[int]) -> None:
        """Take state changes of tasks; ``job`` still has the old states."""
        if new is not TaskState.RELEASING and not self._leaving:
            return
        for tix, row in zip(tasks, rows, strict=True):
            before = job.states[tix]
            if new is TaskState.RELEASING and before != TaskState.RELEASING:
                self._leaving[row] += 1
            elif new is not TaskState.RELEASING and before == TaskState.RELEASING:
                self._leaving[row] -= 1

    def freed(self, rows: list[int], jobs: dict[int, JobState]) -> Iterator[int]:
        """Jobs that waited for one of these nodes and have no other left to wait for."""
        if not self._jobs:
            return
        # Sorted, as the jobs below: who is woken first goes first, and a replay must wake them in
        # the same order.
        for row in sorted(set(rows)):
            if self._leaving[row] > 0:
                continue  # others are still on their way out of this node
            for jid in sorted(self._jobs.pop(row, ())):
                state = jobs[jid]
                state.waits_for -= {row}
                if not state.waits_for:
                    yield jid

    def binding(self, state: JobState) -> dict[int, int]:
        """The job's nominations that a turn must keep to. Not those on a node whose tasks do not
        go: it may take other room, and where there is none it is promised the same again."""
        return {tix: row for tix, row in state.nominated.items() if row not in self.overdue}

    def waiting_for(self, row: int) -> list[int]:
        """The jobs that wait for tasks leaving this node."""
        return sorted(self._jobs.get(row, ()))

    def look_again(self, state: JobState, now: float) -> None:
        """Set the timer of a job that waits."""
        due = now + LOOK_AGAIN_SECONDS * 2 ** min(state.attempts, 3)
        heapq.heappush(self._timers, (due, state.job.jid, state.stamp))

    def due(self, now: float, jobs: dict[int, JobState]) -> Iterator[int]:
        """Jobs whose timer has expired."""
        while self._timers and self._timers[0][0] <= now:
            _, jid, stamp = heapq.heappop(self._timers)
            # A later stamp: the job was queued, or nominated anew, since the timer was set.
            if jid in jobs and jobs[jid].stamp == stamp:
                yield jid

    def next_due(self) -> float | None:
        return self._timers[0][0] if self._timers else None
