"""preempt: starving jobs take the place of less important tasks of their own queue.

First between the jobs of a queue: all tasks of a job in one statement, kept where the job is
pipelined with it. Then within each starving job, where a task may take the place of a less
important member: a statement for each task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shard_worker.allocated_domains import asks_for_domains
from shard_worker.candidates import by_score, choose, feasible
from shard_worker.considered import ON_NODE, WILLING, Tests, considered, may_go, tell
from shard_worker.dry_run import Limits, topology_aware
from shard_worker.priority_queue import PriorityQueue
from shard_worker.rules import Mask
from shard_worker.tasks import Status, TaskInfo
from shard_worker.victims import (
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

NAME = "preempt"


def execute(ssn: Session) -> None:
    """Queue by queue, each once, in the order of the queues at the start."""
    starving = [job for job in starving_jobs(ssn) if not asks_for_domains(job)]
    queues = {job.qid: job.queue for job in starving if job.queue is not None}
    for queue in PriorityQueue(ssn.compare_queues, queues.values()).drain():
        mine = [job for job in starving if job.queue is queue]
        jobs = PriorityQueue(ssn.compare_jobs, mine)
        while jobs:
            between_jobs(ssn, jobs.pop())
        for job in mine:
            within_job(ssn, job)


def preempt_job(ssn: Session, job: SessionJob) -> None:
    """What the action does for one job."""
    if ssn.job_starving(job) and not asks_for_domains(job):
        between_jobs(ssn, job)
        within_job(ssn, job)


def between_jobs(ssn: Session, job: SessionJob) -> bool:
    """Evict tasks of other jobs of its queue until the job starves no more; all or nothing."""
    statement, tasks = WorldStatement(ssn), waiting_tasks(ssn, job)
    hunt, failed = Hunt(ssn, statement, OF_ANOTHER_JOB), None
    while tasks and ssn.job_starving(job):
        task = tasks.pop()
        if not hunt.place(task):
            failed = failed or task
    if settle(ssn, statement, job, NAME):
        return True
    if failed is not None:
        _tell(ssn, job, failed)
    return False


def _tell(ssn: Session, job: SessionJob, task: TaskInfo) -> None:
    """Why nobody was evicted for the first task that found no place."""
    if not task.preempts:
        return ssn.skip(job, "NotEnoughResources", "its preemptionPolicy is Never")
    rows = feasible(ssn, task, cure=True).mask
    found = considered(ssn, task, rows, OF_ANOTHER_JOB, "Preemptable")
    return tell(ssn, job, found)


def within_job(ssn: Session, job: SessionJob) -> None:
    """Evict members of the job for its own more important ones, until one finds no place.

    Members that need no eviction take their room while this goes on, and keep it only where the job
    is pipelined with them: a gang that cannot start reserves nothing.
    """
    tasks, idle = waiting_tasks(ssn, job), WorldStatement(ssn)
    while tasks:
        statement = WorldStatement(ssn)
        if not Hunt(ssn, statement, OF_THE_SAME_JOB).place(tasks.pop()):
            break
        if statement.evictions:
            statement.commit()
        else:
            idle.merge(statement)
    settle(ssn, idle, job, NAME)


def _makes_way(victim: TaskInfo, task: TaskInfo) -> bool:
    return not task.best_effort or victim.best_effort


OF_ANOTHER_JOB: Tests = (
    *ON_NODE,
    ("of the same job", lambda victim, task: victim.job is not task.job),
    ("of other queues", lambda victim, task: victim.job.queue is task.job.queue),
    ("asking for something, which the task does not", _makes_way),
    *WILLING,
)
OF_THE_SAME_JOB: Tests = (
    *ON_NODE,
    ("of other jobs", lambda victim, task: victim.job is task.job),
    ("asking for something, which the task does not", _makes_way),
)
"""What a member says of being preemptable is for other jobs."""


class Hunt:
    """Finds places for tasks of one job, and writes them into one statement."""

    def __init__(self, ssn: Session, statement: WorldStatement, tests: Tests) -> None:
        self._ssn = ssn
        self._statement = statement
        self._tests = tests
        self._limits = Limits.of(ssn.policy.configurations.get(NAME, {}))
        self._failed: set[int] = set()
        """Roles (by identity) of which a task found nothing since the last that found a place."""

    def place(self, task: TaskInfo) -> bool:
        """Pipeline the task to a node, after the evictions that it takes. False: nothing changed.

        A node that takes it without any eviction comes first; then the own shard with evictions,
        then others.
        """
        ssn, role = self._ssn, id(task.role)
        if role in self._failed or not eligible(ssn, task) or ssn.pre_predicate(task) is not None:
            return False
        queue = task.job.queue
        if queue is None:
            return False
        if ssn.task_allocatable(queue, task):
            free = choose(ssn, task, feasible(ssn, task).mask)
            if free is not None:
                self._statement.pipeline(task, free[0])
                return True
        for rows in shard_groups(ssn.world, feasible(ssn, task, cure=True).mask):
            if self._among(task, inhabited(ssn.world, rows)):
                self._failed.clear()
                return True
        self._failed.add(role)
        return False

    def _among(self, task: TaskInfo, rows: Mask) -> bool:
        """The first node, by score, on which evictions help; or the best of several dry runs."""
        ssn = self._ssn
        ranked = by_score(ssn, task, np.flatnonzero(rows))
        if not self._limits.topology_aware:
            return any(self._take(task, row) for row in ranked)
        tried = topology_aware(ssn, task, ranked, self._candidates, self._limits)
        if tried is None:
            return False
        for victim in tried.victims:
            self._statement.evict(victim, reason(self._ssn, NAME, task.key))
        self._statement.pipeline(task, tried.row)
        return True

    def _take(self, task: TaskInfo, row: int) -> bool:
        """Evict on one node until the task fits. What was evicted in vain stays."""
        ssn, statement = self._ssn, self._statement
        victims = self._candidates(task, row)
        if not victims:
            return False
        before, order = statement.checkpoint, victim_queue(ssn, task.job, victims)
        while not fits(ssn, task, row):
            if not order:
                statement.rollback(before)
                return False
            statement.evict(order.pop(), reason(ssn, NAME, task.key))
        statement.pipeline(task, row)
        return True

    def _candidates(self, task: TaskInfo, row: int) -> list[TaskInfo]:
        """Who may be evicted on a node by all rules; empty where all of them are not enough."""
        ssn, world = self._ssn, self._ssn.world
        there = [other for other in world.tasks_on(row) if may_go(self._tests, other, task)]
        if not there or not suffice(world, task, row, there):
            return []
        victims = ssn.preemptable(task, in_order(ssn, task.job, there))
        return victims if suffice(world, task, row, victims) else []


def fits(ssn: Session, task: TaskInfo, row: int) -> bool:
    """The queue may take the task, and the node."""
    queue = task.job.queue
    return queue is not None and ssn.task_allocatable(queue, task) and fits_now(ssn, task, row)


def eligible(ssn: Session, task: TaskInfo) -> bool:
    """May others be evicted for it? Not where its pod says Never, and not while the node that an
    earlier eviction promised it is about to take it."""
    if not task.preempts:
        return False
    world, row = ssn.world, task.nominated
    if row < 0 or not world.view.exists()[row]:
        return True
    failed = [check for check in ssn.checks(task) if not check.mask[row]]
    if not failed:
        return False
    if not all(check.curable for check in failed):
        return True
    return not any(
        other.status is Status.RELEASING and other.priority < task.priority
        for other in world.tasks_on(row)
    )
