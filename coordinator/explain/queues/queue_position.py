"""A job's position in its queue, and the holders of the nodes it could use."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from coordinator.core.coordinator import Coordinator
from coordinator.jobs.pending_order import Line
from coordinator.jobs.pending_tree import Entry
from coordinator.jobs.state import JobState, SchedulingStatus
from shared.messages.messages import HOLDING, TaskState

AHEAD = 5
"""Most jobs listed that come before another."""
HOLDERS = 3
"""Most jobs listed that hold a node."""


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """``position`` counts from 1; 0 where the job is in no line (its turn is open, or it waits for
    something else)."""

    position: int
    of: int
    ahead: list[str] = field(default_factory=list)
    """The first of the jobs before it, in order."""


def place_in_queue(core: Coordinator, state: JobState) -> QueuePosition:
    """The position of a job; walks over all jobs that wait in the queue, so for single questions
    only."""
    queue = core.order.lines.queues.get(state.info.qid)
    if queue is None:
        return QueuePosition(0, 0)
    waiting = [entry for line in queue.lines.values() for entry in waiting_entries(core, line)]
    own_entry = next((entry for entry in waiting if entry[2] == state.job.jid), None)
    if own_entry is None:
        return QueuePosition(0, len(waiting))
    before = [entry for entry in waiting if entry < own_entry]
    first = heapq.nsmallest(AHEAD, before)
    return QueuePosition(
        position=len(before) + 1,
        of=len(waiting),
        ahead=[core.order.jobs[entry[2]].job.key for entry in first],
    )


def waiting_entries(core: Coordinator, line: Line) -> Iterator[Entry]:
    """The valid entries of a line."""
    for entry in line.heap:
        state = core.order.jobs.get(entry[2])
        if (
            state is not None
            and state.stamp == entry[3]
            and state.status is SchedulingStatus.READY
            and state.line is line
        ):
            yield entry


@dataclass(slots=True)
class Holders:
    """The jobs that hold a node, and those that are leaving it."""

    jobs: list[str] = field(default_factory=list)
    leaving: list[str] = field(default_factory=list)


def holders(core: Coordinator, rows: Iterable[int]) -> dict[int, Holders]:
    """Holders by row. Searches the tasks of jobs that hold nodes until enough are found."""
    holders_of = {row: Holders() for row in rows}
    for state in core.order.jobs.values():
        if state.status is SchedulingStatus.DONE or not any(state.info.held):
            continue
        for row, holder in holders_of.items():
            if row in state.rows:
                _note(state, row, holder)
    return holders_of


def _note(state: JobState, row: int, holder: Holders) -> None:
    at = -1
    while True:
        try:
            at = state.rows.index(row, at + 1)
        except ValueError:
            return
        task = state.states[at]
        if task == TaskState.RELEASING and len(holder.leaving) < HOLDERS:
            holder.leaving.append(state.job.key)
            return
        if task in HOLDING and len(holder.jobs) < HOLDERS:
            holder.jobs.append(state.job.key)
            return
