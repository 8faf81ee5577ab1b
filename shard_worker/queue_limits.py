"""What a queue may have of the cluster, and whether it may have more: shared by queue plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from shard_worker.queue_totals import whole
from shard_worker.workload import Amounts, ClusterInfo, QueueInfo, add
from shared.model import Queue, Requests
from shared.resources import Amount, exceeding_on
from shared.slots import CPU, MEMORY

if TYPE_CHECKING:
    from shard_worker.tasks import TaskInfo

CLOSED = "it is closed"

Limits = Mapping[int, Amount]
"""slot -> the most a queue may have; of a slot that is missing, nothing."""


class Lacking(NamedTuple):
    """Why a queue may not take a request."""

    queue: QueueInfo
    """The one that has no room: the queue itself, or one above it."""
    slots: tuple[int, ...] = ()
    """Of what it would have more than it may."""
    why: str = ""
    """Where it is not a matter of amounts."""


def guarantees(queues: Iterable[Queue]) -> Amounts:
    """What is guaranteed to all these queues together, those without jobs too."""
    total: Amounts = {}
    for queue in queues:
        add(total, queue.guarantee, 1)
    return total


def capability_of(queue: Queue) -> Amounts:
    """What its owner lets it have; a slot that is missing is unlimited, and so are, as Volcano
    has it, cpu and memory of 0."""
    return {
        slot: amount
        for slot, amount in queue.capability or ()
        if amount > 0 or slot not in (CPU, MEMORY)
    }


def real_capability(
    total: Limits, guaranteed: Amounts, queue: Queue, capability: Limits | None = None
) -> dict[int, Amount]:
    """Volcano's realCapability: what is guaranteed to nobody, and what is to this queue; at most
    its capability. ``guaranteed``: to all that share ``total``, this queue among them.
    ``capability``: where it is not the queue's own alone."""
    own = dict(queue.guarantee)
    real: dict[int, Amount] = {
        slot: max(total.get(slot, 0) - guaranteed.get(slot, 0), 0) + own.get(slot, 0)
        for slot in {*total, *own}
    }
    for slot, most in (capability_of(queue) if capability is None else capability).items():
        real[slot] = min(real.get(slot, 0), most)
    return real


def entry_exceeds(queue: QueueInfo, asked: Amounts, real: Limits) -> list[int]:
    """The slots of a job's minResources for which the queue has no room, with what its other jobs
    keep of theirs or were let in with. What they hold beyond (elastic) does not count: it is lent.
    """
    return exceeds_with(asked, (whole(queue, "kept"), whole(queue, "inqueue")), real)


def exceeds_with(asked: Amounts, others: Iterable[Amounts], limits: Limits) -> list[int]:
    """The slots that are asked for and do not suffice for it beside the others."""
    would: Amounts = dict(asked)
    for other in others:
        add(would, other.items(), 1)
    return exceeding_on(would, limits, asked)


def beyond(
    allocated: Amounts, requests: Requests, limits: Limits, cluster: ClusterInfo
) -> list[int]:
    """The slots in which a queue would be beyond its limits with this request on top.

    Only what is asked for is looked at. The comparison is exact, and leaves out ``pods``. Host
    ports, and resources that no node has, are nobody's share: whether they fit is for the nodes to
    say."""
    asked = {s: amount for s, amount in requests if s in cluster.total or s in limits}
    would = {slot: allocated.get(slot, 0) + asked[slot] for slot in asked}
    return exceeding_on(would, limits, asked)


def sum_of(tasks: Sequence[TaskInfo]) -> Requests:
    """What tasks ask for together."""
    total: Amounts = {}
    for task in tasks:
        add(total, task.requests, 1)
    return tuple(sorted(total.items()))
