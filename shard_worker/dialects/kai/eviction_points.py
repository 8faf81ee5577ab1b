"""KAI's extension points about evictions: where plugins register, and what all of them answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from shard_worker.dialects.kai.evictions import Generator, Proposal
from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.points import (
    CAN_RECLAIM,
    OVER_QUOTA,
    PREEMPT_VALIDATOR,
    PREEMPT_VICTIM,
    RECLAIM_COST,
    RECLAIM_VALIDATOR,
    RECLAIM_VICTIM,
    SCENARIO_GENERATOR,
    SOLUTION_START,
)
from shard_worker.dialects.kai.rules.amounts import Amounts
from shard_worker.dialects.kai.rules.capacity import OverCapacity
from shard_worker.framework.extension_points import Point
from shard_worker.framework.registered import Registered
from shard_worker.framework.registration import Registration

if TYPE_CHECKING:
    from shard_worker.dialects.kai.points import VictimFilter, VictimFilterColumn
    from shard_worker.dialects.kai.search.resident_columns import Mask, ResidentColumns


class EvictionPoints:
    """The part of a KAI session that the evicting actions ask."""

    def __init__(self, session: Registration) -> None:
        self._session = session

    # --- registration -------------------------------------------------------------------------

    def add_can_reclaim_fn(self, fn: Callable[[KaiJob, Amounts], bool]) -> None:
        """Whether a job may reclaim these amounts from other queues. The first plugin decides."""
        self._session.add(CAN_RECLAIM, fn, scalar=None)

    def add_reclaim_victim_filter_fn(
        self, fn: VictimFilter, *, column: VictimFilterColumn | None = None
    ) -> None:
        """(reclaimer, job of another queue) -> whether it may be a victim. All must agree.
        ``column``: the same of jobs in columns; without it ``fn`` is asked as a job is reached."""
        self._session.add(RECLAIM_VICTIM, column, scalar=fn)

    def add_preempt_victim_filter_fn(
        self, fn: VictimFilter, *, column: VictimFilterColumn | None = None
    ) -> None:
        """(preemptor, job of its queue) -> whether it may be a victim. All must agree.
        ``column``: as of a reclaim."""
        self._session.add(PREEMPT_VICTIM, column, scalar=fn)

    def add_reclaim_validator_fn(self, fn: Callable[[Proposal], bool]) -> None:
        """Whether the victims of a reclaim may go. All must agree."""
        self._session.add(RECLAIM_VALIDATOR, fn, scalar=None)

    def add_reclaim_cost_fn(self, fn: Callable[[KaiJob, Amounts], bool]) -> None:
        """(reclaimer, amounts) -> whether victims could lose so much at all. What denies it must
        deny every scenario that costs so much. All must agree."""
        self._session.add(RECLAIM_COST, fn, scalar=None)

    def add_preempt_validator_fn(self, fn: Callable[[Proposal], bool]) -> None:
        """Whether the victims of a preemption may go. All must agree."""
        self._session.add(PREEMPT_VALIDATOR, fn, scalar=None)

    def add_over_quota_fn(self, fn: Callable[[KaiJob, Amounts], OverCapacity | None]) -> None:
        """Why a job that nobody may evict would exceed a quota. The first plugin decides."""
        self._session.add(OVER_QUOTA, fn, scalar=None)

    def add_solution_start_fn(self, fn: Callable[[], None]) -> None:
        """Called before victims are searched for a job."""
        self._session.add(SOLUTION_START, fn, scalar=None)

    def add_scenario_generator(self, name: str, generator: Generator) -> None:
        """Add a way to make scenarios; ``name``: by which budgets know it. They are tried in the
        order of the policy's plugins."""
        self._session.add(SCENARIO_GENERATOR, (name, generator), scalar=None)

    # --- answers ------------------------------------------------------------------------------

    def can_reclaim(self, job: KaiJob, asks: Amounts) -> bool:
        for rule in self._session.rules(CAN_RECLAIM):
            return rule.fn(job, asks)
        return True

    def may_be_reclaimed(self, reclaimer: KaiJob, job: KaiJob) -> bool:
        return all(rule.scalar(reclaimer, job) for rule in self._session.rules(RECLAIM_VICTIM))

    def unread_for_reclaim(self, reclaimer: KaiJob, columns: ResidentColumns) -> Mask:
        """Lines that no rule over columns denies."""
        return _of_all(self._session.rules(RECLAIM_VICTIM), reclaimer, columns)

    def may_be_preempted(self, preemptor: KaiJob, job: KaiJob) -> bool:
        return all(rule.scalar(preemptor, job) for rule in self._session.rules(PREEMPT_VICTIM))

    def unread_for_preempt(self, preemptor: KaiJob, columns: ResidentColumns) -> Mask:
        """Lines that no rule over columns denies."""
        return _of_all(self._session.rules(PREEMPT_VICTIM), preemptor, columns)

    def columns_decide(self, point: Point[VictimFilterColumn | None, VictimFilter]) -> bool:
        """Whether every rule of a filter has a form over columns."""
        return all(rule.fn is not None for rule in self._session.rules(point))

    def valid_reclaim(self, proposal: Proposal) -> bool:
        return all(rule.fn(proposal) for rule in self._session.rules(RECLAIM_VALIDATOR))

    def may_cost(self, job: KaiJob, lost: Amounts) -> bool:
        """Whether a reclaim for the job may cost so much."""
        return all(rule.fn(job, lost) for rule in self._session.rules(RECLAIM_COST))

    def valid_preemption(self, proposal: Proposal) -> bool:
        return all(rule.fn(proposal) for rule in self._session.rules(PREEMPT_VALIDATOR))

    def over_quota(self, job: KaiJob, asks: Amounts) -> OverCapacity | None:
        for rule in self._session.rules(OVER_QUOTA):
            return rule.fn(job, asks)
        return None

    def start_solution(self) -> None:
        for rule in self._session.rules(SOLUTION_START):
            rule.fn()

    @property
    def generators(self) -> Mapping[str, Generator]:
        """By the names that budgets have for them, in order."""
        return dict(rule.fn for rule in self._session.rules(SCENARIO_GENERATOR))


def _of_all(
    rules: Sequence[Registered[VictimFilterColumn | None, VictimFilter]],
    job: KaiJob,
    columns: ResidentColumns,
) -> Mask:
    mask = np.ones(len(columns.jid), np.bool_)
    for rule in rules:
        if rule.fn is not None:
            mask &= rule.fn(job, columns)
    return mask
