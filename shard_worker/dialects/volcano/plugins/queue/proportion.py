"""proportion: queues share the cluster by weight, and what one does not want goes to the others.

The shares ("deserved") come from water filling: in rounds, the remaining amounts are dealt to the
unsatisfied queues by weight, limited by what each may have and asks for. They are computed once per
revision of the cluster's totals; what queues have allocated is read live.

Volcano's plugin, with two differences: reclaim leaves a queue its guarantee, as only capacity does
there; and where nobody within its share can use free capacity, the service gives it to queues
beyond theirs (decision 0010), so that a share says who goes first, and is a wall only in a replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import PERMIT, REJECT, Purpose
from shard_worker.framework.session import Session
from shard_worker.framework.sort_keys import Key
from shard_worker.session_model.queue_limits import (
    CLOSED,
    QueueRefusal,
    beyond,
    entry_exceeds,
    guarantees,
    real_capability,
    sum_of,
)
from shard_worker.session_model.workload import Amounts, ClusterInfo, JobInfo, QueueInfo, add
from shared.model.model import Queue, Requests
from shared.policy.model import PluginOption
from shared.units.resources import EPSILON, at_most, dominant_share, less_equal
from shared.units.slots import CPU, MEMORY, PODS

if TYPE_CHECKING:
    from shard_worker.session_model.job import SessionJob, TaskInfo
    from shard_worker.session_model.world import World

Matrix = NDArray[np.float64]
ROUNDING = 1e-3
"""Tolerance for sums of doubles: far above their rounding error, far below one unit."""
Shares = dict[int, dict[int, float]]
"""Queue -> slot -> deserved amount."""


class Proportion:
    name = "proportion"

    def __init__(self, option: PluginOption) -> None:
        del option  # it takes no arguments
        self._shares: Shares = {}
        self._guaranteed: Amounts = {}
        self._computed_for: tuple[ClusterInfo, int] | None = None
        self._inputs: object = None
        """Inputs of the shares."""

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_queue_order_fn(key=self.queue_order)
        ssn.add_overused_fn(self.overused)
        ssn.add_allocatable_fn(self.allocatable)
        ssn.add_simulate_allocatable_fn(self.simulate_allocatable)
        ssn.add_preemptive_fn(self.preemptive)
        ssn.add_reclaimable_fn(self.reclaimable)
        ssn.add_unified_evictable_fn(self.unified_evictable)
        ssn.add_job_enqueueable_fn(self.job_enqueueable)
        ssn.report_shares(self.deserved)
        ssn.report_limits(self.lacking, room=self.room)

    def queue_order(self, queue: QueueInfo, cluster: ClusterInfo) -> Key:
        """Higher queue priority first, then the smaller used part of the deserved share."""
        deserved = self.deserved(queue, cluster)
        return (-queue.queue.priority, dominant_share(queue.allocated, deserved))

    def overused(self, queue: QueueInfo, cluster: ClusterInfo) -> bool:
        """Whether the queue has at least its deserved share in every dimension, as in Volcano."""
        deserved, allocated = self.deserved(queue, cluster), queue.allocated
        return bool(deserved) and all(
            at_most(amount, allocated.get(slot, 0)) for slot, amount in deserved.items()
        )

    def allocatable(self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo) -> bool:
        """Whether the queue is open and stays within its share in the requested dimensions.

        As in Volcano the comparison is exact and leaves out ``pods``. Host ports, and resources
        that no node has, belong to no share: node checks decide whether they fit.
        """
        if not queue.queue.open:
            return False
        deserved, allocated = self.deserved(queue, cluster), queue.allocated
        for slot, amount in requests:
            if slot == PODS or slot not in cluster.total:
                continue
            if allocated.get(slot, 0) + amount > deserved.get(slot, 0):
                return False
        return True

    def room(self, queue: QueueInfo, cluster: ClusterInfo) -> dict[int, float] | None:
        """The most that :meth:`allocatable` accepts, plus one unit, as differences of fractions are
        not exact."""
        if not queue.queue.open:
            return None
        deserved, allocated = self.deserved(queue, cluster), queue.allocated
        return {
            slot: deserved.get(slot, 0) - allocated.get(slot, 0) + 1
            for slot in cluster.total
            if slot != PODS
        }

    def lacking(
        self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo
    ) -> QueueRefusal | None:
        """The dimension in which :meth:`allocatable` refuses; None if it does not."""
        if self.allocatable(queue, requests, cluster):
            return None
        if not queue.queue.open:
            return QueueRefusal(queue, why=CLOSED)
        over = beyond(queue.allocated, requests, self.deserved(queue, cluster), cluster)
        return QueueRefusal(queue, tuple(over))

    def simulate_allocatable(self, queue: QueueInfo, task: TaskInfo, world: World) -> bool:
        """:meth:`allocatable` in a dry run, where the victims are already off their queues."""
        return self.allocatable(queue, task.requests, world)

    def preemptive(self, queue: QueueInfo, tasks: Sequence[TaskInfo], world: World) -> bool:
        """Whether the queue would stay within its share with the tasks; it may reclaim only
        then."""
        return self.allocatable(queue, sum_of(tasks), world)

    def reclaimable(
        self, reclaimer: TaskInfo, candidates: Sequence[TaskInfo], world: World
    ) -> list[TaskInfo]:
        """Tasks of queues that have more than their share, until they have no more than that; a
        queue keeps its guarantee."""
        del reclaimer
        return self._above_share(candidates, world)

    def unified_evictable(
        self, job: SessionJob, candidates: Sequence[TaskInfo], purpose: Purpose, world: World
    ) -> list[TaskInfo] | None:
        """As :meth:`reclaimable`; None (no opinion) on preemption."""
        del job
        return self._above_share(candidates, world) if purpose is Purpose.RECLAIM else None

    def _above_share(self, candidates: Sequence[TaskInfo], world: World) -> list[TaskInfo]:
        remaining: dict[int, Amounts] = {}
        victims = []
        for task in candidates:
            queue = task.job.queue
            if queue is None:
                continue
            allocated = remaining.setdefault(queue.queue.qid, _offered(queue.allocated, world))
            spares_guarantee = keeps_guarantee(queue.queue, allocated, task.requests)
            if spares_guarantee and not less_equal(allocated, self.deserved(queue, world)):
                add(allocated, task.requests, -1)
                victims.append(task)
        return victims

    def job_enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> int:
        """Permit if the queue is open and minResources fit in addition to those of its other jobs.

        The deserved share is not checked: the job may wait in the queue.
        """
        queue, least = cluster.queues.get(info.qid), info.job.min_resources
        if queue is None or not queue.queue.open:
            return REJECT
        if least is None:
            return PERMIT
        self._refresh(cluster)
        real = real_capability(cluster.total, self._guaranteed, queue.queue)
        return REJECT if entry_exceeds(queue, dict(least), real) else PERMIT

    def deserved(self, queue: QueueInfo, cluster: ClusterInfo) -> dict[int, float]:
        """The queue's deserved amounts; empty for a queue without jobs."""
        self._refresh(cluster)
        return self._shares.get(queue.queue.qid, {})

    def _refresh(self, cluster: ClusterInfo) -> None:
        computed = self._computed_for
        if computed is None or computed[0] is not cluster or computed[1] != cluster.revision:
            self._computed_for = (cluster, cluster.revision)
            queues = cluster.queues.values()
            # Most changes move what queues hold, on which shares do not depend.
            inputs = (
                dict(cluster.total),
                [(info.queue, info.jobs > 0, dict(info.requested)) for info in queues],
            )
            if inputs != self._inputs:
                self._inputs = inputs
                self._shares = water_fill(cluster)
                self._guaranteed = guarantees(info.queue for info in queues)


def _offered(allocated: Amounts, cluster: ClusterInfo) -> Amounts:
    """The amounts without host ports and resources that no node has, which belong to no share."""
    return {slot: amount for slot, amount in allocated.items() if slot in cluster.total}


def keeps_guarantee(queue: Queue, allocated: Amounts, requests: Requests) -> bool:
    """Whether the queue would keep its guarantee without these requests."""
    amounts = dict(requests)
    return all(
        not amounts.get(slot) or allocated.get(slot, 0) - amounts[slot] >= least
        for slot, least in queue.guarantee
    )


@dataclass(frozen=True, slots=True)
class _Field:
    """The state of water filling, as matrices. Rows: queues with jobs. Columns: ``slots``."""

    slots: list[int]
    total: Matrix
    weight: Matrix
    request: Matrix
    limit: Matrix
    guarantee: Matrix


def water_fill(cluster: ClusterInfo) -> Shares:
    """Compute the deserved amounts of each queue with jobs, for every slot of the cluster.

    Results are fractions: they are compared with whole amounts, never handed out. A result within
    rounding error of a whole number is rounded to it, or the last task that it covers would not
    fit. Takes a few milliseconds for 1,000 queues.
    """
    queues = {qid: info for qid, info in cluster.queues.items() if info.jobs > 0}
    if not queues:
        return {}
    field = _field(cluster, list(queues.values()))
    deserved = _deal(field)
    whole = np.rint(deserved)
    deserved = np.where(np.abs(deserved - whole) < ROUNDING, whole, deserved)
    return {
        qid: dict(zip(field.slots, row, strict=True))
        for qid, row in zip(queues, deserved.tolist(), strict=True)
    }


def _field(cluster: ClusterInfo, queues: list[QueueInfo]) -> _Field:
    slots = sorted({CPU, MEMORY, *cluster.total})
    total = np.array([cluster.total.get(slot, 0) for slot in slots], dtype=np.float64)
    guarantees = np.zeros(len(slots))
    for info in cluster.queues.values():  # also those without jobs keep theirs
        if info.queue.guarantee:
            guarantees += _row(dict(info.queue.guarantee), slots)
    guarantee = np.array([_row(dict(info.queue.guarantee), slots) for info in queues])
    real = np.maximum(total - guarantees, 0) + guarantee
    capability = np.array([_capability(info.queue, slots) for info in queues])
    return _Field(
        slots=slots,
        total=total,
        weight=np.array([float(info.queue.weight) for info in queues]),
        request=np.array([_row(info.requested, slots) for info in queues]),
        limit=np.minimum(real, capability),
        guarantee=guarantee,
    )


def _row(amounts: Amounts, slots: list[int]) -> list[float]:
    return [float(amounts.get(slot, 0)) for slot in slots]


def _capability(queue: Queue, slots: list[int]) -> list[float]:
    """The most that a queue may have. Unlimited if absent, or 0 for cpu and memory."""
    limits = dict(queue.capability or ())
    row = [float(limits.get(slot, np.inf)) for slot in slots]
    return [
        np.inf if slot in (CPU, MEMORY) and amount <= 0 else amount
        for slot, amount in zip(slots, row, strict=True)
    ]


def _deal(field: _Field) -> Matrix:
    """Distribute the remaining amounts to unsatisfied queues by weight, until nothing changes.

    All queues of a round share what was left before it, so that their order does not matter.
    """
    deserved = np.zeros_like(field.request)
    open_rows = np.arange(len(deserved))
    remaining = field.total.copy()
    counted = np.array([slot != PODS for slot in field.slots])
    while weight := float(field.weight[open_rows].sum()):
        before = deserved[open_rows]
        offered = before + remaining * field.weight[open_rows, None] / weight
        request = field.request[open_rows]
        cut = np.minimum(np.minimum(offered, field.limit[open_rows]), request)
        satisfied = (request - cut < EPSILON).all(axis=1) | (cut == before).all(axis=1)
        deserved[open_rows] = after = np.maximum(cut, field.guarantee[open_rows])
        # guarantees may promise more than there is: then nothing is left to deal, not less
        rest = np.maximum(remaining - (after - before).sum(axis=0), 0)
        if (rest[counted] < EPSILON).all() or (rest == remaining).all():
            break
        remaining = rest
        open_rows = open_rows[~satisfied]
    return deserved
