"""The order in which the jobs of a plan would get their turns.

As Order picks: the first queue by QueueOrder, in it the first job by JobOrder, each on top of what
was picked before. That moves shares from pick to pick, and a gang that has its minimum comes after
those that have not. It all happens on copies of Order's totals.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from coordinator.jobs.state import JobState, Need, amounts, recount
from coordinator.order.order import Order
from shard_worker.session_model.queue_totals import charge, link, used
from shard_worker.session_model.workload import Amounts, ClusterInfo, QueueInfo, add
from shared.codec.packed import replace
from shared.messages.messages import Group, TaskRun, TaskState, Turn
from shared.model.model import Requests, TaskClass
from shared.slices import Steps

FEW_JOBS = 8
"""Up to this many jobs the elastic tasks of each get turns of their own, as shares decide; of more
jobs they are one turn after the minimum, or picking would take seconds."""
PARTS = 16
"""Turns that the elastic tasks of one job are cut into at most."""


@dataclass(slots=True)
class PlannedJob:
    """A job of the plan. ``state`` and ``queue`` are the plan's own copies."""

    state: JobState
    queue: QueueInfo
    turns: list[Turn]
    """The one for its minimum, then those for its elastic tasks."""


@dataclass(slots=True)
class PickedTurns:
    """``turns``: (index of the job, its how many-th turn, turn) in the order of the picks.
    ``denied``: jobs whose minimum would exceed a capability, with their queue as it was then."""

    turns: list[tuple[int, int, Turn]]
    denied: dict[int, QueueInfo]


def picked(
    order: Order,
    jobs: Sequence[PlannedJob],
    classes: dict[int, TaskClass],
    *,
    misses: Set[tuple[int, int]],
) -> Steps[PickedTurns]:
    """The order of the picks. ``misses``: (job, how many-th turn) that found no place and so take
    nothing from those after them."""
    cluster = plan_totals(order.accounts.cluster, jobs, classes)
    result = PickedTurns([], {})
    remaining = {number: 0 for number, job in enumerate(jobs) if job.turns}
    requests = [[_requests(turn, classes) for turn in job.turns] for job in jobs]
    out: set[int] = set()
    """Jobs with a turn under way: each has one at a time, and others are picked meanwhile."""
    while remaining:
        yield
        if not (free := remaining.keys() - out):
            out.clear()
            continue
        keys = _PickKeys(order, cluster)
        wanted = {number: requests[number][remaining[number]] for number in free}
        first = min(free, key=lambda number: keys.of(jobs[number], wanted[number]))
        job, at = jobs[first], remaining[first]
        turn, queue = job.turns[at], cluster.queues[job.queue.queue.qid]
        asked = dict(wanted[first])
        if not within_capability(queue, asked):
            del remaining[first]
            if not at:
                result.denied[first] = _frozen(queue)
            continue
        result.turns.append((first, at, turn))
        if (first, at) not in misses:
            hold(job.state, turn.runs, classes)
            charge(queue, asked.items(), 1)
        out.add(first)
        remaining[first] = at + 1
        if at + 1 == len(job.turns):
            del remaining[first]
    return result


def parted(turn: Turn, core: Need, *, several: bool) -> list[Turn]:
    """The turn for the minimum, then those for the elastic tasks. ``several``: more than one."""
    # Of several roles, which tasks are elastic is for the worker; a session places a job whole.
    if not turn.tail or not core or turn.world or len(turn.runs) != 1:
        return [turn]
    (run,) = turn.runs
    placed = sum(count for _, count in core)
    elastic = run.tasks[placed:]
    size = max(1, -(-len(elastic) // PARTS)) if several else max(1, len(elastic))
    turns = [replace(turn, runs=[replace(run, tasks=run.tasks[:placed])], tail=0)]
    for at in range(0, len(elastic), size):
        part = elastic[at : at + size]
        groups = _holding(turn.groups, run.group, placed + at)
        turns.append(replace(turn, groups=groups, runs=[replace(run, tasks=part)], tail=len(part)))
    return turns


def _holding(groups: list[Group], at: int, more: int) -> list[Group]:
    """The groups once one of them, and all above it, hold more members."""
    group_counts = list(groups)
    while at >= 0:
        group_counts[at] = replace(group_counts[at], held=group_counts[at].held + more)
        at = group_counts[at].parent
    return group_counts


def plan_totals(
    cluster: ClusterInfo, jobs: Sequence[PlannedJob], classes: dict[int, TaskClass]
) -> ClusterInfo:
    """A copy of the totals, as they are once the jobs of the plan are admitted."""
    own = {job.queue.queue.qid: job.queue for job in jobs}
    queues = {
        qid: replace(
            info,
            allocated=dict(info.allocated),
            requested=dict(info.requested),
            above=(),
            below=None,
        )
        for qid, info in (cluster.queues | own).items()
    }
    for job in jobs:
        queue = queues[job.queue.queue.qid]
        queue.jobs += 1
        add(queue.requested, job.state.info.requested.items(), 1)
    link(queues)
    return replace(cluster, queues=queues)


def _requests(turn: Turn, classes: dict[int, TaskClass]) -> Requests:
    asked = amounts(tuple((run.cid, len(run.tasks)) for run in turn.runs), classes)
    return tuple(sorted(asked.items()))


class _PickKeys:
    """Sort keys of planned jobs for one pick, in which no total moves: what depends on the queue
    alone is asked once for each."""

    def __init__(self, order: Order, cluster: ClusterInfo) -> None:
        self._session, self._cluster = order.session, cluster
        self._of_queue: dict[int, tuple[bool, Any]] = {}
        self._borrows: dict[tuple[int, Requests], bool] = {}

    def of(self, job: PlannedJob, requests: Requests) -> tuple[Any, ...]:
        """Jobs within their queue's share first, then jobs that borrow, where the policy does not
        choose by a tree of queues."""
        session, cluster = self._session, self._cluster
        queue = cluster.queues[job.queue.queue.qid]
        qid, written = queue.queue.qid, job.state.job
        if qid not in self._of_queue:
            over = session.overused(queue, cluster)
            self._of_queue[qid] = over, session.queue_key(queue, cluster)
        borrows, queue_key = self._of_queue[qid]
        if session.queue_choice is None and not borrows:
            if (qid, requests) not in self._borrows:
                fits = session.allocatable(queue, requests, cluster)
                self._borrows[qid, requests] = not fits
            borrows = self._borrows[qid, requests]
        return (
            borrows,
            queue_key,
            queue.queue.name,
            session.job_key(job.state.info, cluster),
            written.created,
            written.jid,
        )


def _frozen(queue: QueueInfo) -> QueueInfo:
    """The queue as it is now: later picks change what it has."""
    above = tuple(replace(info, allocated=dict(used(info)), below=None) for info in queue.above)
    return replace(queue, allocated=dict(used(queue)), above=above, below=None)


def within_capability(queue: QueueInfo, asked: Amounts) -> bool:
    """Whether a queue, and each above it, may have so much more."""
    return all(
        used(info).get(slot, 0) + info.releasing.get(slot, 0) + asked[slot] <= limit
        for info in (queue, *queue.above)
        for slot, limit in info.queue.capability or ()
        if slot in asked
    )


def hold(state: JobState, runs: Sequence[TaskRun], classes: dict[int, TaskClass]) -> None:
    """Count the tasks of a turn as placed."""
    for run in runs:
        for tix in run.tasks:
            state.states[tix] = TaskState.BINDING
    recount(state, classes)
