"""The pairs of queues as JSON. Amounts are exact quantities, so that the texts add up too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.explain.queues.balances import balances_of
from coordinator.explain.queues.pair_hours import PairHours
from coordinator.explain.queues.pairs import QueueBalance, QueuePair, pairs_of
from coordinator.explain.queues.queue_tree import API_VERSION
from shared.policy.evicting_actions import OTHER_QUEUES
from shared.slices import Steps
from shared.units.quantity import unit_of
from shared.units.times import rfc3339

Json = dict[str, Any]

_HOUR = 3_600_000


def queue_pairs(core: Coordinator, hours: PairHours, resources: Sequence[str]) -> Steps[Json]:
    """Build the answer: the pairs of these resources now, and since this coordinator leads."""
    reclaims = not OTHER_QUEUES.isdisjoint(core.order.session.policy.actions)
    # Begun for all of them at once: in between the policy or the names of resources may change.
    looks = [(resource, balances_of(core, resource)) for resource in resources]
    answers = []
    for resource, look in looks:
        balances = sorted((yield from look), key=lambda each: each.queue)
        pairs = yield from pairs_of(balances)
        answers.append(
            _of_queues(resource, balances, reclaims=reclaims) | _of_pairs(resource, pairs, hours)
        )
    return {
        "apiVersion": API_VERSION,
        "kind": "QueuePairs",
        "since": rfc3339(hours.since, "milliseconds"),
        "reclaim": reclaims,
        "resources": answers,
    }


def exact(resource: str, amount: int) -> str:
    """An amount without rounding: whole, in thousandths (``1500m``), or in bytes."""
    unit = unit_of(resource)
    return f"{amount}m" if amount % unit else str(amount // unit)


def _of_queues(resource: str, balances: Sequence[QueueBalance], *, reclaims: bool) -> Json:
    def text(amount: int) -> str:
        return exact(resource, amount)

    idle = sum(each.idle for each in balances)
    reclaimable = sum(each.borrowed for each in balances if reclaims and each.reclaimable)
    return {
        "resource": resource,
        "lacking": text(sum(each.lack for each in balances)),
        "borrowed": text(sum(each.borrowed for each in balances)),
        "queues": [
            {
                "queue": each.queue,
                "deserved": text(each.deserved),
                "allocated": text(each.allocated),
                "requested": text(each.requested),
                "lacks": text(each.lack),
                "borrows": text(each.borrowed),
                "idle": text(each.idle),
            }
            for each in balances
            if each.lack or each.borrowed or each.idle
        ],
        "recovery": [
            {
                "queue": each.queue,
                "lacks": text(each.lack),
                "reclaimable": text(min(each.lack, reclaimable)),
                "idleOfOthers": text(idle - each.idle),
            }
            for each in balances
            if each.lack
        ],
    }


def _of_pairs(resource: str, pairs: dict[QueuePair, int], hours: PairHours) -> Json:
    """The pairs of now, then those of the past."""
    per_hour = _HOUR * unit_of(resource)
    sums, others = hours.milliseconds.get(resource, Counter()), hours.others[resource]
    return {
        "pairs": [
            {
                "queue": pair.queue,
                "holder": pair.holder.value,
                "borrower": pair.borrower,
                "amount": exact(resource, pairs.get(pair, 0)),
                "hours": sums[pair] / per_hour,
            }
            for pair in pairs | dict(sums.most_common())
        ],
        "otherHours": others / per_hour,
        "hours": (sums.total() + others) / per_hour,
    }
