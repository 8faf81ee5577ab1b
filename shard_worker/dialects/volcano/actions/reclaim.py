"""reclaim: a queue with less than its share takes nodes back from queues that have more.

Queue by queue, a job at a time, so that shares are computed anew after each. Nodes are not scored:
the first on which evictions help is taken, the own shard's before others'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shard_worker.eviction.node_search import NodeSearch
from shard_worker.eviction.refusals import WILLING, Tests, considered, tell
from shard_worker.eviction.victims import by_turns, fits_now, settle, starving_jobs, waiting_tasks
from shard_worker.framework.extension_points import RECLAIMABLE
from shard_worker.framework.statement import WorldStatement
from shard_worker.placement.candidates import feasible
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shard_worker.topology.allocated_domains import asks_for_domains

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob

NAME = "reclaim"


def execute(ssn: Session) -> None:
    """Run for each starving job once, alternating between the queues that may have more."""
    starving = [job for job in starving_jobs(ssn) if not asks_for_domains(job)]
    for job in by_turns(ssn, starving):
        _for_job(ssn, job)


def reclaim_job(ssn: Session, job: SessionJob) -> None:
    """Run the action for one job."""
    if job.queue is not None and not asks_for_domains(job) and not ssn.queue_overused(job.queue):
        _for_job(ssn, job)


def _for_job(ssn: Session, job: SessionJob) -> None:
    """Evict for the tasks of a job until it no longer starves; all or nothing."""
    statement, tasks = WorldStatement(ssn), waiting_tasks(ssn, job)
    search = NodeSearch(ssn, statement, action=NAME, tests=TESTS, rules=ssn.reclaimable)
    failed: set[int] = set()
    first: TaskInfo | None = None
    while tasks and ssn.job_starving(job):
        task = tasks.pop()
        if id(task.role) in failed or not may_reclaim(ssn, task):
            continue
        if _place(search, task):
            failed.clear()
        else:
            failed.add(id(task.role))
            first = first or task
    if not settle(ssn, statement, job, NAME) and first is not None:
        _tell(ssn, job, first)


def _tell(ssn: Session, job: SessionJob, task: TaskInfo) -> None:
    """Record why no task was evicted for the first task that found no place."""
    rows = feasible(ssn, task, cure=True).mask
    refusals = considered(ssn, task, rows, TESTS, RECLAIMABLE)
    tell(ssn, job, refusals)


def may_reclaim(ssn: Session, task: TaskInfo) -> bool:
    """Whether others may be evicted for this task."""
    queue = task.job.queue
    return (
        queue is not None
        and task.preempts
        and ssn.preemptive(queue, [task])
        and ssn.pre_predicate(task) is None
    )


def _place(search: NodeSearch, task: TaskInfo) -> bool:
    """Pipeline the task to a node with room for it, else to one that evictions can clear."""
    return search.take_free(task) or any(
        search.clear(task, row, fits_now)
        for rows in search.groups(task)
        for row in np.flatnonzero(rows).tolist()
    )


def _gives_back(victim: TaskInfo, _: TaskInfo) -> bool:
    return victim.job.queue is not None and victim.job.queue.queue.reclaimable


TESTS: Tests = (
    ("leaving, or not running yet", lambda victim, _: victim.status is Status.RUNNING),
    ("of its own queue", lambda victim, task: victim.job.queue is not task.job.queue),
    ("of queues that give nothing back", _gives_back),
    *WILLING,
)
