"""Which kinds of nodes take which kinds of tasks: MIG strategies, and nodes for GPUs or for CPUs.

A strategy counts only where MIG is enabled: NVIDIA's discovery writes its label on every node with
GPUs. A label of the node's role says whether it is, else what instances the node has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import numpy as np

from shard_worker.dialects.kai.claimed_gpus import gpus_of_nodes
from shard_worker.dialects.kai.devices import request_by
from shard_worker.dialects.kai.mig import is_mig
from shard_worker.dialects.kai.model import amounts_of
from shard_worker.dialects.kai.rules.amounts import NOTHING, Amounts
from shard_worker.framework.rules import Check, Mask, NodeColumns
from shard_worker.session_model.world import World
from shared.model.gpu_request import GpuRequest
from shared.model.model import Pairs, TaskClass
from shared.policy.kai_model import KaiOptions

STRATEGY = "nvidia.com/mig.strategy"
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})

NO_MIG = "node(s) without MIG take no MIG instances"
NOT_MIG = "node(s) with MIG strategy mixed take only MIG instances"
NOT_WHOLE = "node(s) with MIG strategy single take only whole GPUs"
NO_GPU_WORKER = "node(s) without the label of GPU workers take no GPUs"
NO_CPU_WORKER = "node(s) without the label of CPU workers take only GPUs"


class GpuKind(Enum):
    """The kind of a task's request for GPUs."""

    NONE = "none"
    WHOLE = "whole devices"
    SHARE = "parts of devices"
    INSTANCE = "MIG instances"


def kind_of(cls: TaskClass, annotations: Pairs, names: Sequence[str]) -> GpuKind:
    """The kind of request of a task of the class with these annotations. ``names``: of slots."""
    if any(slot < len(names) and is_mig(names[slot]) for slot, _ in cls.requests):
        return GpuKind.INSTANCE
    return _kind(request_by(cls, annotations, names))


def _kind(request: GpuRequest | None) -> GpuKind:
    if request is None:
        return GpuKind.NONE
    return GpuKind.WHOLE if request.is_whole else GpuKind.SHARE


class NodeKinds:
    """The rules of a policy; the same for a session and for a service's columns."""

    def __init__(self, options: KaiOptions) -> None:
        self._mig = options.mig_worker_node_label_key
        self._gpu_worker = options.gpu_worker_node_label_key
        self._cpu_worker = options.cpu_worker_node_label_key
        self._restricts = options.restrict_node_scheduling

    def of_class(self, cls: TaskClass, view: NodeColumns) -> list[tuple[str, Mask]]:
        """The checks of a class whose tasks ask for GPUs by no annotation of their own."""
        kind = kind_of(cls, (), view.slot_names)
        return [(check.reason, check.mask) for check in self.checks(kind, view)]

    def checks(self, kind: GpuKind, view: NodeColumns) -> list[Check]:
        """Rows that take a task of this kind."""
        return [*self._by_strategy(kind, view), *self._by_worker(kind, view)]

    def has_mig(self, view: NodeColumns) -> Mask:
        """Rows on which MIG is enabled."""
        column = view.label(self._mig)
        codes = column.codes[: view.size]
        said = np.array([*(value in _TRUE for value in column.values), False])[codes]
        instances = np.zeros(view.size, np.bool_)
        for slot, name in enumerate(view.slot_names):
            if is_mig(name):
                instances |= view.column("allocatable", slot) > 0
        enabled: Mask = np.where(codes >= 0, said, instances)
        return enabled

    def _by_strategy(self, kind: GpuKind, view: NodeColumns) -> list[Check]:
        if kind is GpuKind.NONE:
            return []
        enabled, strategy = self.has_mig(view), view.label(STRATEGY)
        codes = strategy.codes[: view.size]
        single = enabled & (codes == strategy.code("single"))
        mixed = enabled & (codes == strategy.code("mixed"))
        match kind:
            case GpuKind.INSTANCE:
                return [
                    Check(NO_MIG, enabled, curable=False),
                    Check(NOT_WHOLE, ~single, curable=False),
                ]
            case GpuKind.SHARE:
                return [
                    Check(NOT_WHOLE, ~single, curable=False),
                    Check(NOT_MIG, ~mixed, curable=False),
                ]
            case GpuKind.WHOLE:
                return [Check(NOT_MIG, ~mixed, curable=False)]

    def _by_worker(self, kind: GpuKind, view: NodeColumns) -> list[Check]:
        if not self._restricts:
            return []
        wants_gpus = kind is not GpuKind.NONE
        label = self._gpu_worker if wants_gpus else self._cpu_worker
        reason = NO_GPU_WORKER if wants_gpus else NO_CPU_WORKER
        return [Check(reason, view.label(label).codes[: view.size] >= 0, curable=False)]


def divisible(offered: Amounts, labels: Mapping[str, str], options: KaiOptions) -> Amounts:
    """The amounts that a node adds to the total that queues divide. With
    ``restrict-node-scheduling`` KAI does not know nodes without a worker's label, and counts GPUs
    on workers for GPUs alone."""
    if not options.restrict_node_scheduling or options.gpu_worker_node_label_key in labels:
        return offered
    if options.cpu_worker_node_label_key not in labels:
        return NOTHING
    return offered._replace(gpu=0)


def _exists(world: World, name: str) -> bool:
    return world.row_of(name) >= 0


def total_of(world: World, options: KaiOptions) -> Amounts:
    """The total to divide among queues in a session over everything."""
    names = world.view.slot_names
    whole = amounts_of(tuple(world.total.items()), names)
    claimable = gpus_of_nodes(world.objects.slices.values())
    whole = whole.plus(Amounts(gpu=sum(n for name, n in claimable.items() if _exists(world, name))))
    if not options.restrict_node_scheduling:
        return whole
    for node in filter(None, world.view.nodes):
        offered = amounts_of(node.allocatable, names)
        offered = offered.plus(Amounts(gpu=claimable.get(node.name, 0)))
        whole = whole.minus(offered).plus(divisible(offered, node.labels, options))
    return whole
