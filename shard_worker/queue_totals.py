"""The totals of queues, by which more is given to them or refused, kept by differences.

Both halves keep them by these functions: Order with every move of tasks, a session with every
operation of a statement, and whoever builds a world from nothing. A queue with others below it
counts what those use, too; see :func:`link`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from shard_worker.workload import Amounts, Below, ClusterInfo, Figures, JobInfo, QueueInfo, add
from shared.model import Role

PENDING, INQUEUE, RUNNING = "Pending", "Inqueue", "Running"
"""Phases of a PodGroup that count here; "" is as good as Pending."""

QUEUE_GATE = "scheduling.volcano.sh/queue-allocation-gate"
"""Annotation of a pod whose scheduling gate the scheduler takes away once its queue has room."""

Total = Literal["inqueue", "kept", "reserved", "claimed"]


def waits_for_entry(phase: str) -> bool:
    """Is it up to enqueue whether the job's pods may be created?"""
    return phase in ("", PENDING)


def figures(info: JobInfo) -> Figures | None:
    """A job's part in the totals; None where it is not said what it needs at least.

    As Volcano has it, a job that is Inqueue counts, and one that is Running while as many of its
    tasks run as it needs: of a job whose driver has ended nothing more is to be expected."""
    least = info.job.min_resources
    if least is None:
        return None
    held, gated = info.allocated, info.gated
    kept = {slot: part for slot, amount in least if (part := min(held.get(slot, 0), amount)) > 0}
    inqueue: Amounts = {}
    if info.phase == INQUEUE or (
        info.phase == RUNNING and info.using >= info.job.groups[0].minimum
    ):
        inqueue = _rest(least, held, gated)
    promised = _rest(least, {}, gated) if info.phase == INQUEUE else inqueue
    return Figures(inqueue, kept, promised)


def _rest(least: Iterable[tuple[int, int]], held: Amounts, gated: Amounts) -> Amounts:
    return {
        slot: rest
        for slot, amount in least
        if (rest := amount - held.get(slot, 0) - gated.get(slot, 0)) > 0
    }


def book(cluster: ClusterInfo, queue: QueueInfo, info: JobInfo) -> None:
    """Bring the totals up to date with the job, which has changed or is new."""
    now = figures(info)
    if now != info.figures:
        _count(cluster, queue, info.figures, -1)
        _count(cluster, queue, now, +1)
        info.figures = now


def unbook(cluster: ClusterInfo, queue: QueueInfo, info: JobInfo) -> None:
    """The job leaves the totals."""
    _count(cluster, queue, info.figures, -1)
    info.figures = None


def _count(cluster: ClusterInfo, queue: QueueInfo, part: Figures | None, times: int) -> None:
    if part is not None:
        charge_total(queue, "inqueue", part.inqueue.items(), times)
        charge_total(queue, "kept", part.kept.items(), times)
        for total, of_all in zip(
            part, (cluster.inqueue, cluster.kept, cluster.promised), strict=True
        ):
            add(of_all, total.items(), times)


def let_in(cluster: ClusterInfo, info: JobInfo) -> None:
    """Its PodGroup is Inqueue from now on."""
    info.phase = INQUEUE
    queue = cluster.queues.get(info.qid)
    if queue is not None:
        book(cluster, queue, info)


# --- totals ---------------------------------------------------------------------------------------


def charge(queue: QueueInfo, requests: Iterable[tuple[int, int]], times: int) -> None:
    """Add ``times`` (may be negative) a request to what the queue has allocated."""
    add(queue.allocated, requests, times)
    for above in queue.above:
        if above.below is not None:
            add(above.below.allocated, requests, times)


def charge_total(
    queue: QueueInfo, total: Total, requests: Iterable[tuple[int, int]], times: int
) -> None:
    """As :func:`charge`, of another total."""
    add(getattr(queue, total), requests, times)
    for above in queue.above:
        if above.below is not None:
            add(getattr(above.below, total), requests, times)


def used(queue: QueueInfo) -> Amounts:
    """What the queue and all below it have allocated. Not to be changed by the caller."""
    return _with_below(queue.allocated, None if queue.below is None else queue.below.allocated)


def whole(queue: QueueInfo, total: Total) -> Amounts:
    """As :func:`used`, of another total."""
    below = None if queue.below is None else getattr(queue.below, total)
    return _with_below(getattr(queue, total), below)


def _with_below(own: Amounts, below: Amounts | None) -> Amounts:
    if not below:
        return own
    if not own:
        return below
    both = dict(own)
    add(both, below.items(), 1)
    return both


# --- the tree -------------------------------------------------------------------------------------


def link(queues: Mapping[int, QueueInfo]) -> None:
    """Tell each queue which ones are above it, and add up what is below each.

    Called when queues came, went or moved. A queue whose parents go round in a circle has none
    above it: no total could count it once."""
    for info in queues.values():
        info.above = ()
        info.below = None
    if all(info.queue.parent < 0 for info in queues.values()):
        return
    for info in queues.values():
        info.above = _above(info, queues)
        for above in info.above:
            if above.below is None:
                above.below = Below()
            add(above.below.allocated, info.allocated.items(), 1)
            add(above.below.inqueue, info.inqueue.items(), 1)
            add(above.below.kept, info.kept.items(), 1)
            add(above.below.reserved, info.reserved.items(), 1)
            add(above.below.claimed, info.claimed.items(), 1)


def _above(info: QueueInfo, queues: Mapping[int, QueueInfo]) -> tuple[QueueInfo, ...]:
    found: dict[int, QueueInfo] = {}
    at = queues.get(info.queue.parent)
    while at is not None:
        if at is info or at.queue.qid in found:
            return ()
        found[at.queue.qid] = at
        at = queues.get(at.queue.parent)
    return tuple(found.values())


# --- gates ----------------------------------------------------------------------------------------


def reserves(role: Role) -> bool:
    """Were its members behind the queue's gate, and are not any more? While they wait for a node,
    their place in the queue is kept."""
    return not role.gated and any(
        key == QUEUE_GATE and value == "true" for key, value in role.annotations
    )
