"""Figures that reasons rest on: what a queue may have, what the cluster could give, and what can
never be had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coordinator.ceiling import Ceiling, ceiling_of
from coordinator.core import Coordinator
from coordinator.jobs import Need, amounts
from coordinator.reason_words import Reason
from coordinator.wording import listed, name_of, quantity
from shard_worker.queue_limits import capability_of
from shard_worker.queue_totals import whole
from shard_worker.workload import Amounts, JobInfo, QueueInfo
from shared.model import TaskClass
from shared.slots import PODS


def never(
    core: Coordinator,
    queue: QueueInfo,
    need: Need,
    *,
    classes: dict[int, TaskClass],
    names: Sequence[str],
) -> tuple[Reason, str] | None:
    """What keeps every job of this need out of this queue as long as nobody changes anything."""
    ceiling = ceiling_of(core)
    if core.nodes:
        for cid, _ in need:
            for slot, amount in classes[cid].requests:
                found = _too_large(ceiling, slot, amount, names)
                if found is not None:
                    return found
    asked = amounts(need, classes)
    for above in upwards(core, queue):
        for slot, limit in above.queue.capability or ():
            if asked.get(slot, 0) > limit:
                resource = name_of(slot, names)
                return Reason.EXCEEDS_CAPABILITY, (
                    f"asks {quantity(resource, asked[slot])} {resource} at once, queue "
                    f"{above.queue.name} may have {quantity(resource, limit)} at most; raise its "
                    "capability or ask for less"
                )
    if core.order.walls and core.nodes and not ceiling.some_shard(asked):
        return Reason.LARGER_THAN_SHARD, (
            f"asks {listed(counted(asked), names)} at once, which no shard has; use fewer "
            "shards, mode soft, or a smaller gang"
        )
    return None


def upwards(core: Coordinator, queue: QueueInfo) -> Iterator[QueueInfo]:
    """A queue and those above it; the queue itself need not be known yet."""
    queues = core.order.lines.queues
    yield queue
    at = queues.get(queue.queue.parent)
    while at is not None:
        yield at.info
        at = queues.get(at.info.queue.parent)


def within_capability(core: Coordinator, queue: QueueInfo, asked: Amounts) -> bool:
    """Whether the queue and those above it may take so much more."""
    return all(
        held(core, above, slot) + asked[slot] <= limit
        for above in upwards(core, queue)
        for slot, limit in above.queue.capability or ()
        if slot in asked
    )


def held(core: Coordinator, top: QueueInfo, slot: int) -> int:
    """What a queue and all below it hold of a slot, leaving tasks included."""
    queues = core.order.lines.queues
    if all(queue.info.queue.parent != top.queue.qid for queue in queues.values()):
        return top.allocated.get(slot, 0) + top.releasing.get(slot, 0)
    return sum(
        queue.info.allocated.get(slot, 0) + queue.info.releasing.get(slot, 0)
        for queue in queues.values()
        if any(above is top for above in upwards(core, queue.info))
    )


def _too_large(
    ceiling: Ceiling, slot: int, amount: int, names: Sequence[str]
) -> tuple[Reason, str] | None:
    if slot >= len(names) or names[slot].startswith("port/"):
        return None  # every node has its ports by nature
    largest, resource = ceiling.node.get(slot, 0), names[slot]
    if not largest:
        return Reason.NO_MATCHING_NODES, f"no node has {resource}; ask for what nodes offer"
    if amount > largest:
        return Reason.EXCEEDS_NODE_CAPACITY, (
            f"one task asks {quantity(resource, amount)} {resource}, the largest node has "
            f"{quantity(resource, largest)}"
        )
    return None


def entry_figures(core: Coordinator, queue: QueueInfo, info: JobInfo, names: Sequence[str]) -> str:
    """What a job that enqueue does not let in needs at least, beside what there is: the first
    queue without room for it, else the cluster; "" where neither falls short."""
    least = dict(info.job.min_resources or ())
    for above in upwards(core, queue):
        name = above.queue.name
        for slot, most in capability_of(above.queue).items():
            taken = whole(above, "kept").get(slot, 0) + whole(above, "inqueue").get(slot, 0)
            if least.get(slot, 0) and taken + least[slot] > most:
                resource = name_of(slot, names)
                return (
                    f"; {quantity(resource, least[slot])} {resource}, queue {name} may have "
                    f"{quantity(resource, most)}, {quantity(resource, taken)} of them taken or "
                    "promised to jobs that were let in"
                )
    cluster = core.order.accounts.cluster
    for slot, amount in least.items():
        free, promised = cluster.free.get(slot, 0), cluster.promised.get(slot, 0)
        if slot in cluster.total and amount + promised > free:
            resource = name_of(slot, names)
            return (
                f"; {quantity(resource, amount)} {resource}, the cluster has "
                f"{quantity(resource, max(0, free))} free, {quantity(resource, promised)} of them "
                "promised to jobs that were let in"
            )
    return ""


def balance(core: Coordinator, need: Need) -> tuple[Amounts, Amounts, Amounts]:
    """(asked, what the cluster could give now or soon, short by)."""
    capacity = core.order.accounts.capacity
    asked = counted(amounts(need, core.order.accounts.classes))
    could = {
        slot: max(
            0,
            capacity.idle.get(slot, 0)
            + capacity.releasing.get(slot, 0)
            - capacity.promised.get(slot, 0),
        )
        for slot in asked
        if slot in capacity.offered
    }
    short = {s: asked[s] - free for s, free in could.items() if asked[s] > free}
    return asked, could, short


def limits_of(core: Coordinator, queue: QueueInfo) -> dict[int, float]:
    """What the queue may have now: its share, and the capability of it and those above it."""
    limits = dict(core.order.session.most(queue, core.order.accounts.cluster))
    for above in upwards(core, queue):
        for slot, limit in above.queue.capability or ():
            limits[slot] = min(limits.get(slot, limit), limit)
    return limits


def counted(asked: Amounts) -> Amounts:
    """Amounts without the places among a node's pods, where anything else is asked."""
    return {s: a for s, a in asked.items() if s != PODS} or asked
