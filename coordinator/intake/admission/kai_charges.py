"""Amounts that KAI's queues count of a task beside its requests: all GPUs as one resource, and
separate sums for tasks that may not be evicted. So the ledger judges both at every level of the
tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shard_worker.dialects.kai.model import amounts_of
from shard_worker.kube_scheduler.devices.claims import concerned as claims_devices
from shared.model.gpu_request import GpuRequest
from shared.model.kai_devices import LEAST_MEMORY, device_memory, has_gpus
from shared.model.model import Node, TaskClass
from shared.model.storage import Amounts
from shared.units.queue_slots import GPU_SHARE, NON_PREEMPTIBLE


def kai_charges(
    cls: TaskClass, names: Sequence[str], nodes: Iterable[Node], *, protected: bool
) -> Amounts:
    """The charges of a task by name. ``names``: of slots. ``nodes``: all. ``protected``: the task
    may not be evicted, and counts against the quotas of its queues."""
    amounts, share = amounts_of(cls.requests, names), cls.gpu_share
    if share is not None:
        part = share.charge_of(_least_memory(share, nodes) if share.memory else LEAST_MEMORY)
        amounts = amounts._replace(gpu=amounts.gpu + share.devices * part)
    charges = [(GPU_SHARE, amounts.gpu)]
    if protected:
        charges += zip(NON_PREEMPTIBLE, amounts, strict=True)
    counted = [(name, amount) for name, amount in charges if amount > 0]
    if claims_devices(cls) and not amounts.gpu:
        # GPUs of claims are counted by claim, and not by task: only the slot is named here.
        counted.append((GPU_SHARE, 0))
    return tuple(counted)


def _least_memory(share: GpuRequest, nodes: Iterable[Node]) -> int:
    """MiB of a device of the node with the smallest that takes the share: what a request by memory
    comes to there is the most that it comes to anywhere, and the class is charged before its tasks
    have nodes."""
    of_nodes = (device_memory(node.labels) for node in nodes if has_gpus(node))
    return min((memory for memory in of_nodes if memory >= share.memory), default=share.memory)
