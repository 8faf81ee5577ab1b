"""KAI's extension points about evictions: where plugins register, and what all of them answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
from shard_worker.framework.registration import Registration


class EvictionPoints:
    """The part of a KAI session that the evicting actions ask."""

    def __init__(self, session: Registration) -> None:
        self._session = session

    # --- registration -------------------------------------------------------------------------

    def add_can_reclaim_fn(self, fn: Callable[[KaiJob, Amounts], bool]) -> None:
        """Whether a job may reclaim these amounts from other queues. The first plugin decides."""
        self._session.add(CAN_RECLAIM, fn, scalar=None)

    def add_reclaim_victim_filter_fn(self, fn: Callable[[KaiJob, KaiJob], bool]) -> None:
        """(reclaimer, job of another queue) -> whether it may be a victim. All must agree."""
        self._session.add(RECLAIM_VICTIM, fn, scalar=None)

    def add_preempt_victim_filter_fn(self, fn: Callable[[KaiJob, KaiJob], bool]) -> None:
        """(preemptor, job of its queue) -> whether it may be a victim. All must agree."""
        self._session.add(PREEMPT_VICTIM, fn, scalar=None)

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
        return all(rule.fn(reclaimer, job) for rule in self._session.rules(RECLAIM_VICTIM))

    def may_be_preempted(self, preemptor: KaiJob, job: KaiJob) -> bool:
        return all(rule.fn(preemptor, job) for rule in self._session.rules(PREEMPT_VICTIM))

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
