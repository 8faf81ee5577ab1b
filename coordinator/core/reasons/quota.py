"""Why a job waits for quota: the queue that has no room for it, its own or one above it."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.coordinator import Coordinator
from coordinator.jobs.capability import BoundKind, QueueBound, first_refusal, upwards
from coordinator.jobs.pending_reasons import Why
from shard_worker.session_model.workload import Amounts, QueueInfo
from shared.messages.reason import Reason
from shared.units.amount_text import listed, name_of
from shared.units.quantity import quantity


def quota_wait(core: Coordinator, queue: QueueInfo, needed: Amounts, names: Sequence[str]) -> Why:
    """The first amount beyond the share or the bound of the queue, or beyond that of one above."""
    bound = first_refusal(core.order.lines.queues, queue, needed, names)
    if bound is not None and (bound.queue, bound.kind) != (queue.queue.name, BoundKind.LIMIT):
        return bounded(bound, queue.queue.name, names)
    limits = limits_of(core, queue)
    over = {
        slot: amount - max(0.0, limits[slot] - queue.allocated.get(slot, 0))
        for slot, amount in needed.items()
        if slot in limits and queue.allocated.get(slot, 0) + amount > limits[slot]
    }
    available = {slot: max(0.0, limits[slot] - queue.allocated.get(slot, 0)) for slot in over}
    name = queue.queue.name
    if not over:
        text = f"queue {name} has its share; more when others leave theirs"
        return Why(Reason.WAITING_FOR_QUOTA, text)
    slot = next(iter(over))
    resource = name_of(slot, names)
    used = quantity(resource, queue.allocated.get(slot, 0))
    text = (
        f"queue {name} uses {used} of the {quantity(resource, limits[slot])} {resource} it may "
        f"have, the job asks {quantity(resource, needed[slot])}"
    )
    requested = {slot: needed[slot] for slot in over}
    return Why(
        Reason.WAITING_FOR_QUOTA,
        f"{text}; short by {listed(over, names)}",
        requested=requested,
        available=available,
        short=over,
        bound=bound,
    )


def bounded(bound: QueueBound, leaf: str, names: Sequence[str], *, uses: str = "uses") -> Why:
    """Why a bound of a queue, the job's own (``leaf``) or one above, keeps a job out. ``uses``: how
    it is said that the queue has what it has."""
    resource, slot = bound.resource(names), bound.slot_of(names)
    has, asks, may = (quantity(resource, n) for n in (bound.has, bound.asks, bound.may))
    left = max(0, bound.may - bound.has)
    short = {slot: bound.asks - left}
    queue = f"queue {bound.queue}" + ("" if bound.queue == leaf else f", above {leaf},")
    text = f"{queue} {uses} {has} of the {may} {resource} it may have, the job asks {asks}"
    if bound.kind is BoundKind.QUOTA:
        text = (
            f"the quota of {queue} is {may} {resource}, jobs that nobody may "
            f"evict have {has} of it, the job asks {asks} and may not be evicted either"
        )
    message = f"{text}; short by {listed(short, names)}"
    return Why(
        Reason.WAITING_FOR_QUOTA,
        message,
        requested={slot: bound.asks},
        available={slot: left},
        short=short,
        bound=bound,
    )


def limits_of(core: Coordinator, queue: QueueInfo) -> dict[int, float]:
    """The queue's present limits by slot: its share, and the capability of it and its ancestors."""
    limits = dict(core.order.session.most(queue, core.order.accounts.cluster))
    for above in upwards(core.order.lines.queues, queue):
        for slot, limit in above.queue.capability or ():
            limits[slot] = min(limits.get(slot, limit), limit)
    return limits
