"""preempt: let jobs of lower priority of the same queue go for one of higher priority."""

from __future__ import annotations

import numpy as np

from shard_worker.dialects.kai.actions import searching
from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.points import PREEMPT_VICTIM
from shard_worker.dialects.kai.rules.amounts import Amounts
from shard_worker.dialects.kai.search.resident_columns import Mask, ResidentColumns
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

    def may_be_victims(preemptor: KaiJob, columns: ResidentColumns) -> Mask:
        own = np.array([leaf is preemptor.queue for leaf in columns.leaves], np.bool_)
        lower = columns.priority < preemptor.job.job.priority
        return own[columns.leaf] & lower & ssn.evictions.unread_for_preempt(preemptor, columns)

    def may_search(job: KaiJob, asks: Amounts) -> bool:
        return job.preemptible or ssn.evictions.over_quota(job, asks) is None

    return searching.EvictingAction(
        name=NAME,
        victim=is_victim,
        may_be_victims=may_be_victims,
        columns_decide=ssn.evictions.columns_decide(PREEMPT_VICTIM),
        validate=ssn.evictions.valid_preemption,
        may_search=may_search,
        of_own_queue=True,
    )
