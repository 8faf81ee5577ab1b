"""What queues lack, divided over the queues that borrow. Amounts are whole numbers in the unit of
the resource's slot, so that the pairs sum to the lacks exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from shared.slices import Steps

MOST_BORROWERS = 32
"""Borrowers with pairs of their own, the largest first; the others are one. With 1,000 queues on
either side there would be a million pairs."""


@dataclass(frozen=True, slots=True)
class QueueBalance:
    """One leaf queue and one resource."""

    queue: str
    deserved: int = 0
    allocated: int = 0
    requested: int = 0
    """``allocated`` and what its waiting jobs ask for."""
    quota: int = 0
    """The part of ``deserved`` that does not depend on requests, or more than that."""
    reclaimable: bool = True
    """Whether reclaim may take what it borrows."""

    @property
    def lack(self) -> int:
        return max(0, min(self.deserved, self.requested) - self.allocated)

    @property
    def borrowed(self) -> int:
        return max(0, self.allocated - self.deserved)

    @property
    def idle(self) -> int:
        """The part of its quota that nobody in it asks for."""
        return max(0, max(self.deserved, self.quota) - max(self.requested, self.allocated))


class Holder(Enum):
    """Where the amount is that a queue lacks."""

    QUEUE = "queue"
    OTHERS = "others"
    """The queues beyond the :data:`MOST_BORROWERS` that borrow most."""
    FREE = "free"
    """Nobody borrows it: it is free, and cannot be used yet."""


class QueuePair(NamedTuple):
    queue: str
    holder: Holder
    borrower: str = ""
    """Only where ``holder`` is QUEUE."""


def pairs_of(balances: Iterable[QueueBalance]) -> Steps[dict[QueuePair, int]]:
    """Divide what queues lack over the borrowers, in proportion to what each borrows; the rest is
    free. No borrower is in pairs with more than it borrows."""
    listed = sorted(balances, key=lambda balance: balance.queue)
    lacking = [balance for balance in listed if balance.lack]
    borrowers = sorted(
        (balance for balance in listed if balance.borrowed), key=lambda each: -each.borrowed
    )
    left = [each.borrowed for each in borrowers[:MOST_BORROWERS]]
    left.append(sum(each.borrowed for each in borrowers[MOST_BORROWERS:]))
    lacks = [balance.lack for balance in lacking]
    pairs: dict[QueuePair, int] = {}
    for balance, part in zip(lacking, divided(min(sum(lacks), sum(left)), lacks), strict=True):
        # By what is left rather than by what is borrowed: rounding never overdraws a borrower.
        *amounts, others = divided(part, left)
        left = [rest - amount for rest, amount in zip(left, [*amounts, others], strict=True)]
        for borrower, amount in zip(borrowers, amounts, strict=False):
            pairs[QueuePair(balance.queue, Holder.QUEUE, borrower.queue)] = amount
        pairs[QueuePair(balance.queue, Holder.OTHERS)] = others
        pairs[QueuePair(balance.queue, Holder.FREE)] = balance.lack - part
        yield
    return {pair: amount for pair, amount in pairs.items() if amount}


def divided(amount: int, weights: Sequence[int]) -> list[int]:
    """Divide an amount by weights, in whole units; largest remainders first, then the earlier.
    With an amount of at most the sum of the weights no part exceeds its weight."""
    whole = sum(weights)
    if not whole:
        return [0] * len(weights)
    parts = [amount * weight // whole for weight in weights]
    remainders = [amount * weight % whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda at: -remainders[at])
    for at in by_remainder[: amount - sum(parts)]:
        parts[at] += 1
    return parts
