"""Room of a queue and its ancestors under their capability. The ledger checks the same when it
judges a statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from coordinator.jobs.pending_order import PendingQueue
from shard_worker.session_model.workload import Amounts, QueueInfo
from shared.units.amount_text import name_of
from shared.units.queue_slots import GPU_SHARE, NON_PREEMPTIBLE

Queues = Mapping[int, PendingQueue]


class BoundKind(Enum):
    """Kind of a queue's bound, in KAI's words."""

    LIMIT = "OverLimit"
    QUOTA = "NonPreemptibleOverQuota"


@dataclass(frozen=True, slots=True)
class QueueBound:
    """Why a queue, or one above it, does not take a job. Amounts in the unit of the slot."""

    queue: str
    """The queue of the chain that refuses."""
    kind: BoundKind
    slot: int
    has: int
    asks: int
    may: int
    asked: tuple[tuple[int, int], ...] = ()
    """All that the job asks for, by slot."""

    def resource(self, names: Sequence[str]) -> str:
        """The name of the resource, as users write it."""
        name = name_of(self.slot, names)
        return _USUAL.get(name, name)

    def slot_of(self, names: Sequence[str]) -> int:
        """The slot of the resource itself, where only a part of it is bound."""
        resource = self.resource(names)
        return names.index(resource) if resource in names else self.slot


_USUAL = {
    **dict(zip(NON_PREEMPTIBLE, ("cpu", "memory", "nvidia.com/gpu"), strict=True)),
    GPU_SHARE: "nvidia.com/gpu",
}


def upwards(queues: Queues, queue: QueueInfo) -> Iterator[QueueInfo]:
    """A queue and its ancestors; the queue itself may be unknown yet."""
    yield queue
    at = queues.get(queue.queue.parent)
    while at is not None:
        yield at.info
        at = queues.get(at.info.queue.parent)


def held(queues: Queues, top: QueueInfo, slot: int) -> int:
    """Amount of a slot that a queue and its descendants hold, leaving tasks and claims
    included."""
    if top.below is None:
        return _own(top, slot)
    return sum(
        _own(queue.info, slot)
        for queue in queues.values()
        if any(above is top for above in upwards(queues, queue.info))
    )


def _own(queue: QueueInfo, slot: int) -> int:
    totals = queue.allocated, queue.releasing, queue.claimed
    return sum(total.get(slot, 0) for total in totals)


def within_capability(queues: Queues, queue: QueueInfo, asked: Amounts) -> bool:
    """Whether the queue and its ancestors may take this much more."""
    for above in upwards(queues, queue):
        for slot, limit in above.queue.capability or ():
            if slot in asked and held(queues, above, slot) + asked[slot] > limit:
                return False
    return True


def first_refusal(
    queues: Queues, queue: QueueInfo, asked: Amounts, names: Sequence[str]
) -> QueueBound | None:
    """The first queue of the chain, the leaf first, that has no room for this; None where all
    have."""
    for above in upwards(queues, queue):
        for slot, limit in above.queue.capability or ():
            has = held(queues, above, slot) if asked.get(slot) else 0
            if asked.get(slot) and has + asked[slot] > limit:
                return bound_of(above, slot, limit, asked, names=names, has=has)
    return None


def bound_of(
    queue: QueueInfo, slot: int, limit: int, asked: Amounts, *, names: Sequence[str], has: int = 0
) -> QueueBound:
    """A queue's bound that a job of these amounts exceeds."""
    is_quota = name_of(slot, names) in NON_PREEMPTIBLE
    kind = BoundKind.QUOTA if is_quota else BoundKind.LIMIT
    items = tuple(sorted(asked.items()))
    return QueueBound(queue.queue.name, kind, slot, has, asked[slot], limit, items)


def could_ever(queue: QueueInfo, amounts: Amounts) -> bool:
    """Whether the capabilities of the queue and its ancestors admit these amounts, were the queue
    empty."""
    limits = [dict(above.queue.capability or ()) for above in (queue, *queue.above)]
    return all(limit.get(s, n) >= n for limit in limits for s, n in amounts.items())
