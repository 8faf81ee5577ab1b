"""Which queue goes first: KAI's eight steps, and the order that follows from them.

Two sibling queues are compared with the job that each of them would place next, its own or a
descendant's. The first six steps and the age are keys. The seventh is only a partial order (less of
everything), so that three queues can go round in a circle if they are compared in pairs, and KAI's
heap then goes by the order of a map. :func:`first` looks at all siblings at once instead
(docs/decisions/0062).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from shard_worker.dialects.kai.rules.amounts import (
    NO_BOUND,
    NOTHING,
    UNITS,
    UNLIMITED,
    Amounts,
    all_within,
)

WITHOUT_SHARE = 1000
"""How much more something counts that a queue uses without a share of it."""


class OrderStep(Enum):
    """The step that told two queues apart, in words for people."""

    UTILIZATION = "only one of them uses more than its fair share"
    QUOTA = "only one of them stays within its quota with its next job"
    PRIORITY = "their priorities differ"
    ZERO_SHARE = "only one of them uses a resource that it has no share of"
    SHARE_WITH_JOB = "with its next job one uses less of its share"
    SHARE = "one uses less of its share"
    ALLOCATABLE = "one has the smaller share"
    AGE = "one is older, or its uid comes first"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """One queue and what it has, with all its descendants."""

    uid: str
    created: float = 0.0
    """Seconds since 1970."""
    priority: int = 100
    quota: Amounts = NOTHING
    limit: Amounts = NO_BOUND
    fair_share: Amounts = NOTHING
    allocated: Amounts = NOTHING
    """Without what is leaving."""


def allocatable(queue: QueueFigures) -> Amounts:
    """Amounts that a queue may hold without obstructing others: its fair share, bounded by its
    limit."""
    return Amounts(*map(_allocatable, queue.quota, queue.limit, queue.fair_share))


def _allocatable(quota: int, limit: int, fair_share: int) -> int:
    if quota == UNLIMITED:
        return limit
    share = max(quota, fair_share)
    return share if limit == UNLIMITED else min(limit, share)


def over_utilized(queue: QueueFigures) -> bool:
    """More than the fair share of every resource."""
    return all(has > share for has, share in zip(queue.allocated, queue.fair_share, strict=True))


def dominant_share(allocated: Amounts, allocatable: Amounts, cluster: Amounts) -> Fraction:
    """The largest part of its share that a queue uses of any resource."""
    # Compared as whole numbers, so that one exact fraction is made and not three: this is half of
    # what a comparison of queues costs.
    most, of = _used_part(allocated[0], allocatable[0], cluster[0], UNITS[0])
    for at in (1, 2):
        used, share = _used_part(allocated[at], allocatable[at], cluster[at], UNITS[at])
        if used * of > most * share:
            most, of = used, share
    return Fraction(most, of)


def _used_part(allocated: int, share: int, cluster: int, unit: int) -> tuple[int, int]:
    """(numerator, denominator above 0)."""
    if share == UNLIMITED:
        share = cluster
    return (allocated, share) if share > 0 else (allocated * WITHOUT_SHARE, unit)


Part = tuple[float, Fraction]
"""A fraction, and before it the nearest float: rounding never turns an order round, so that two
parts are compared exactly, and nearly always by their floats alone."""


def _part(fraction: Fraction) -> Part:
    return fraction.numerator / fraction.denominator, fraction


CandidateKey = tuple[bool, bool, int, bool, Part, Part]


class Candidate:
    """A queue with what it, or a descendant, would place next.

    ``victims``: what was already taken from it, and the next job to take, when victims are looked
    for; that job places nothing then.
    """

    def __init__(
        self,
        queue: QueueFigures,
        *,
        cluster: Amounts,
        asks: Amounts = NOTHING,
        victims: Amounts = NOTHING,
    ) -> None:
        self.queue = queue
        self.cluster = cluster
        self.with_job = queue.allocated.plus(asks)
        self.victims = victims
        self.allocatable = allocatable(queue)

    @cached_property
    def key(self) -> CandidateKey:
        """The first six steps; the smaller key goes first."""
        queue, share = self.queue, self.allocatable
        with_job = self.with_job
        return (
            over_utilized(queue),
            not all_within(with_job, queue.quota),
            -queue.priority,
            any(has > 0 and may == 0 for has, may in zip(with_job, share, strict=True)),
            _part(dominant_share(with_job.minus(self.victims), share, self.cluster)),
            _part(dominant_share(queue.allocated, share, self.cluster)),
        )

    @property
    def age(self) -> tuple[float, str]:
        """The last step; the smaller goes first."""
        return self.queue.created, self.queue.uid


class Comparison(NamedTuple):
    left_first: bool
    step: OrderStep


def compare(left: Candidate, right: Candidate) -> Comparison:
    """Which of two siblings goes first, and by which step."""
    for step, own_key, theirs in zip(OrderStep, left.key, right.key, strict=False):
        if own_key != theirs:
            return Comparison(own_key < theirs, step)  # type: ignore[operator]
    if _smaller_share(left, right) != _smaller_share(right, left):
        return Comparison(_smaller_share(left, right), OrderStep.ALLOCATABLE)
    return Comparison(left.age < right.age, OrderStep.AGE)


def _smaller_share(left: Candidate, right: Candidate) -> bool:
    return _is_less(left.allocatable, right.allocatable)


def _is_less(mine: Amounts, theirs: Amounts) -> bool:
    """Less of one resource, and more of none."""
    return mine != theirs and all_within(mine, theirs)


def least_shares(shares: Collection[Amounts]) -> set[Amounts]:
    """The shares for which there is no smaller one."""
    return {share for share in shares if not any(_is_less(other, share) for other in shares)}


def first(candidates: Sequence[Candidate]) -> int:
    """The index of the queue that goes first, whatever the order in which they are given: of those
    with the smallest key, and of these without one of a smaller share, the oldest."""
    best = min(candidate.key for candidate in candidates)
    level = [i for i, candidate in enumerate(candidates) if candidate.key == best]
    if len(level) > 1:
        least = least_shares({candidates[i].allocatable for i in level})
        level = [i for i in level if candidates[i].allocatable in least]
    return min(level, key=lambda i: candidates[i].age)


def last(candidates: Sequence[Candidate]) -> int:
    """The index of the queue from which victims are taken first: the reverse of :func:`first`."""
    worst = max(candidate.key for candidate in candidates)
    level = [i for i, candidate in enumerate(candidates) if candidate.key == worst]
    if len(level) > 1:
        shares = {candidates[i].allocatable for i in level}
        most = {share for share in shares if not any(_is_less(share, other) for other in shares)}
        level = [i for i in level if candidates[i].allocatable in most]
    return max(level, key=lambda i: candidates[i].age)
