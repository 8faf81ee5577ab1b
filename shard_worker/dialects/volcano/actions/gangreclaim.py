"""gangreclaim: free room for a starving gang as a whole, from queues with more than their share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard_worker.eviction.gang_eviction import GangSearch
from shard_worker.eviction.victims import by_turns, starving_jobs, waiting_tasks
from shard_worker.framework.rules import Purpose
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob

NAME = "gangreclaim"


def execute(ssn: Session) -> None:
    """Run for starving jobs, one job of a queue at a time."""
    for job in by_turns(ssn, starving_jobs(ssn)):
        gangreclaim_job(ssn, job)


def gangreclaim_job(ssn: Session, job: SessionJob) -> None:
    """Run the action for one job."""
    queue = job.queue
    if queue is None or not ssn.job_starving(job) or ssn.queue_overused(queue):
        return
    missing = max(job.minimum - job.census.ready - job.census.waiting, 1)
    # For all that the gang still lacks at once, and not task by task: reclaiming for the first
    # members of a gang that its queue cannot hold as a whole would evict in vain.
    if not ssn.preemptive(queue, waiting_tasks(ssn, job).drain()[:missing]):
        return

    def may_go(victim: TaskInfo) -> bool:
        """Whether the victim is running, evictable, and of another queue that allows reclaim."""
        theirs = victim.job.queue
        return (
            victim.status is Status.RUNNING
            and victim.preemptable
            and theirs is not None
            and theirs is not queue
            and theirs.queue.reclaimable
        )

    whole = ssn.policy.configurations.get(NAME, {}).get("allowWholeBundle", True) is not False
    GangSearch(ssn, job, NAME, Purpose.RECLAIM, may_go, whole=whole).run()
