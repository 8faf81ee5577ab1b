"""Counts of the coordinator's jobs for :mod:`coordinator.intake.pending_limit`."""

from __future__ import annotations

from coordinator.order.order import Order
from shard_worker.session_model.workload import QueueInfo
from shared.messages.messages import ENDED


class Backlog:
    """Jobs of queues that do not exist are counted together."""

    def __init__(self, order: Order) -> None:
        self._order = order

    def unfinished(self, queue: str) -> int:
        return self._info(queue).jobs

    def most_unfinished(self) -> int:
        accounts = self._order.accounts
        return max([accounts.nowhere.jobs, *(q.jobs for q in accounts.cluster.queues.values())])

    def tasks(self) -> int:
        states = self._order.accounts.tasks
        return states.total() - sum(states[end] for end in ENDED)

    def waiting(self, queue: str) -> int:
        accounts, info = self._order.accounts, self._info(queue)
        if info is accounts.nowhere:
            return info.jobs
        qid = info.queue.qid
        jobs = accounts.cluster.jobs.values()
        return sum(job.qid == qid and not job.held[0] for job in jobs)

    def _info(self, queue: str) -> QueueInfo:
        order = self._order
        info = order.accounts.cluster.queues.get(order.queue_ids.get(queue, -1))
        return order.accounts.nowhere if info is None else info
