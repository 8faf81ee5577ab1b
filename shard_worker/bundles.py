"""Bundles: what can be evicted together for a gang, without leaving another gang in pieces.

A *safe* bundle is one member that its job can spare. A *whole* bundle is all that is left of a job,
wherever it runs: better none of it than less than it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING

from shard_worker.rules import Mask
from shard_worker.spare import Spare
from shard_worker.tasks import EVICTABLE, OCCUPYING, Status, TaskInfo
from shard_worker.victims import in_order
from shard_worker.workload import Amounts, add

if TYPE_CHECKING:
    from shard_worker.session import Session
    from shard_worker.session_job import SessionJob


MayGo = Callable[[TaskInfo], bool]


@dataclass(slots=True, eq=False)
class Bundle:
    job: SessionJob
    whole: bool
    named: tuple[TaskInfo, ...]
    """Of a whole bundle: those in the domain."""
    gain: float = 0.0
    """What it frees in the domain of what is needed there, for each task that it costs."""

    @property
    def tasks(self) -> list[TaskInfo]:
        """Who would have to leave, as things stand."""
        if not self.whole:
            return list(self.named)
        return [task for task in self.job.tasks if task.status & EVICTABLE]


def bundles(
    ssn: Session,
    evictor: SessionJob,
    rows: Mask,
    may_go: MayGo,
    *,
    need: Amounts,
    whole: bool,
) -> list[Bundle]:
    """What can be evicted in a domain, in the order in which it is taken.

    Safe ones first; then by the order of queues and jobs, last in it first; then by what they gain.
    ``whole``: whole gangs may go, too.
    """
    found: list[Bundle] = []
    for tasks in _by_job(ssn, rows, may_go):
        job, spare = tasks[0].job, Spare(tasks[0].job)
        ordered = in_order(ssn, evictor, tasks)
        safe = [task for task in ordered if spare.take(task)]
        found += [Bundle(job, False, (task,), _gain([task], need, 1)) for task in safe]
        if whole and len(safe) < len(tasks) and _may_go_whole(ssn, job, may_go):
            cost = job.census.of(OCCUPYING)
            found.append(Bundle(job, True, tuple(tasks), _gain(tasks, need, cost)))
    return sorted(found, key=cmp_to_key(_order(ssn, evictor)))


def _by_job(ssn: Session, rows: Mask, may_go: MayGo) -> list[list[TaskInfo]]:
    jobs: dict[int, list[TaskInfo]] = {}
    for row, tasks in ssn.world.resident.items():
        if rows[row]:
            for task in tasks:
                if task.status & EVICTABLE and may_go(task):
                    jobs.setdefault(task.job.job.jid, []).append(task)
    return [jobs[jid] for jid in sorted(jobs)]


def _may_go_whole(ssn: Session, job: SessionJob, may_go: MayGo) -> bool:
    """Is every member that has, or was promised, a place on a node within reach, and may leave?"""
    reach = ssn.world.in_reach()
    return all(
        bool(task.status & EVICTABLE) and bool(reach[task.row]) and may_go(task)
        for task in job.tasks
        if task.status & (OCCUPYING | Status.PIPELINED)
    )


def _gain(tasks: Sequence[TaskInfo], need: Amounts, cost: int) -> float:
    freed: Amounts = {}
    for task in tasks:
        add(freed, task.requests, 1)
    useful = sum(min(freed.get(slot, 0) / amount, 1.0) for slot, amount in need.items() if amount)
    return useful / max(cost, 1)


def _order(ssn: Session, evictor: SessionJob) -> Callable[[Bundle, Bundle], int]:
    def compare(left: Bundle, right: Bundle) -> int:
        found = float(left.whole - right.whole) or _by_queue(ssn, left.job, right.job, evictor)
        found = found or -ssn.rank_jobs(left.job, right.job)
        found = found or right.gain - left.gain
        if not found and left.job is not right.job:
            found = -ssn.compare_jobs(left.job, right.job)
        return -1 if found < 0 else 1 if found > 0 else 0

    return compare


def _by_queue(ssn: Session, left: SessionJob, right: SessionJob, evictor: SessionJob) -> float:
    mine, theirs, queue = left.queue, right.queue, evictor.queue
    if mine is theirs or mine is None or theirs is None or queue is None:
        return 0.0
    return ssn.compare_victim_queues(mine, theirs, queue)
