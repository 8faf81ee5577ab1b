"""Bundles, the units of eviction for a gang: tasks that can leave without breaking another gang.

A *safe* bundle is one member that its job can spare. A *whole* bundle is all remaining tasks of a
job, on any node: evicting all of them is better than leaving fewer than the job needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING

import numpy as np

from shard_worker.eviction.disruption import unit_may_go
from shard_worker.eviction.gang_slack import Surplus
from shard_worker.framework.rules import Mask
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import EVICTABLE, OCCUPYING
from shard_worker.session_model.workload import Amounts, add

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob


MayGo = Callable[[TaskInfo], bool]


@dataclass(slots=True, eq=False)
class EvictionUnit:
    job: SessionJob
    whole: bool
    named: tuple[TaskInfo, ...]
    """Tasks of a whole bundle in the domain."""
    gain: float = 0.0
    """Sum over resources of the fraction of the gang's need that it frees in the domain, per
    evicted task."""

    @property
    def tasks(self) -> list[TaskInfo]:
        """The tasks that would have to leave now."""
        if not self.whole:
            return list(self.named)
        return [task for task in self.job.tasks if task.status & EVICTABLE]


def eviction_units(
    ssn: Session,
    evictor: SessionJob,
    rows: Mask,
    may_go: MayGo,
    *,
    need: Amounts,
    whole: bool,
) -> Iterator[EvictionUnit]:
    """The bundles of a domain, in the order of eviction.

    Safe ones first; then by the order of queues and jobs, last in it first; then by gain.
    ``whole``: whole gangs may be evicted, too. A generator, because mostly few bundles are needed.
    """
    groups = _ranked(ssn, evictor, _by_job(ssn, rows, may_go))
    for group in groups:
        yield from sorted(
            (unit for tasks in group for unit in _safe(ssn, tasks, need)), key=_first_gain
        )
    for group in groups if whole else ():
        yield from sorted(
            (unit for tasks in group for unit in _whole(ssn, tasks, may_go, need)),
            key=_first_gain,
        )


def _first_gain(unit: EvictionUnit) -> float:
    return -unit.gain


def _ranked(
    ssn: Session, evictor: SessionJob, jobs: list[list[TaskInfo]]
) -> list[list[list[TaskInfo]]]:
    """The tasks of each job, in groups of jobs that no plugin orders."""

    def by_rule(left: SessionJob, right: SessionJob) -> float:
        return _by_queue(ssn, left, right, evictor) or -ssn.rank_jobs(left, right)

    def compare(left: list[TaskInfo], right: list[TaskInfo]) -> int:
        left_job, right_job = left[0].job, right[0].job
        order = by_rule(left_job, right_job) or -ssn.compare_jobs(left_job, right_job)
        return -1 if order < 0 else 1 if order > 0 else 0

    groups: list[list[list[TaskInfo]]] = []
    for tasks in sorted(jobs, key=cmp_to_key(compare)):
        if groups and by_rule(groups[-1][0][0].job, tasks[0].job) == 0:
            groups[-1].append(tasks)
        else:
            groups.append([tasks])
    return groups


def _safe(ssn: Session, tasks: list[TaskInfo], need: Amounts) -> list[EvictionUnit]:
    """One bundle for each spare member in the domain, the least important first."""
    job, surplus = tasks[0].job, Surplus(tasks[0].job)
    ordered = reversed(ssn.in_task_order(tasks))
    return [
        EvictionUnit(job, False, (task,), _gain([task], need, 1))
        for task in ordered
        if surplus.take(task)
    ]


def _whole(ssn: Session, tasks: list[TaskInfo], may_go: MayGo, need: Amounts) -> list[EvictionUnit]:
    """The bundle of all remaining tasks of the job, if any of them is in the domain."""
    job = tasks[0].job
    remaining = [task for task in tasks if task.status & EVICTABLE]
    if not remaining or not unit_may_go(ssn.world, remaining[0], may_go):
        return []
    return [
        EvictionUnit(job, True, tuple(remaining), _gain(remaining, need, job.census.of(OCCUPYING)))
    ]


def _by_job(ssn: Session, rows: Mask, may_go: MayGo) -> list[list[TaskInfo]]:
    jobs: dict[int, list[TaskInfo]] = {}
    # Only rows with tasks that could go: to read a node's residents makes objects of their jobs
    # (decision 0048).
    for row in np.flatnonzero(ssn.world.evictable_rows() & rows).tolist():
        for task in ssn.world.tasks_on(row):
            if task.status & EVICTABLE and may_go(task):
                jobs.setdefault(task.job.job.jid, []).append(task)
    return [jobs[jid] for jid in sorted(jobs)]


def _gain(tasks: Sequence[TaskInfo], need: Amounts, cost: int) -> float:
    freed: Amounts = {}
    for task in tasks:
        add(freed, task.requests, 1)
    useful = sum(min(freed.get(slot, 0) / amount, 1.0) for slot, amount in need.items() if amount)
    return useful / max(cost, 1)


def _by_queue(ssn: Session, left: SessionJob, right: SessionJob, evictor: SessionJob) -> float:
    left_queue, right_queue, queue = left.queue, right.queue, evictor.queue
    if left_queue is right_queue or left_queue is None or right_queue is None or queue is None:
        return 0.0
    return ssn.compare_victim_queues(left_queue, right_queue, queue)
