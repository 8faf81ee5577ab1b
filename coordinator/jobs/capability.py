"""What a queue and its ancestors may still take under their capability. The ledger checks the same
when it judges a statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coordinator.jobs.pending_order import QueueState
from shard_worker.session_model.workload import Amounts, QueueInfo

Queues = Mapping[int, QueueState]


def upwards(queues: Queues, queue: QueueInfo) -> Iterator[QueueInfo]:
    """A queue and its ancestors; the queue itself may be unknown yet."""
    yield queue
    at = queues.get(queue.queue.parent)
    while at is not None:
        yield at.info
        at = queues.get(at.info.queue.parent)


def held(queues: Queues, top: QueueInfo, slot: int) -> int:
    """What a queue and its descendants hold of a slot, leaving tasks included."""
    if top.below is None:
        return top.allocated.get(slot, 0) + top.releasing.get(slot, 0)
    return sum(
        queue.info.allocated.get(slot, 0) + queue.info.releasing.get(slot, 0)
        for queue in queues.values()
        if any(above is top for above in upwards(queues, queue.info))
    )


def within_capability(queues: Queues, queue: QueueInfo, asked: Amounts) -> bool:
    """Whether the queue and its ancestors may take this much more."""
    for above in upwards(queues, queue):
        for slot, limit in above.queue.capability or ():
            if slot in asked and held(queues, above, slot) + asked[slot] > limit:
                return False
    return True
