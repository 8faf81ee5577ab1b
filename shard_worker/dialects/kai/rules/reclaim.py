"""Which queue may take room from which other, and how far.

A reclaim moves room between two branches of the tree of queues: from a victim's queue to the
reclaimer's. Both are judged just below the lowest queue that they have in common, where they are
siblings (*leveled*). The victim's side may lose what it holds beyond its share, or beyond its quota
where the reclaimer stays within its own; and no queue of the reclaimer's chain may come out fuller,
measured by its fair share, than a sibling that lost something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from shard_worker.dialects.kai.rules.amounts import (
    NO_BOUND,
    NOTHING,
    UNLIMITED,
    Amounts,
    all_within,
    within,
)
from shard_worker.dialects.kai.rules.queue_order import QueueFigures, allocatable


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBalance:
    """One queue as it stands before a search; amounts with all its descendants."""

    uid: str
    parent: str | None = None
    """The uid of its parent; None for a root."""
    quota: Amounts = NOTHING
    limit: Amounts = NO_BOUND
    fair_share: Amounts = NOTHING
    allocated: Amounts = NOTHING
    non_preemptible: Amounts = NOTHING

    @property
    def allocatable(self) -> Amounts:
        return allocatable(
            QueueFigures(
                uid=self.uid, quota=self.quota, limit=self.limit, fair_share=self.fair_share
            )
        )


class Reclaimer(NamedTuple):
    """The reclaiming job: the uid of its leaf queue, and its request."""

    queue: str
    asks: Amounts
    preemptible: bool = True


class Victim(NamedTuple):
    """Unit of eviction from one queue: a surplus task, or a job's core."""

    queue: str
    amounts: Amounts


Balances = Mapping[str, QueueBalance]
"""By uid."""


def may_reclaim(queues: Balances, reclaimer: Reclaimer) -> bool:
    """Whether the reclaimer's own queue stays within its fair share, and within its quota with what
    nobody may evict."""
    own = queues[reclaimer.queue]
    if not all_within(own.allocated.plus(reclaimer.asks), own.fair_share):
        return False
    return reclaimer.preemptible or _quota_holds(own, reclaimer)


def _quota_holds(queue: QueueBalance, reclaimer: Reclaimer) -> bool:
    return all_within(queue.non_preemptible.plus(reclaimer.asks), queue.quota)


def may_lose(queues: Balances, reclaimer: Reclaimer, victim: str) -> bool:
    """Whether jobs of the victim's queue are looked at for this reclaimer at all."""
    own_path, theirs = leveled(queues, reclaimer.queue, victim)
    if not all_within(own_path.allocated.plus(reclaimer.asks), own_path.quota):
        return not all_within(theirs.allocated, theirs.allocatable)
    resources = [at for at, amount in enumerate(reclaimer.asks) if amount > 0]
    bounded = [at for at in resources if theirs.quota[at] != UNLIMITED]
    below = any(theirs.allocated[at] < theirs.quota[at] for at in bounded)
    above = any(theirs.allocated[at] > theirs.quota[at] for at in bounded)
    return above or not below


def is_reclaimable(
    queues: Balances,
    reclaimer: Reclaimer,
    victims: Sequence[Victim],
    *,
    multiplier: Fraction = Fraction(1),
) -> bool:
    """Whether all of the victims may go for the reclaimer. ``multiplier``: how much fuller a
    sibling must stay than the reclaimer's queue, at least 1."""
    remaining: dict[str, Amounts] = {}
    involved: dict[str, set[int]] = {}
    paths = {
        uid: (leveled(queues, reclaimer.queue, uid), list(chain(queues, uid)))
        for uid in {victim.queue for victim in victims}
    }
    for victim in victims:
        (own_path, theirs), above = paths[victim.queue]
        left = remaining.get(theirs.uid, theirs.allocated)
        # Checked before it is taken: the last part may push a queue below its share, as in KAI.
        if not takes_from(own_path, theirs, left, reclaimer.asks):
            return False
        for queue in above:
            left = remaining.get(queue.uid, queue.allocated)
            remaining[queue.uid] = left.minus(victim.amounts)
            involved.setdefault(queue.uid, set()).update(_named(victim.amounts))
    return _stays_emptier(queues, reclaimer, remaining, involved, multiplier)


def takes_from(mine: QueueBalance, theirs: QueueBalance, left: Amounts, asks: Amounts) -> bool:
    """Whether a leveled queue that still has ``left`` may lose more: it is above its share, or
    above its quota while the reclaimer's queue stays within its own."""
    if not all_within(left, theirs.allocatable):
        return True
    return all_within(mine.allocated.plus(asks), mine.quota) and not all_within(left, theirs.quota)


def _stays_emptier(
    queues: Balances,
    reclaimer: Reclaimer,
    remaining: Mapping[str, Amounts],
    involved: Mapping[str, set[int]],
    multiplier: Fraction,
) -> bool:
    for own in chain(queues, reclaimer.queue):
        has = remaining.get(own.uid, own.allocated).plus(reclaimer.asks)
        for uid, left in remaining.items():
            sibling = queues[uid]
            if sibling.parent != own.parent or uid == own.uid:
                continue
            for at in involved[uid] | _named(reclaimer.asks):
                own_amounts = own.fair_share[at], has[at]
                if _fuller(own_amounts, (sibling.fair_share[at], left[at]), multiplier):
                    return False
        if not reclaimer.preemptible and not _quota_holds(own, reclaimer):
            return False
    return True


def _fuller(mine: tuple[int, int], theirs: tuple[int, int], multiplier: Fraction) -> bool:
    """Whether a queue would be above its fair share, and as full as a sibling that has one. Both
    as (fair share, what it has)."""
    (share, has), (other_share, left) = mine, theirs
    if other_share <= 0 or within(has, share):
        return False
    return not share or Fraction(has, share) * multiplier >= Fraction(left, other_share)


def leveled(queues: Balances, left: str, right: str) -> tuple[QueueBalance, QueueBalance]:
    """The two queues below the lowest one that is above both; where one is above the other, the
    last pair of their paths."""
    left_path, theirs = list(chain(queues, left))[::-1], list(chain(queues, right))[::-1]
    pairs = list(zip(left_path, theirs, strict=False))
    return next((pair for pair in pairs if pair[0].uid != pair[1].uid), pairs[-1])


def chain(queues: Balances, uid: str) -> Iterator[QueueBalance]:
    """A queue and those above it, nearest first."""
    queue: QueueBalance | None = queues[uid]
    while queue is not None:
        yield queue
        queue = None if queue.parent is None else queues[queue.parent]


def _named(amounts: Amounts) -> set[int]:
    return {at for at, amount in enumerate(amounts) if amount > 0}


# --- how much could be taken at all ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LargestParts:
    """Upper bounds over the jobs of a leaf queue: the largest eviction unit, and the ratios in
    which resources leave together."""

    largest: Amounts = NOTHING
    ratios: tuple[tuple[Fraction | None, ...], ...] = ()
    """``[of][per]``: the most of one resource that comes with one of another; None: comes alone."""


def largest_parts(jobs: Sequence[Sequence[Amounts]]) -> LargestParts:
    """``jobs``: the amounts of each job's tasks."""
    largest = [0, 0, 0]
    ratios: list[list[Fraction | None]] = [[Fraction(0)] * 3 for _ in range(3)]
    for job in jobs:
        for at in range(3):
            largest[at] = max(largest[at], sum(task[at] for task in job))
    for task in {task for job in jobs for task in job}:
        for of in range(3):
            for per in range(3):
                ratio = ratios[of][per]
                if ratio is None or not task[of]:
                    continue
                ratios[of][per] = max(ratio, Fraction(task[of], task[per])) if task[per] else None
    return LargestParts(Amounts(*largest), tuple(map(tuple, ratios)))


def may_cost(
    queues: Balances,
    reclaimer: Reclaimer,
    lost: Amounts,
    leaves: Mapping[str, LargestParts],
) -> bool:
    """Whether victims of these leaves could lose so much together, whoever they are: no queue loses
    more than a part beyond what it has above its bound."""
    groups: dict[str, tuple[QueueBalance, QueueBalance, list[LargestParts]]] = {}
    for leaf, parts in leaves.items():
        own_path, theirs = leveled(queues, reclaimer.queue, leaf)
        groups.setdefault(theirs.uid, (own_path, theirs, []))[2].append(parts)
    for at, amount in enumerate(lost):
        most = [_most_of(*group, asks=reclaimer.asks, at=at) for group in groups.values()]
        bounded = [part for part in most if part is not None]
        if len(bounded) == len(most) and amount > sum(bounded):
            return False
    return True


def _most_of(
    mine: QueueBalance,
    theirs: QueueBalance,
    leaves: Sequence[LargestParts],
    *,
    asks: Amounts,
    at: int,
) -> Fraction | None:
    """The most of one resource that a leveled queue may lose; None: no bound is known."""
    has_quota = all_within(mine.allocated.plus(asks), mine.quota)
    most = Fraction(0)
    for per in range(3):
        bounds = [theirs.allocatable[per], theirs.quota[per] if has_quota else UNLIMITED]
        bound = min((b for b in bounds if b != UNLIMITED), default=None)
        if bound is None or theirs.allocated[per] <= bound:
            continue
        ratios = [parts.ratios[at][per] for parts in leaves]
        if any(ratio is None for ratio in ratios):
            return None
        # While one more part may go, what went is less than the excess.
        excess = theirs.allocated[per] - bound - 1
        largest = max(parts.largest[at] for parts in leaves)
        most = max(most, excess * max(r for r in ratios if r is not None) + largest)
    return most
