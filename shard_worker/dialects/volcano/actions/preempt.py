"""preempt: starving jobs take the place of less important tasks of their own queue.

First between the jobs of a queue: all tasks of a job in one statement, kept if the job is pipelined
with it. Then within each starving job, where a task may take the place of a less important member:
one statement for each task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shard_worker.eviction.dry_run import DryRunLimits, topology_aware
from shard_worker.eviction.node_search import NodeSearch
from shard_worker.eviction.refusals import ON_NODE, WILLING, Tests, considered, tell
from shard_worker.eviction.victims import settle, starving_jobs, waiting_tasks
from shard_worker.framework.extension_points import PREEMPTABLE
from shard_worker.framework.rules import Mask
from shard_worker.framework.statement import WorldStatement
from shard_worker.placement.candidates import by_score, feasible
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.priority_queue import PriorityQueue
from shard_worker.session_model.status import EVICTABLE, Status
from shard_worker.topology.label_domains import is_confined
from shared.messages.reason import Reason

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob

NAME = "preempt"


def execute(ssn: Session) -> None:
    """Run for each queue once, in the queue order at the start."""
    # Volcano's preempt leaves out jobs with a topology: victims on single nodes do not make a
    # domain. gangpreempt serves them.
    starving = [job for job in starving_jobs(ssn) if not is_confined(job)]
    queues = {job.qid: job.queue for job in starving if job.queue is not None}
    for queue in PriorityQueue(ssn.compare_queues, queues.values()).drain():
        queue_jobs = [job for job in starving if job.queue is queue]
        jobs = PriorityQueue(ssn.compare_jobs, queue_jobs)
        served = 0
        while jobs:
            served += between_jobs(ssn, jobs.pop())
        # Volcano's order: within jobs only after all jobs of the queue were served between jobs,
        # and then of all queues, because victims may leave room that jobs of other queues fit.
        for job in starving if served else queue_jobs:
            within_job(ssn, job)


def preempt_job(ssn: Session, job: SessionJob) -> None:
    """Run the action for one job."""
    if ssn.job_starving(job) and not is_confined(job):
        between_jobs(ssn, job)
        within_job(ssn, job)


def between_jobs(ssn: Session, job: SessionJob) -> bool:
    """Evict tasks of other jobs of its queue until the job no longer starves; all or nothing."""
    search = PreemptionSearch(ssn, WorldStatement(ssn), OF_ANOTHER_JOB)
    if search.serve(job):
        return True
    if search.failed is not None:
        _tell(ssn, job, search.failed)
    return False


def _tell(ssn: Session, job: SessionJob, task: TaskInfo) -> None:
    """Record why no task was evicted for the first task that found no place."""
    if not task.preempts:
        return ssn.skip(job, Reason.NOT_ENOUGH_RESOURCES, "its preemptionPolicy is Never")
    rows = feasible(ssn, task, cure=True).mask
    refusals = considered(ssn, task, rows, OF_ANOTHER_JOB, PREEMPTABLE)
    return tell(ssn, job, refusals)


def within_job(ssn: Session, job: SessionJob) -> None:
    """Evict members of the job for its own more important ones, until one of those finds no node.

    Members that need no eviction are placed too, and keep their places only if that pipelines the
    job: a gang that cannot start reserves nothing.
    """
    tasks, idle = waiting_tasks(ssn, job), WorldStatement(ssn)
    while tasks:
        statement = WorldStatement(ssn)
        # One statement a task: what was evicted for the last one must not be undone with the next.
        if not PreemptionSearch(ssn, statement, OF_THE_SAME_JOB).place(tasks.pop()):
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
"""Without the check for the preemptable mark: it concerns preemption by other jobs only."""


class PreemptionSearch(NodeSearch):
    """Finds nodes for the tasks of one job, with evictions, and records both in one statement."""

    def __init__(self, ssn: Session, statement: WorldStatement, tests: Tests) -> None:
        super().__init__(ssn, statement, action=NAME, tests=tests, rules=ssn.preemptable)
        self._limits = DryRunLimits.of(ssn.policy.configurations.get(NAME, {}))

    def eligible(self, task: TaskInfo) -> bool:
        if eligible(self._ssn, task) and self._ssn.pre_predicate(task) is None:
            return True
        self.failed = self.failed or task
        return False

    def take_free(self, task: TaskInfo) -> bool:
        return self._queue_allows(task) and super().take_free(task)

    def fits(self, task: TaskInfo, row: int) -> bool:
        """Whether both the queue and the node have room for the task."""
        return self._queue_allows(task) and super().fits(task, row)

    def _queue_allows(self, task: TaskInfo) -> bool:
        queue = task.job.queue
        return queue is not None and self._ssn.task_allocatable(queue, task)

    def among(self, task: TaskInfo, rows: Mask) -> bool:
        """Use the first node, by score, on which evictions help; or the best of several dry
        runs."""
        ranked = by_score(self._ssn, task, np.flatnonzero(rows))
        if not self._limits.topology_aware:
            return any(self.clear(task, row) for row in ranked)
        tried = topology_aware(self._ssn, task, ranked, self.candidates, self._limits)
        if tried is None:
            return False
        for victim in tried.victims:
            if victim.status & EVICTABLE:  # it may have left with another of its job
                self.evict(victim, task)
        self._statement.pipeline(task, tried.row)
        return True


def eligible(ssn: Session, task: TaskInfo) -> bool:
    """Whether others may be evicted for this task. Not if its pod's preemption policy is Never, nor
    while its nominated node is about to take it: it passes every check there, or fails only curable
    ones while a less important task is leaving."""
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
        resident.status is Status.RELEASING and resident.priority < task.priority
        for resident in world.tasks_on(row)
    )
