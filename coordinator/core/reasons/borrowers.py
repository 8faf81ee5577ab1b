"""Queues that have more than their share of what a job misses, while its own queue has less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.jobs.pending_reasons import Why
from shard_worker.framework.queue_choice import QueueChoice
from shard_worker.session_model.queue_totals import used
from shard_worker.session_model.workload import ClusterInfo, QueueInfo
from shared.messages.reason import Reason
from shared.units.amount_text import name_of
from shared.units.quantity import quantity
from shared.units.slots import CPU, MEMORY

EVERY_SECONDS = 1.0
"""Minimum interval of comparing all queues with their shares: in between many jobs may begin to
wait."""
NAMED = 3
"""Most queues named, those first that are furthest above their share."""

_OF_ROOM = frozenset(
    {Reason.NOT_ENOUGH_RESOURCES, Reason.FRAGMENTED, Reason.TOPOLOGY_PLACEMENT_FAILED}
)


class Borrowers:
    def __init__(self, core: Coordinator) -> None:
        self._core = core
        self._compared_at = float("-inf")
        self._over: dict[int, dict[int, float]] = {}
        """qid -> slot -> amount above the share; below 0 for less than it."""

    def of(self, qid: int, why: Why, names: Sequence[str]) -> tuple[str, ...]:
        """The queues, with the amounts, that borrow what a job of this queue misses; none if its
        own queue has its share, or if it would still wait if they gave it back."""
        if why.reason not in _OF_ROOM:
            return ()
        over = self._compared()
        own = over.get(qid, {})
        slot = next((slot for slot in why.short if own.get(slot, 0) < 0), None)
        if slot is None:
            return ()
        most = sorted(
            ((amounts[slot], each) for each, amounts in over.items() if amounts.get(slot, 0) > 0),
            key=lambda pair: (-pair[0], pair[1]),
        )
        resource, queues = name_of(slot, names), self._core.order.accounts.cluster.queues
        return tuple(
            f"queue {queues[each].queue.name} ({quantity(resource, amount)} {resource} above its "
            "share)"
            for amount, each in most[:NAMED]
            if each in queues
        )

    def _compared(self) -> dict[int, dict[int, float]]:
        order = self._core.order
        if order.now - self._compared_at >= EVERY_SECONDS:
            self._compared_at, cluster = order.now, order.accounts.cluster
            # A queue with others below it has what these have.
            leaves = {qid: info for qid, info in cluster.queues.items() if info.below is None}
            choice = order.session.queue_choice
            if choice is not None:
                self._over = _by_choice(choice, leaves, cluster)
            else:
                self._over = {
                    qid: _difference(used(info), order.session.deserved(info, cluster))
                    for qid, info in leaves.items()
                }
        return self._over


def _difference(has: Mapping[int, float], deserved: Mapping[int, float]) -> dict[int, float]:
    return {slot: has.get(slot, 0) - due for slot, due in deserved.items()}


def _by_choice(
    choice: QueueChoice[Any], queues: Mapping[int, QueueInfo], cluster: ClusterInfo
) -> dict[int, dict[int, float]]:
    """By the shares of a policy that compares siblings: cores, memory, and GPUs of all kinds."""
    shares, held = choice.shares(cluster), choice.held(cluster)
    gpus = [slot for slot, name in enumerate(cluster.names) if name.endswith("/gpu")]
    over: dict[int, dict[int, float]] = {}
    for qid, info in queues.items():
        name = info.queue.name
        if name in shares:
            has = held.get(name, (0, 0, 0))
            cpu, memory, gpu = (float(a - b) for a, b in zip(has, shares[name], strict=True))
            over[qid] = {CPU: cpu, MEMORY: memory} | dict.fromkeys(gpus, gpu)
    return over
