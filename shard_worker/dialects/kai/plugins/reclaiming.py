"""Rules of proportion for evictions between queues: who may reclaim, who loses, and how far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from shard_worker.dialects.kai.evictions import Proposal
from shard_worker.dialects.kai.model import KaiJob, QueueState
from shard_worker.dialects.kai.rules.amounts import Amounts, total
from shard_worker.dialects.kai.rules.capacity import OverCapacity, QueueRoom, over_quota
from shard_worker.dialects.kai.rules.groups import ACTIVE
from shard_worker.dialects.kai.rules.reclaim import (
    LargestParts,
    QueueBalance,
    Reclaimer,
    Victim,
    is_reclaimable,
    largest_parts,
    may_cost,
    may_lose,
    may_reclaim,
)
from shard_worker.dialects.kai.search.resident_columns import Mask, ResidentColumns
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.session_model.job import TaskInfo

if TYPE_CHECKING:
    from shard_worker.session_model.world import World


class Reclaiming:
    """The rules of one session. They judge by the queues as they were when a search began."""

    def __init__(self, ssn: KaiSession, multiplier: Fraction) -> None:
        self._ssn = ssn
        self._multiplier = multiplier
        self._balances: dict[str, QueueBalance] = {}
        self._lose: dict[str, bool] = {}
        self._asked: tuple[KaiJob, Reclaimer] | None = None
        """The job of the present search, and what it reclaims for."""
        self._parts: dict[str, LargestParts] | None = None
        """Leaf -> the parts in which its jobs go; of all jobs of a world, whatever their state."""
        ssn.entering.append(self._begin)
        ssn.evictions.add_solution_start_fn(self._look)
        ssn.evictions.add_can_reclaim_fn(self._may_reclaim)
        ssn.evictions.add_reclaim_victim_filter_fn(
            lambda job, other: self._may_lose(job, other.queue), column=self._may_lose_column
        )
        ssn.evictions.add_reclaim_validator_fn(self._is_valid)
        ssn.evictions.add_over_quota_fn(_over_quota)
        ssn.evictions.add_reclaim_cost_fn(self._may_cost)

    def _begin(self, world: World) -> None:
        del world
        self._asked = self._parts = None

    def _look(self) -> None:
        self._balances = {queue.uid: balance_of(queue) for queue in self._ssn.queues.values()}
        self._lose, self._asked = {}, None

    def _may_reclaim(self, job: KaiJob, asks: Amounts) -> bool:
        balances = {queue.uid: balance_of(queue) for queue in job.queue.chain}
        return may_reclaim(balances, Reclaimer(job.queue.uid, asks, job.preemptible))

    def _may_lose(self, job: KaiJob, queue: QueueState) -> bool:
        reclaimer, leaf = self._reclaimer(job), queue.uid
        if leaf not in self._lose:
            self._lose[leaf] = may_lose(self._balances, reclaimer, leaf)
        return self._lose[leaf]

    def _may_lose_column(self, job: KaiJob, columns: ResidentColumns) -> Mask:
        leaves = [self._may_lose(job, leaf) for leaf in columns.leaves]
        return np.array(leaves, np.bool_)[columns.leaf]

    def _may_cost(self, job: KaiJob, lost: Amounts) -> bool:
        if self._parts is None:
            self._parts = self._read_parts()
        reclaimer = self._reclaimer(job)
        leaves = {
            leaf: parts
            for leaf, parts in self._parts.items()
            if leaf != job.queue.uid and may_lose(self._balances, reclaimer, leaf)
        }
        return may_cost(self._balances, reclaimer, lost, leaves)

    def _read_parts(self) -> dict[str, LargestParts]:
        ssn = self._ssn
        jobs: dict[str, set[tuple[Amounts, ...]]] = {}
        for job in ssn.kai_jobs.values():
            if job.preemptible:
                amounts = tuple(ssn.asked_by([task]) for task in job.root.tasks())
                jobs.setdefault(job.queue.uid, set()).add(amounts)
        if ssn.unread is not None:
            columns = ssn.unread.columns
            pairs = columns.leaf * len(columns.shapes) + columns.shape
            for pair in np.unique(pairs[columns.preemptible]).tolist():
                leaf, shape = divmod(pair, len(columns.shapes))
                queue = columns.leaves[leaf]
                jobs.setdefault(queue.uid, set()).add(columns.shapes[shape])
        return {leaf: largest_parts(list(amounts)) for leaf, amounts in jobs.items()}

    def _reclaimer(self, job: KaiJob) -> Reclaimer:
        if self._asked is None or self._asked[0] is not job:
            asks = self._ssn.asks_next(job)
            self._asked = job, Reclaimer(job.queue.uid, asks, job.preemptible)
        return self._asked[1]

    def _is_valid(self, proposal: Proposal) -> bool:
        job = proposal.job
        moved_count = not self._ssn.kai.options.allow_consolidating_reclaim
        parts = [
            (other.queue.uid, part)
            for other, tasks in proposal.victims
            for part in parts_of(other, tasks, moved_count=moved_count)
        ]
        # Victims that share a claim give it back together: the last of them has it.
        claimed = self._ssn.claimed_by_each(task for _, part in parts for task in part)
        victims = [
            Victim(queue, self._amounts_of(part, proposal, claimed)) for queue, part in parts
        ]
        reclaimer = Reclaimer(job.queue.uid, proposal.asks, job.preemptible)
        return is_reclaimable(self._balances, reclaimer, victims, multiplier=self._multiplier)

    @staticmethod
    def _amounts_of(
        part: Sequence[TaskInfo], proposal: Proposal, claimed: Counter[TaskInfo]
    ) -> Amounts:
        amounts = total(proposal.amounts_of(task) for task in part)
        gpus = sum(claimed[task] for task in part) if claimed else 0
        return amounts.plus(Amounts(gpu=gpus)) if gpus else amounts


def parts_of(
    job: KaiJob, tasks: Sequence[TaskInfo], *, moved_count: bool
) -> Iterator[list[TaskInfo]]:
    """The victims of one job as they are judged: each beyond the minimum of its pod set alone, all
    others together. ``moved_count``: also those that stay, or are promised another place."""
    core: list[TaskInfo] = []
    for pod_set in job.root.pod_sets():
        inside = set(pod_set.tasks)
        inside_tasks = [task for task in tasks if task in inside]
        core += inside_tasks[: pod_set.minimum]
        for task in inside_tasks[pod_set.minimum :]:
            if moved_count or not task.status & ACTIVE:
                yield [task]
    core = [task for task in core if moved_count or not task.status & ACTIVE]
    if core:
        yield core


def balance_of(queue: QueueState) -> QueueBalance:
    """A queue as the rules of reclaim read it."""
    return QueueBalance(
        uid=queue.uid,
        parent=queue.chain[1].uid if len(queue.chain) > 1 else None,
        quota=queue.quota,
        limit=queue.limit,
        fair_share=queue.fair_share,
        allocated=queue.allocated,
        non_preemptible=queue.non_preemptible,
    )


def _over_quota(job: KaiJob, asks: Amounts) -> OverCapacity | None:
    chain = [
        QueueRoom(uid=queue.record.name, quota=queue.quota, non_preemptible=queue.non_preemptible)
        for queue in job.queue.chain
    ]
    return over_quota(chain, asks)
