"""Upper bounds of what one node, and one shard, can ever give: no waiting lifts them.

Nodes change seldom and are many, so the bounds are computed once per set of nodes and cached.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from coordinator.core.coordinator import Coordinator
from shard_worker.session_model.workload import Amounts, add

_Stamp = tuple[int, int, tuple[tuple[int, int], ...]]


@dataclass(slots=True)
class Ceiling:
    node: Amounts = field(default_factory=dict)
    """Per slot the largest allocatable of any node."""
    shards: dict[int, Amounts] = field(default_factory=dict)
    """Shard -> sum of its nodes' allocatable."""

    def some_shard(self, needed: Amounts) -> bool:
        """Whether the nodes of one shard, all idle, have these amounts together."""
        counted = {slot: amount for slot, amount in needed.items() if slot in self.node}
        return not self.shards or any(
            all(total.get(slot, 0) >= amount for slot, amount in counted.items())
            for total in self.shards.values()
        )


_kept: WeakKeyDictionary[Coordinator, tuple[_Stamp, Ceiling]] = WeakKeyDictionary()


def ceiling_of(core: Coordinator) -> Ceiling:
    """The upper bounds; walks through all nodes where they, or the partition, changed since the
    last call."""
    # A stamp in place of a walk over all nodes for each question: the revision of the partition,
    # how many nodes there are, and their total.
    stamp = (core.revision, len(core.nodes), tuple(core.order.accounts.cluster.total.items()))
    cached = _kept.get(core)
    if cached is None or cached[0] != stamp:
        cached = _kept[core] = (stamp, _measure(core))
    return cached[1]


def _measure(core: Coordinator) -> Ceiling:
    ceiling = Ceiling()
    shard_of = core.dispatcher.shard_of
    for row, node in core.nodes.items():
        for slot, amount in node.allocatable:
            if amount > ceiling.node.get(slot, 0):
                ceiling.node[slot] = amount
        shard = shard_of.get(row)
        if shard is not None:
            add(ceiling.shards.setdefault(shard, {}), node.allocatable, 1)
    return ceiling
