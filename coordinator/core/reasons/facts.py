"""Figures behind pending reasons: a queue's limits, what the cluster could give, and limits that no
waiting can lift."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.closed_nodes import closed_idle
from coordinator.core.reasons.upper_bound import Ceiling, ceiling_of
from coordinator.jobs.capability import BoundKind, QueueBound, bound_of, upwards
from coordinator.jobs.state import Need, amounts
from shard_worker.session_model.queue_limits import capability_of
from shard_worker.session_model.queue_totals import whole
from shard_worker.session_model.workload import Amounts, JobInfo, QueueInfo
from shared.messages.reason import Reason
from shared.model.model import TaskClass
from shared.units.amount_text import listed, name_of
from shared.units.quantity import quantity
from shared.units.slots import PODS


class PlacementObstacle(NamedTuple):
    """Obstacle that waiting does not remove."""

    reason: Reason
    message: str
    bound: QueueBound | None = None


def never(
    core: Coordinator,
    queue: QueueInfo,
    need: Need,
    *,
    classes: dict[int, TaskClass],
    names: Sequence[str],
) -> PlacementObstacle | None:
    """The reason that keeps every job of this need out of this queue until somebody changes
    something."""
    ceiling = ceiling_of(core)
    if core.nodes:
        for cid, _ in need:
            for slot, amount in classes[cid].requests:
                too_large = _too_large(ceiling, slot, amount, names)
                if too_large is not None:
                    return too_large
    needed = amounts(need, classes)
    for above in upwards(core.order.lines.queues, queue):
        for slot, limit in above.queue.capability or ():
            if needed.get(slot, 0) > limit:
                bound = bound_of(above, slot, limit, needed, names=names)
                return PlacementObstacle(
                    Reason.EXCEEDS_CAPABILITY, _larger(core, bound, names), bound
                )
    if core.order.walls and core.nodes and not ceiling.some_shard(needed):
        return PlacementObstacle(
            Reason.LARGER_THAN_SHARD,
            f"asks {listed(counted(needed), names)} at once, which no shard has; use fewer "
            "shards, mode soft, or a smaller gang",
        )
    return None


def _larger(core: Coordinator, bound: QueueBound, names: Sequence[str]) -> str:
    """The sentence for a job that is larger than what a queue may ever have."""
    resource = bound.resource(names)
    asks, may = quantity(resource, bound.asks), quantity(resource, bound.may)
    text = f"asks {asks} {resource} at once, queue {bound.queue} "
    if bound.kind is BoundKind.QUOTA:
        text += f"has a quota of {may}, and nobody may evict the job; make it preemptible, raise "
        return text + "the quota or ask for less"
    most = core.order.session.policy.dialect.most
    return text + f"may have {may} at most; raise its {most} or ask for less"


def _too_large(
    ceiling: Ceiling, slot: int, amount: int, names: Sequence[str]
) -> PlacementObstacle | None:
    if slot >= len(names):
        return None
    largest, resource = ceiling.node.get(slot, 0), names[slot]
    if not largest:
        text = f"no node has {resource}; ask for what nodes offer"
        return PlacementObstacle(Reason.NO_MATCHING_NODES, text)
    if amount > largest:
        return PlacementObstacle(
            Reason.EXCEEDS_NODE_CAPACITY,
            f"one task asks {quantity(resource, amount)} {resource}, the largest node has "
            f"{quantity(resource, largest)}",
        )
    return None


def entry_figures(core: Coordinator, queue: QueueInfo, info: JobInfo, names: Sequence[str]) -> str:
    """Figures of a job that enqueue does not admit: its minResources beside the first queue without
    room for them, else beside the cluster; "" where both suffice."""
    least = dict(info.job.min_resources or ())
    for above in upwards(core.order.lines.queues, queue):
        name = above.queue.name
        for slot, most in capability_of(above.queue).items():
            claimed = whole(above, "kept").get(slot, 0) + whole(above, "inqueue").get(slot, 0)
            if least.get(slot, 0) and claimed + least[slot] > most:
                resource = name_of(slot, names)
                return (
                    f"; {quantity(resource, least[slot])} {resource}, queue {name} may have "
                    f"{quantity(resource, most)}, {quantity(resource, claimed)} of them taken or "
                    "promised to admitted jobs"
                )
    cluster = core.order.accounts.cluster
    for slot, amount in least.items():
        free, promised = cluster.free.get(slot, 0), cluster.promised.get(slot, 0)
        if slot in cluster.total and amount + promised > free:
            resource = name_of(slot, names)
            return (
                f"; {quantity(resource, amount)} {resource}, the cluster has "
                f"{quantity(resource, max(0, free))} free, {quantity(resource, promised)} of them "
                "promised to admitted jobs"
            )
    return ""


def balance(core: Coordinator, need: Need) -> tuple[Amounts, Amounts, Amounts]:
    """(requested, what the nodes that it may use could give now or soon, shortfall)."""
    capacity, classes = core.order.accounts.capacity, core.order.accounts.classes
    needed = counted(amounts(need, classes))
    closed = closed_idle(core, (classes[cid] for cid, _ in need))
    could = {
        slot: max(0, capacity.could_give(slot) - closed.get(slot, 0))
        for slot in needed
        if slot in capacity.offered
    }
    short = {s: needed[s] - free for s, free in could.items() if needed[s] > free}
    return needed, could, short


def counted(needed: Amounts) -> Amounts:
    """The amounts without pod slots, unless nothing else is requested."""
    return {s: a for s, a in needed.items() if s != PODS} or needed
