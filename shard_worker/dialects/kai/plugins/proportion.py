"""proportion: fair shares, the order of queues, and what a queue may take."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from shard_worker.dialects.kai.devices import request_of
from shard_worker.dialects.kai.model import KaiJob, QueueState, amounts_of
from shard_worker.dialects.kai.plugins.reclaiming import Reclaiming
from shard_worker.dialects.kai.rules.amounts import NOTHING, Amounts
from shard_worker.dialects.kai.rules.capacity import OverCapacity, QueueRoom, over_capacity
from shard_worker.dialects.kai.rules.fair_share import QueueDemand, fair_shares
from shard_worker.dialects.kai.rules.queue_order import first
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.rules import Check, EventHandler, Scope
from shard_worker.view.node_reasons import OVER_QUEUE
from shared.model.kai_devices import MEMORY_LABEL, memory_of
from shared.policy.model import PluginOption

if TYPE_CHECKING:
    from shard_worker.session_model.job import TaskInfo
    from shard_worker.session_model.world import World


class KaiProportion:
    name = "proportion"

    def __init__(self, option: PluginOption) -> None:
        self._k = max(Fraction(str(option.number("kValue", 1.0))), Fraction(0))
        self._multiplier = Fraction(option.text("relcaimerSaturationMultiplier") or "1")
        self._ssn: KaiSession | None = None
        self._charged: dict[int, Amounts] = {}
        """id of a task -> what was charged for it over the present world: an undone one has no node
        any more, on which its share of a device depends."""

    def on_session_open(self, ssn: KaiSession) -> None:
        self._ssn = ssn
        ssn.entering += (lambda _: self._charged.clear(), self._divide)
        ssn.add_kai_queue_order_fn(first)
        ssn.add_job_over_capacity_fn(refused)
        ssn.add_live_predicate_fn(self._checks, scope=Scope.DOMAIN)
        Reclaiming(ssn, self._multiplier)
        ssn.add_event_handler(EventHandler(self._charge, self._discharge))

    def _divide(self, world: World) -> None:
        ssn = self._session
        if not ssn.divides:
            return
        used = world.objects.queue_usage if ssn.kai.usage is not None else {}
        demands = [
            demand_of(queue, usage=Amounts(*used.get(name, NOTHING)))
            for name, queue in ssn.queues.items()
        ]
        shares = fair_shares(ssn.cluster, demands, k=self._k)
        for queue in ssn.queues.values():
            queue.fair_share = shares[queue.uid]

    def _checks(self, task: TaskInfo, world: World) -> Sequence[Check]:
        """Rows where the task's queues have room for its shares of devices: their exact MiB are
        another part of a device on each kind of node."""
        names = world.view.slot_names
        request, job = request_of(task, names), self._session.kai_job(task.job)
        if request is None or request.is_whole or job is None:
            return ()
        asks, column = amounts_of(task.requests, names), world.view.label(MEMORY_LABEL)
        at_most = [
            request.devices * request.judged_at(memory_of(value)) for value in (*column.values, "")
        ]
        within = [refused(job, asks._replace(gpu=gpu)) is None for gpu in at_most]
        return [Check(OVER_QUEUE, np.array(within)[column.codes[: world.size]])]

    def _charge(self, task: TaskInfo) -> None:
        job = self._session.kai_job(task.job)
        if job is not None:
            amounts = self._charged[id(task)] = self._session.asked_of_nodes([task])
            claimed = Amounts(gpu=self._session.claimed.hold(job.queue.uid, task))
            job.queue.charge(amounts.plus(claimed), preemptible=job.preemptible)

    def _discharge(self, task: TaskInfo) -> None:
        job = self._session.kai_job(task.job)
        if job is not None:
            amounts = self._charged.pop(id(task), None) or self._session.asked_of_nodes([task])
            claimed = Amounts(gpu=self._session.claimed.leave(job.queue.uid, task))
            job.queue.discharge(amounts.plus(claimed), preemptible=job.preemptible)

    @property
    def _session(self) -> KaiSession:
        if self._ssn is None:
            raise RuntimeError("proportion has no session yet")
        return self._ssn


def demand_of(queue: QueueState, *, usage: Amounts) -> QueueDemand:
    """Input of one queue for the division. ``usage``: over time, in billionths of the cluster."""
    return QueueDemand(
        uid=queue.uid,
        parent=queue.chain[1].uid if len(queue.chain) > 1 else None,
        created=queue.record.created,
        priority=queue.record.priority,
        quota=queue.quota,
        limit=queue.limit,
        weight=queue.weight,
        requested=queue.requested,
        usage=usage,
    )


def refused(job: KaiJob, asks: Amounts) -> OverCapacity | None:
    """The first refusal along the job's queues."""
    chain = [
        QueueRoom(
            uid=queue.record.name,
            quota=queue.quota,
            limit=queue.limit,
            allocated=queue.allocated,
            non_preemptible=queue.non_preemptible,
        )
        for queue in job.queue.chain
    ]
    return over_capacity(chain, asks, preemptible=job.preemptible)
