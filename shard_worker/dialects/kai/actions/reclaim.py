"""reclaim: take room back from queues that hold more than their share, for one that holds less."""

from __future__ import annotations

import numpy as np

from shard_worker.dialects.kai.actions import searching
from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.points import RECLAIM_VICTIM
from shard_worker.dialects.kai.search.resident_columns import Mask, ResidentColumns
from shard_worker.dialects.kai.session import KaiSession

NAME = "reclaim"


def execute(ssn: KaiSession) -> None:
    """Search victims in other queues."""
    searching.run(ssn, evicting(ssn))


def evicting(ssn: KaiSession) -> searching.EvictingAction:
    """Victims of other queues, as their shares allow."""

    def is_victim(reclaimer: KaiJob, job: KaiJob) -> bool:
        return job.queue is not reclaimer.queue and ssn.evictions.may_be_reclaimed(reclaimer, job)

    def may_be_victims(reclaimer: KaiJob, columns: ResidentColumns) -> Mask:
        others = np.array([leaf is not reclaimer.queue for leaf in columns.leaves], np.bool_)
        return others[columns.leaf] & ssn.evictions.unread_for_reclaim(reclaimer, columns)

    return searching.EvictingAction(
        name=NAME,
        victim=is_victim,
        may_be_victims=may_be_victims,
        columns_decide=ssn.evictions.columns_decide(RECLAIM_VICTIM),
        validate=ssn.evictions.valid_reclaim,
        may_search=ssn.evictions.can_reclaim,
        may_cost=ssn.evictions.may_cost,
        of_own_queue=False,
    )
