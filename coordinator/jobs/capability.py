"""The capability of queues: what a queue and each above it may still take. The ledger asks the same
when it judges a statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coordinator.jobs.pending_order import QueueState
from shard_worker.session_model.workload import Amounts, QueueInfo

Queues = Mapping[int, QueueState]


def upwards(queues: Queues, queue: QueueInfo) -> Iterator[QueueInfo]:
    """A queue and those above it; the queue itself need not be known yet."""
    yield queue
    at = queues.get(queue.queue.parent)
    while at is not None:
        yield at.info
        at = queues.get(at.info.queue.parent)


def held(queues: Queues, top: QueueInfo, slot: int) -> int:
    """What a queue and all below it hold of a slot, leaving tasks included."""
    if top.below is None:
        return top.allocated.get(slot, 0) + top.releasing.get(slot, 0)
    return sum(
        queue.info.allocated.get(slot, 0) + queue.info.releasing.get(slot, 0)
        for queue in queues.values()
        if any(above is top for above in upwards(queues, queue.info))
    )


def within_capability(queues: Queues, queue: QueueInfo, asked: Amounts) -> bool:
    """Whether the queue and those above it may take so much more."""
    for above in upwards(queues, queue):
        for slot, limit in above.queue.capability or ():
            if slot in asked and held(queues, above, slot) + asked[slot] > limit:
                return False
    return True
