"""reclaim: a queue with less than its share takes nodes back from queues that have more.

Queue by queue, a job at a time, so that shares are looked at anew after each. Nodes are not scored:
the first on which evictions help is taken, the own shard's before others'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shard_worker.allocated_domains import asks_for_domains
from shard_worker.candidates import choose, feasible
from shard_worker.considered import WILLING, Tests, considered, may_go, tell
from shard_worker.tasks import Status, TaskInfo
from shard_worker.victims import (
    by_turns,
    fits_now,
    in_order,
    inhabited,
    reason,
    settle,
    shard_groups,
    starving_jobs,
    suffice,
    victim_queue,
    waiting_tasks,
)
from shard_worker.world_statement import WorldStatement

if TYPE_CHECKING:
    from shard_worker.session import Session
    from shard_worker.session_job import SessionJob

NAME = "reclaim"


def execute(ssn: Session) -> None:
    """Until no queue that may have more has a starving job left that was not tried."""
    starving = [job for job in starving_jobs(ssn) if not asks_for_domains(job)]
    for job in by_turns(ssn, starving):
        _for_job(ssn, job)


def reclaim_job(ssn: Session, job: SessionJob) -> None:
    """What the action does for one job."""
    if job.queue is not None and not asks_for_domains(job) and not ssn.queue_overused(job.queue):
        _for_job(ssn, job)


def _for_job(ssn: Session, job: SessionJob) -> None:
    """Evict for the tasks of a job until it starves no more; all or nothing."""
    statement, tasks = WorldStatement(ssn), waiting_tasks(ssn, job)
    failed: set[int] = set()
    first: TaskInfo | None = None
    while tasks and ssn.job_starving(job):
        task = tasks.pop()
        if id(task.role) in failed or not may_reclaim(ssn, task):
            continue
        if _place(ssn, statement, task):
            failed.clear()
        else:
            failed.add(id(task.role))
            first = first or task
    if not settle(ssn, statement, job, NAME) and first is not None:
        _tell(ssn, job, first)


def _tell(ssn: Session, job: SessionJob, task: TaskInfo) -> None:
    """Why nobody was evicted for the first task that found no place."""
    rows = feasible(ssn, task, cure=True).mask
    found = considered(ssn, task, rows, TESTS, "Reclaimable")
    tell(ssn, job, found)


def may_reclaim(ssn: Session, task: TaskInfo) -> bool:
    """May others be evicted for this task at all?"""
    queue = task.job.queue
    return (
        queue is not None
        and task.preempts
        and ssn.preemptive(queue, [task])
        and ssn.pre_predicate(task) is None
    )


def _place(ssn: Session, statement: WorldStatement, task: TaskInfo) -> bool:
    """Pipeline the task to a node that takes it as it is, else to one that has to be cleared."""
    free = choose(ssn, task, feasible(ssn, task).mask)
    if free is not None:
        statement.pipeline(task, free[0])
        return True
    world = ssn.world
    for rows in shard_groups(world, feasible(ssn, task, cure=True).mask):
        for row in np.flatnonzero(inhabited(world, rows)).tolist():
            if _take(ssn, statement, task, row):
                return True
    return False


def _take(ssn: Session, statement: WorldStatement, task: TaskInfo, row: int) -> bool:
    """Evict on one node until the task fits. What was evicted in vain stays."""
    victims = _candidates(ssn, task, row)
    if not victims:
        return False
    before, order = statement.checkpoint, victim_queue(ssn, task.job, victims)
    while not fits_now(ssn, task, row):
        if not order:
            statement.rollback(before)
            return False
        statement.evict(order.pop(), reason(ssn, NAME, task.key))
    statement.pipeline(task, row)
    return True


def _candidates(ssn: Session, task: TaskInfo, row: int) -> list[TaskInfo]:
    """Who may be evicted on a node by all rules; empty where all of them are not enough."""
    world = ssn.world
    there = [other for other in world.tasks_on(row) if may_go(TESTS, other, task)]
    if not there or not suffice(world, task, row, there):
        return []
    victims = ssn.reclaimable(task, in_order(ssn, task.job, there))
    return victims if suffice(world, task, row, victims) else []


def _gives_back(victim: TaskInfo, _: TaskInfo) -> bool:
    return victim.job.queue is not None and victim.job.queue.queue.reclaimable


TESTS: Tests = (
    ("leaving, or not running yet", lambda victim, _: victim.status is Status.RUNNING),
    ("of its own queue", lambda victim, task: victim.job.queue is not task.job.queue),
    ("of queues that give nothing back", _gives_back),
    *WILLING,
)
