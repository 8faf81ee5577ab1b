"""Amounts that KAI's queues count of a task beside its requests: all GPUs as one resource, and
separate sums for tasks that may not be evicted. So the ledger judges both at every level of the
tree.

GPUs of claims, and of requests by memory, are no amounts of a class: the coordinator counts the
first by claim and the second by node. Only their slots are named here.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.dialects.kai.model import amounts_of
from shard_worker.kube_scheduler.devices.claims import concerned as claims_devices
from shared.model.model import TaskClass
from shared.model.storage import Amounts
from shared.units.queue_slots import GPU_SHARE, NON_PREEMPTIBLE


def kai_charges(cls: TaskClass, names: Sequence[str], *, protected: bool) -> Amounts:
    """The charges of a task by name. ``names``: of slots. ``protected``: the task may not be
    evicted, and counts against the quotas of its queues."""
    amounts, share = amounts_of(cls.requests, names), cls.gpu_share
    by_memory = share is not None and share.memory > 0
    if share is not None:
        amounts = amounts._replace(gpu=amounts.gpu + share.devices * share.part)
    charges = [(GPU_SHARE, amounts.gpu)]
    if protected:
        charges += zip(NON_PREEMPTIBLE, amounts, strict=True)
    counted = [(name, amount) for name, amount in charges if amount > 0]
    if (by_memory or claims_devices(cls)) and not amounts.gpu:
        counted.append((GPU_SHARE, 0))
    if by_memory and protected:
        counted.append((NON_PREEMPTIBLE[-1], 0))
    return tuple(counted)
