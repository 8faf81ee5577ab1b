"""Total amounts that a service divides among KAI's queues."""

from __future__ import annotations

from collections.abc import Mapping

from shard_worker.dialects.kai.claimed_gpus import gpus_of_nodes
from shard_worker.dialects.kai.model import amounts_of
from shard_worker.dialects.kai.node_kinds import divisible
from shard_worker.dialects.kai.rules.amounts import NOTHING, Amounts
from shard_worker.session_model.workload import ClusterInfo
from shared.model.model import Node
from shared.policy.kai_model import KaiOptions

NOT_READY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that Kubernetes gives a node that is not ready."""

ForeignUse = Mapping[int | str, object]
"""Slot or named thing -> what pods of other schedulers use of it."""


class DivisibleTotal:
    """The sum over ready nodes, less what pods of other schedulers use there.

    Kept by node: when one changes only that one is counted anew.
    """

    def __init__(self, options: KaiOptions) -> None:
        self._options = options
        self._nodes: dict[int, tuple[Node, ForeignUse | None, Amounts]] = {}
        self._total = NOTHING
        self._revision = -1
        self._claimable: dict[str, int] = {}
        """Node -> GPUs that drivers offer there."""
        self._devices = -1
        """The version of these."""

    def of(self, cluster: ClusterInfo) -> Amounts:
        if cluster.objects.devices != self._devices:
            self._devices = cluster.objects.devices
            self._claimable = gpus_of_nodes(cluster.objects.slices.values())
            self._nodes, self._total, self._revision = {}, NOTHING, -1
        if cluster.nodes_revision != self._revision:
            self._revision = cluster.nodes_revision
            self._read(cluster)
        return self._total

    def _read(self, cluster: ClusterInfo) -> None:
        for row in self._nodes.keys() - cluster.nodes.keys():
            self._total = self._total.minus(self._nodes.pop(row)[2])
        for row, node in cluster.nodes.items():
            foreign = cluster.foreign.get(row)
            before = self._nodes.get(row)
            if before is not None and before[0] is node and before[1] is foreign:
                continue
            offered = self._of_node(node, foreign, cluster)
            self._total = self._total.plus(offered).minus(NOTHING if before is None else before[2])
            self._nodes[row] = node, foreign, offered

    def _of_node(self, node: Node, foreign: ForeignUse | None, cluster: ClusterInfo) -> Amounts:
        if any(taint.key in NOT_READY for taint in node.taints):
            return NOTHING
        offered = amounts_of(node.allocatable, cluster.names)
        offered = offered.plus(Amounts(gpu=self._claimable.get(node.name, 0)))
        if foreign:
            slots = ((at, n) for at, n in foreign.items() if type(at) is int and type(n) is int)
            offered = offered.minus(amounts_of(tuple(slots), cluster.names))
        return divisible(offered, node.labels, self._options)
