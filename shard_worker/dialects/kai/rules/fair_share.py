"""Fair shares: what each queue of a tree may count on, by quota, priority and weight.

Each resource is divided by itself, from the top down: the roots share the cluster's total, the
children of a queue share what it got. Among siblings every queue first gets its quota, as far as it
asks for it. What remains is divided priority by priority, within a priority by weight, in rounds: a
queue that asks for less than its part leaves the rest to a further round. Parts are rounded down to
KAI's own unit (whole devices). What the rounding left goes to the next priority like all else; only
what is left after the last goes to the largest remainders, the higher priority first.

KAI computes this in floating point over maps. Here amounts are whole numbers and parts exact
fractions, so that neither the order of the queues nor that of the additions can change a share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from shard_worker.dialects.kai.rules.amounts import NO_BOUND, NOTHING, UNITS, UNLIMITED, Amounts
from shared.policy.kai_usage import USAGE_ONE

WEIGHT_ONE = 1000
"""Weights are in thousandths."""
EVEN_WEIGHTS = Amounts(WEIGHT_ONE, WEIGHT_ONE, WEIGHT_ONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDemand:
    """Input of one queue for the division. ``requested`` covers its descendants."""

    uid: str
    parent: str | None = None
    """The uid of its parent; None for a root."""
    created: float = 0.0
    """Seconds since 1970."""
    priority: int = 100
    quota: Amounts = NOTHING
    limit: Amounts = NO_BOUND
    weight: Amounts = EVEN_WEIGHTS
    """Share of the amounts beyond quotas, in thousandths."""
    requested: Amounts = NOTHING
    """Allocated and pending."""
    usage: Amounts = NOTHING
    """Over time, in billionths of the cluster."""


def fair_shares(
    total: Amounts, queues: Iterable[QueueDemand], *, k: Fraction = Fraction(1)
) -> dict[str, Amounts]:
    """The share of every queue by uid. Queues whose parent is not among them get none. ``k``: how
    much usage beyond its weight costs a queue."""
    children: dict[str | None, list[QueueDemand]] = {}
    for queue in queues:
        children.setdefault(queue.parent, []).append(queue)
    shares: dict[str, Amounts] = {}
    open_parents: list[tuple[str | None, Amounts]] = [(None, total)]
    while open_parents:
        parent, amounts = open_parents.pop()
        siblings = children.get(parent, [])
        for queue, share in zip(siblings, divide_siblings(amounts, siblings, k=k), strict=True):
            shares[queue.uid] = share
            open_parents.append((queue.uid, share))
    return shares


def divide_siblings(
    total: Amounts, siblings: Sequence[QueueDemand], *, k: Fraction = Fraction(1)
) -> list[Amounts]:
    """The shares of queues of one parent, in their order."""
    by_resource = [
        divide(amount, [_claim(queue, at) for queue in siblings], unit=UNITS[at], k=k)
        for at, amount in enumerate(total)
    ]
    return [Amounts(*(shares[queue.uid] for shares in by_resource)) for queue in siblings]


class Claim(NamedTuple):
    """Input of one queue for the division of one resource."""

    uid: str
    created: float
    priority: int
    quota: int
    requestable: int
    """Its request, bounded by its limit."""
    weight: int
    usage: int


def _claim(queue: QueueDemand, at: int) -> Claim:
    limit, requested = queue.limit[at], queue.requested[at]
    return Claim(
        queue.uid,
        queue.created,
        queue.priority,
        queue.quota[at],
        requested if limit == UNLIMITED else min(limit, requested),
        queue.weight[at],
        queue.usage[at],
    )


def divide(
    total: int, claims: Sequence[Claim], *, unit: int = 1, k: Fraction = Fraction(1)
) -> dict[str, int]:
    """The share of each claim, of one resource. Quotas count even where they exceed the total
    together; then nothing else is given."""
    total = max(total, 0)  # others may use more than there is
    shares = {
        claim.uid: min(total if claim.quota == UNLIMITED else claim.quota, claim.requestable)
        for claim in claims
    }
    left = total - sum(shares.values())
    of_priorities: list[Mapping[Claim, Fraction]] = []
    for priority in sorted({claim.priority for claim in claims}, reverse=True):
        peers = [claim for claim in claims if claim.priority == priority]
        left, remainders = _by_weight(left, peers, shares, unit=unit, k=k)
        of_priorities.append(remainders)
    for remainders in of_priorities:
        left = _by_remainder(left, remainders, shares, unit=unit)
    return shares


def _by_weight(
    left: int, peers: Sequence[Claim], shares: dict[str, int], *, unit: int, k: Fraction
) -> tuple[int, Mapping[Claim, Fraction]]:
    """Divide in rounds; return what is left, and what rounding kept from whom."""
    remainders: dict[Claim, Fraction] = {}
    another = True
    while another and left > 0:
        another = False
        hungry = [peer for peer in peers if peer.requestable > shares[peer.uid]]
        weights = _effective_weights(hungry, k)
        everything, whole = left, sum(weights)
        if not whole:
            break
        for peer, weight in zip(hungry, weights, strict=True):
            part = everything * weight  # in parts of ``whole``
            need = peer.requestable - shares[peer.uid]
            if need * whole <= part:
                granted = need
                remainders.pop(peer, None)
                another |= need * whole < part
            else:
                granted = part // (whole * unit) * unit
                if (rest := part - granted * whole) > 0:
                    remainders[peer] = Fraction(rest, whole)
            shares[peer.uid] += granted
            left -= granted
    return left, remainders


def _effective_weights(hungry: Sequence[Claim], k: Fraction) -> list[int]:
    """The parts' proportions: a queue that used more than its weight gets less, down to
    nothing.

    KAI's ``weight + k * (weight - usage)``, of weights that are parts of their sum, multiplied by
    every denominator: whole numbers are as exact as fractions, and five times as fast to divide by.
    """
    whole = sum(peer.weight for peer in hungry)
    if not whole:
        return [0] * len(hungry)
    sign = 1 if whole > 0 else -1  # all of KAI's weights of -1 are equals, see its own tests
    own, of_usage = USAGE_ONE * (k.denominator + k.numerator), k.numerator * abs(whole)
    return [max(0, sign * peer.weight * own - of_usage * peer.usage) for peer in hungry]


def _by_remainder(
    left: int, remainders: Mapping[Claim, Fraction], shares: dict[str, int], *, unit: int
) -> int:
    """One unit each to the largest remainders; what is left after that.

    As in KAI, the unit may be more than the rest of a request for half a device.
    """
    order = sorted(remainders, key=lambda claim: (-remainders[claim], claim.created, claim.uid))
    for claim in order:
        granted = min(unit, left)
        shares[claim.uid] += granted
        left -= granted
    return left
