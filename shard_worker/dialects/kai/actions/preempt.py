"""preempt: let jobs of lower priority of the same queue go for one of higher priority."""

from __future__ import annotations

from shard_worker.dialects.kai.actions import searching
from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.rules.amounts import Amounts
from shard_worker.dialects.kai.session import KaiSession

NAME = "preempt"


def execute(ssn: KaiSession) -> None:
    """Search victims in the jobs' own queues."""
    searching.run(ssn, evicting(ssn))


def evicting(ssn: KaiSession) -> searching.EvictingAction:
    """Victims of the job's own queue, of lower priority."""

    def is_victim(preemptor: KaiJob, job: KaiJob) -> bool:
        return (
            job.queue is preemptor.queue
            and job.job.job.priority < preemptor.job.job.priority
            and ssn.evictions.may_be_preempted(preemptor, job)
        )

    def may_search(job: KaiJob, asks: Amounts) -> bool:
        return job.preemptible or ssn.evictions.over_quota(job, asks) is None

    return searching.EvictingAction(
        name=NAME,
        victim=is_victim,
        validate=ssn.evictions.valid_preemption,
        may_search=may_search,
        of_own_queue=True,
    )
