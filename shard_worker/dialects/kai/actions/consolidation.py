"""consolidation: move running jobs together, so that a waiting one fits. Nobody loses a place
without the promise of another one."""

from __future__ import annotations

from shard_worker.dialects.kai.actions import searching
from shard_worker.dialects.kai.evictions import Proposal
from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.rules.amounts import Amounts
from shard_worker.dialects.kai.rules.groups import tasks_to_allocate
from shard_worker.dialects.kai.search.node_capacities import gpu_room
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.session_model.status import Status

NAME = "consolidation"


def execute(ssn: KaiSession) -> None:
    """Search places for jobs by moving others."""
    if ssn.kai.options.max_consolidation_preemptees:
        searching.run(ssn, evicting(ssn))


def evicting(ssn: KaiSession) -> searching.EvictingAction:
    """Victims of any queue, all of which keep a place."""
    most = ssn.kai.options.max_consolidation_preemptees

    def may_search(job: KaiJob, asks: Amounts) -> bool:
        # Devices of claims are not among those of nodes: whether they are enough, a search finds.
        claimed = ssn.claimed_by(tasks_to_allocate(job.root, simulated=True))
        return int(gpu_room(ssn.world)[ssn.rows()].sum()) >= asks.gpu - claimed

    return searching.EvictingAction(
        name=NAME,
        victim=lambda job, other: True,
        columns_decide=True,
        validate=nobody_goes,
        may_search=may_search,
        may_cost=lambda job, lost: not any(lost),
        preemptible_only=True,
        most_victims=None if most < 0 else most,
        one_memory=True,
    )


def nobody_goes(proposal: Proposal) -> bool:
    """Whether every victim stays, or has the promise of another place."""
    return all(
        task.status is not Status.RELEASING for _, tasks in proposal.victims for task in tasks
    )
