"""A queue's limits, and whether it may take more: shared by queue plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from shard_worker.session_model.queue_totals import whole
from shard_worker.session_model.workload import Amounts, ClusterInfo, QueueInfo, add
from shared.model.model import Queue, Requests
from shared.units.resources import Amount, exceeding_on
from shared.units.slots import CPU, MEMORY

if TYPE_CHECKING:
    from shard_worker.session_model.job import TaskInfo

CLOSED = "it is closed"

Limits = Mapping[int, Amount]
"""slot -> the most a queue may have; of a slot that is missing, nothing."""


class QueueRefusal(NamedTuple):
    """Why a queue does not admit a request."""

    queue: QueueInfo
    """The queue without room: the queue itself, or an ancestor."""
    slots: tuple[int, ...] = ()
    """The slots in which it would exceed its limit."""
    why: str = ""
    """The reason where it is not a matter of amounts."""


def guarantees(queues: Iterable[Queue]) -> Amounts:
    """The sum of these queues' guarantees, those without jobs included."""
    total: Amounts = {}
    for queue in queues:
        add(total, queue.guarantee, 1)
    return total


def capability_of(queue: Queue) -> Amounts:
    """The queue's capability; a missing slot is unlimited, and so are, as in Volcano, cpu and
    memory of 0."""
    return {
        slot: amount
        for slot, amount in queue.capability or ()
        if amount > 0 or slot not in (CPU, MEMORY)
    }


def real_capability(
    total: Limits, guaranteed: Amounts, queue: Queue, capability: Limits | None = None
) -> dict[int, Amount]:
    """Volcano's realCapability: the total minus the guarantees of all other queues, at most the
    queue's capability.

    ``guaranteed``: the sum over all queues that share ``total``, this one included. ``capability``:
    if it is not the queue's own alone.
    """
    guarantee = dict(queue.guarantee)
    real: dict[int, Amount] = {
        slot: max(total.get(slot, 0) - guaranteed.get(slot, 0), 0) + guarantee.get(slot, 0)
        for slot in {*total, *guarantee}
    }
    for slot, most in (capability_of(queue) if capability is None else capability).items():
        real[slot] = min(real.get(slot, 0), most)
    return real


def entry_exceeds(queue: QueueInfo, needed: Amounts, real: Limits) -> list[int]:
    """The slots of a job's minResources for which the queue has no room, beside what its other jobs
    hold or were admitted with, up to their own minResources. What they hold beyond (elastic) does
    not count: it is lent."""
    return exceeds_with(needed, (whole(queue, "kept"), whole(queue, "inqueue")), real)


def exceeds_with(amounts: Amounts, others: Iterable[Amounts], limits: Limits) -> list[int]:
    """The slots of ``amounts`` that exceed the limits together with the other amounts."""
    would: Amounts = dict(amounts)
    for extra in others:
        add(would, extra.items(), 1)
    return exceeding_on(would, limits, amounts)


def beyond(
    allocated: Amounts, requests: Requests, limits: Limits, cluster: ClusterInfo
) -> list[int]:
    """The slots in which a queue would exceed its limits with this request on top.

    Only requested slots are compared. The comparison is exact, and leaves out ``pods``. Host ports,
    and resources that no node has, belong to no share: the nodes decide whether they fit.
    """
    requested = {s: amount for s, amount in requests if s in cluster.total or s in limits}
    would = {slot: allocated.get(slot, 0) + requested[slot] for slot in requested}
    return exceeding_on(would, limits, requested)


def sum_of(tasks: Sequence[TaskInfo]) -> Requests:
    """The sum of the tasks' requests."""
    total: Amounts = {}
    for task in tasks:
        add(total, task.requests, 1)
    return tuple(sorted(total.items()))
