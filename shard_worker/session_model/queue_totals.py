"""The totals of queues that decide the admission of requests, updated incrementally.

Both sides use these functions: Order with every change of tasks, a session with every operation of
a statement, and the builder of a full world. The totals of a queue include its descendants' usage;
see :func:`link`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from shard_worker.session_model.workload import (
    Amounts,
    ClusterInfo,
    DescendantTotals,
    JobFigures,
    JobInfo,
    QueueInfo,
    add,
)
from shared.model.model import Pairs, Role

PENDING, INQUEUE, RUNNING = "Pending", "Inqueue", "Running"
"""Phases of a PodGroup that count here; "" counts as Pending."""

QUEUE_GATE = "scheduling.volcano.sh/queue-allocation-gate"
"""Annotation of a pod whose scheduling gate the scheduler takes away once its queue has room."""

Total = Literal["inqueue", "kept", "reserved", "claimed"]


def waits_for_entry(phase: str) -> bool:
    """Whether enqueue must admit the job before its pods are created."""
    return phase in ("", PENDING)


def figures(info: JobInfo) -> JobFigures | None:
    """A job's contribution to the totals; None if it has no minResources.

    As in Volcano, a job that is Inqueue counts, and one that is Running while as many of its tasks
    run as it needs: a job whose driver has ended will request nothing more.
    """
    least = info.job.min_resources
    if least is None:
        return None
    allocated, gated = info.allocated, info.gated
    held_part = {
        slot: part for slot, amount in least if (part := min(allocated.get(slot, 0), amount)) > 0
    }
    inqueue: Amounts = {}
    if info.phase == INQUEUE or (
        info.phase == RUNNING and info.using >= info.job.groups[0].minimum
    ):
        inqueue = _rest(least, allocated, gated)
    promised = _rest(least, {}, gated) if info.phase == INQUEUE else inqueue
    return JobFigures(inqueue, held_part, promised)


def _rest(least: Iterable[tuple[int, int]], allocated: Amounts, gated: Amounts) -> Amounts:
    return {
        slot: rest
        for slot, amount in least
        if (rest := amount - allocated.get(slot, 0) - gated.get(slot, 0)) > 0
    }


def book(cluster: ClusterInfo, queue: QueueInfo, info: JobInfo) -> None:
    """Update the totals for a job that has changed or is new."""
    now = figures(info)
    if now != info.figures:
        _count(cluster, queue, info.figures, -1)
        _count(cluster, queue, now, +1)
        info.figures = now


def unbook(cluster: ClusterInfo, queue: QueueInfo, info: JobInfo) -> None:
    """Take the job out of the totals."""
    _count(cluster, queue, info.figures, -1)
    info.figures = None


def _count(cluster: ClusterInfo, queue: QueueInfo, part: JobFigures | None, times: int) -> None:
    if part is not None:
        charge_total(queue, "inqueue", part.inqueue.items(), times)
        charge_total(queue, "kept", part.kept.items(), times)
        for total, of_all in zip(
            part, (cluster.inqueue, cluster.kept, cluster.promised), strict=True
        ):
            add(of_all, total.items(), times)


def mark_inqueue(cluster: ClusterInfo, info: JobInfo) -> None:
    """Admit the job: its PodGroup is Inqueue from now on."""
    info.phase = INQUEUE
    queue = cluster.queues.get(info.qid)
    if queue is not None:
        book(cluster, queue, info)


# --- totals ---------------------------------------------------------------------------------------


def charge(queue: QueueInfo, requests: Iterable[tuple[int, int]], times: int) -> None:
    """Add ``times`` (may be negative) a request to what the queue has allocated."""
    add(queue.allocated, requests, times)
    # A sum beside each ancestor's own amounts: a question about an ancestor costs no walk over
    # its leaves (decision 0035).
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
    """Amounts allocated to the queue and all below it. Not to be changed by the caller."""
    return _with_below(queue.allocated, None if queue.below is None else queue.below.allocated)


def whole(queue: QueueInfo, total: Total) -> Amounts:
    """As :func:`used`, for another total."""
    below = None if queue.below is None else getattr(queue.below, total)
    return _with_below(getattr(queue, total), below)


def _with_below(amounts: Amounts, below: Amounts | None) -> Amounts:
    if not below:
        return amounts
    if not amounts:
        return below
    both = dict(amounts)
    add(both, below.items(), 1)
    return both


# --- the tree -------------------------------------------------------------------------------------


def link(queues: Mapping[int, QueueInfo]) -> None:
    """Set each queue's ancestors, and add up what is below each.

    Called when queues came, went or moved. A queue whose parents form a circle has no ancestors: no
    total could count it once.
    """
    for info in queues.values():
        info.above = ()
        info.below = None
    if all(info.queue.parent < 0 for info in queues.values()):
        return
    for info in queues.values():
        info.above = _above(info, queues)
        for above in info.above:
            if above.below is None:
                above.below = DescendantTotals()
            add(above.below.allocated, info.allocated.items(), 1)
            add(above.below.inqueue, info.inqueue.items(), 1)
            add(above.below.kept, info.kept.items(), 1)
            add(above.below.reserved, info.reserved.items(), 1)
            add(above.below.claimed, info.claimed.items(), 1)


def _above(info: QueueInfo, queues: Mapping[int, QueueInfo]) -> tuple[QueueInfo, ...]:
    ancestors: dict[int, QueueInfo] = {}
    at = queues.get(info.queue.parent)
    while at is not None:
        if at is info or at.queue.qid in ancestors:
            return ()
        ancestors[at.queue.qid] = at
        at = queues.get(at.queue.parent)
    return tuple(ancestors.values())


# --- gates ----------------------------------------------------------------------------------------


def reserves(role: Role) -> bool:
    """Whether its members had the queue's scheduling gate, which was removed. While they are
    pending, their share of the queue is reserved."""
    return not role.gated and opted_in(role.annotations)


def opens_gate(role: Role) -> bool:
    """Whether the scheduler itself removes the gate of its members, once their queue has room: it
    is their only one, and their annotation asks for it, as in Volcano."""
    return role.own_gate and opted_in(role.annotations)


def opted_in(annotations: Pairs) -> bool:
    """Whether annotations of a pod ask for the gate."""
    return any(key == QUEUE_GATE and value == "true" for key, value in annotations)
