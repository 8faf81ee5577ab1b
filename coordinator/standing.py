"""Where a job stands in its queue, and who holds the nodes it would like to have."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from coordinator.core import Coordinator
from coordinator.jobs import JobState, Standing
from coordinator.lines import Entry, Line
from shared.messages import HOLDING, TaskState

AHEAD = 5
"""Jobs named that stand before another."""
HOLDERS = 3
"""Jobs named that hold a node."""


@dataclass(frozen=True, slots=True)
class Place:
    """``position`` counts from 1; 0 where the job stands in no line (its turn is out, it waits for
    something else)."""

    position: int
    of: int
    ahead: list[str] = field(default_factory=list)
    """The first of those before it, in order."""


def place_in_queue(core: Coordinator, state: JobState) -> Place:
    """A walk over all jobs that wait in the queue: for one question, not for every job."""
    queue = core.order.lines.queues.get(state.info.qid)
    if queue is None:
        return Place(0, 0)
    waiting = [entry for line in queue.lines.values() for entry in _standing(core, line)]
    mine = next((entry for entry in waiting if entry[2] == state.job.jid), None)
    if mine is None:
        return Place(0, len(waiting))
    before = [entry for entry in waiting if entry < mine]
    first = heapq.nsmallest(AHEAD, before)
    return Place(
        position=len(before) + 1,
        of=len(waiting),
        ahead=[core.order.jobs[entry[2]].job.key for entry in first],
    )


def _standing(core: Coordinator, line: Line) -> Iterator[Entry]:
    """Entries that are not void."""
    for entry in line.heap:
        state = core.order.jobs.get(entry[2])
        if (
            state is not None
            and state.stamp == entry[3]
            and state.standing is Standing.READY
            and state.line is line
        ):
            yield entry


@dataclass(slots=True)
class Holders:
    """Of one node: who holds it, and who is leaving it."""

    jobs: list[str] = field(default_factory=list)
    leaving: list[str] = field(default_factory=list)


def holders(core: Coordinator, rows: Iterable[int]) -> dict[int, Holders]:
    """By row. A search through the tasks of the jobs that hold something, until enough is found."""
    found = {row: Holders() for row in rows}
    for state in core.order.jobs.values():
        if state.standing is Standing.DONE or not any(state.info.held):
            continue
        for row, told in found.items():
            if row in state.rows:
                _note(state, row, told)
    return found


def _note(state: JobState, row: int, told: Holders) -> None:
    at = -1
    while True:
        try:
            at = state.rows.index(row, at + 1)
        except ValueError:
            return
        task = state.states[at]
        if task == TaskState.RELEASING and len(told.leaving) < HOLDERS:
            told.leaving.append(state.job.key)
            return
        if task in HOLDING and len(told.jobs) < HOLDERS:
            told.jobs.append(state.job.key)
            return
