"""Whether a queue and every queue above it may take one more turn of a job.

A limit binds every job. A quota binds those that nobody may evict: at no level may they hold more
than it, since nothing could give it back to the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from shard_worker.dialects.kai.rules.amounts import (
    NO_BOUND,
    NOTHING,
    RESOURCES,
    Amounts,
    within,
)


class Bound(Enum):
    """The bound that a queue exceeds, in KAI's words for conditions."""

    LIMIT = "OverLimit"
    QUOTA = "NonPreemptibleOverQuota"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRoom:
    """One queue of a chain. Amounts with all its descendants."""

    uid: str
    quota: Amounts = NOTHING
    limit: Amounts = NO_BOUND
    allocated: Amounts = NOTHING
    non_preemptible: Amounts = NOTHING
    """The part of ``allocated`` that nobody may evict."""


@dataclass(frozen=True, slots=True)
class OverCapacity:
    """Why a queue does not take a turn."""

    queue: str
    """The uid of the queue of the chain that refuses."""
    bound: Bound
    resource: str
    has: int
    asks: int
    may: int


def over_capacity(
    chain: Iterable[QueueRoom], asks: Amounts, *, preemptible: bool
) -> OverCapacity | None:
    """The first refusal along the chain, the leaf first; limits of all levels before quotas."""
    levels = list(chain)
    return over_limit(levels, asks) or (None if preemptible else over_quota(levels, asks))


def over_limit(chain: Iterable[QueueRoom], asks: Amounts) -> OverCapacity | None:
    """The first queue whose limit the turn would exceed."""
    for queue in chain:
        refusal = _exceeded(queue.uid, Bound.LIMIT, queue.allocated, asks, queue.limit)
        if refusal is not None:
            return refusal
    return None


def over_quota(chain: Iterable[QueueRoom], asks: Amounts) -> OverCapacity | None:
    """The first queue whose quota a turn of a job that nobody may evict would exceed."""
    for queue in chain:
        refusal = _exceeded(queue.uid, Bound.QUOTA, queue.non_preemptible, asks, queue.quota)
        if refusal is not None:
            return refusal
    return None


def _exceeded(
    uid: str, bound: Bound, has: Amounts, asks: Amounts, may: Amounts
) -> OverCapacity | None:
    """A resource that is not asked for is not judged, even where its bound is exceeded already."""
    for resource, used, requested, most in zip(RESOURCES, has, asks, may, strict=True):
        if requested > 0 and not within(used + requested, most):
            return OverCapacity(uid, bound, resource, used, requested, most)
    return None
