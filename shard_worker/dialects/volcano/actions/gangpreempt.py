"""gangpreempt: free room for a starving gang as a whole, from less important jobs of its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard_worker.eviction.gang_eviction import GangSearch
from shard_worker.eviction.victims import starving_jobs
from shard_worker.framework.rules import Purpose
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.priority_queue import PriorityQueue
from shard_worker.session_model.status import EVICTABLE

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob

NAME = "gangpreempt"


def execute(ssn: Session) -> None:
    """Run for the starving jobs of each queue, in the queue order at the start."""
    starving = starving_jobs(ssn)
    queues = {job.qid: job.queue for job in starving if job.queue is not None}
    for queue in PriorityQueue(ssn.compare_queues, queues.values()).drain():
        jobs = PriorityQueue(ssn.compare_jobs, (job for job in starving if job.queue is queue))
        while jobs:
            gangpreempt_job(ssn, jobs.pop())


def gangpreempt_job(ssn: Session, job: SessionJob) -> None:
    """Run the action for one job."""
    if not ssn.job_starving(job):
        return

    def may_go(victim: TaskInfo) -> bool:
        """Whether the victim is an evictable task of another job of the queue, with lower
        priority."""
        return (
            victim.job is not job
            and victim.job.queue is job.queue
            and victim.job.job.priority < job.job.priority
            and bool(victim.status & EVICTABLE)
            and victim.preemptable
        )

    whole = ssn.policy.configurations.get(NAME, {}).get("allowWholeBundle", True) is not False
    GangSearch(ssn, job, NAME, Purpose.PREEMPT, may_go, whole=whole).run()
