"""The cluster's capacity: idle, leaving and promised, summed over nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shard_worker.session_model.workload import Amounts


@dataclass(slots=True)
class ClusterCapacity:
    """The capacity of the cluster, summed over nodes."""

    offered: Amounts = field(default_factory=dict)
    """Sum of all nodes' allocatable. A slot that no node lists (a host port, which every node has
    by nature, or a resource that nobody has) cannot be summed; workers check it node by node."""
    idle: Amounts = field(default_factory=dict)
    """Allocatable less what tasks hold, of all nodes: an overfull node lowers it."""
    overfull: Mapping[int, int] = field(default_factory=dict)
    """Amount that tasks hold beyond their nodes' allocatable, by the Dispatcher, which knows the
    nodes: without it one overfull node hides what others have, and a gang waits for ever."""
    releasing: Amounts = field(default_factory=dict)
    promised: Amounts = field(default_factory=dict)
    """Nominations and open turns: amounts that may not be promised twice."""
    changes: int = 0
    """Counts events that may make an infeasible job feasible; blocked lines wake when it rises."""

    def freed(self) -> None:
        """Note that capacity, a node, a worker, a partition or a quota was added, or a promise
        ended."""
        self.changes += 1

    def covers(self, need: Amounts) -> bool:
        """Whether the idle and leaving amounts that are not promised suffice in total."""
        # For each look at a line: a generator takes twice as long.
        for slot, amount in need.items():
            if slot in self.offered and amount > self.could_give(slot):
                return False
        return True

    def could_give(self, slot: int) -> int:
        """Idle and leaving amounts less the promised ones. An upper bound: what leaves an overfull
        node may not become idle."""
        return self.idle_on_nodes(slot) + self.releasing.get(slot, 0) - self.promised.get(slot, 0)

    def idle_on_nodes(self, slot: int) -> int:
        """The sum of idle amounts over nodes, where an overfull node counts as having none."""
        return self.idle.get(slot, 0) + self.overfull.get(slot, 0)

    def room(self) -> dict[int, int]:
        """The largest need that :meth:`covers` accepts, by slot; a missing slot has no limit."""
        return {slot: self.could_give(slot) for slot in self.offered}
