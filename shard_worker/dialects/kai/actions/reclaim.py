"""reclaim: take room back from queues that hold more than their share, for one that holds less."""

from __future__ import annotations

from shard_worker.dialects.kai.actions import searching
from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.session import KaiSession

NAME = "reclaim"


def execute(ssn: KaiSession) -> None:
    """Search victims in other queues."""
    searching.run(ssn, evicting(ssn))


def evicting(ssn: KaiSession) -> searching.EvictingAction:
    """Victims of other queues, as their shares allow."""

    def is_victim(reclaimer: KaiJob, job: KaiJob) -> bool:
        return job.queue is not reclaimer.queue and ssn.evictions.may_be_reclaimed(reclaimer, job)

    return searching.EvictingAction(
        name=NAME,
        victim=is_victim,
        validate=ssn.evictions.valid_reclaim,
        may_search=ssn.evictions.can_reclaim,
        may_cost=ssn.evictions.may_cost,
        of_own_queue=False,
    )
