"""The partition of the cluster: its nodes, the shard that owns each now, and the one that will.

Joins three decisions: where a node belongs (:mod:`coordinator.dispatch.partition`), which nodes
should move (:mod:`coordinator.dispatch.rebalance`), and how they do
(:mod:`coordinator.dispatch.handover`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from coordinator.dispatch.dispatcher import Dispatcher, SendTurns
from coordinator.dispatch.handover import Handover
from coordinator.dispatch.instructions import Repartition
from coordinator.dispatch.partition import NOBODY, Offers, cut
from coordinator.dispatch.rebalance import Rebalancer
from coordinator.jobs.accounts import Accounts
from shared.ledger.entries.intake_batch import PutPartition
from shared.model.kai import KaiTopology
from shared.model.model import Node
from shared.model.node_pool import NodePool
from shared.model.topology import HyperNode

MOVES_PER_MINUTE = 1000
"""Default cap on nodes that move for balance."""


class ClusterPartition:
    def __init__(
        self,
        dispatcher: Dispatcher,
        accounts: Accounts,
        *,
        mode: str,
        moves_per_minute: int,
        pool: NodePool | None,
        on_moved: Callable[[list[tuple[int, int]]], None],
    ) -> None:
        """``pool``: the nodes that exist for this scheduler; None: all. ``on_moved`` is called
        with (giver, taker) of each node that has changed its shard."""
        self.nodes: dict[int, Node] = {}
        self.outside: dict[int, Node] = {}
        """Nodes of the ledger in no shard and no total: they are in another node pool."""
        self._pool = pool
        self.names: dict[int, str] = {}
        """Row -> name of every node ever known: a bind to a deleted node may be under way."""
        self.rows: dict[str, int] = {}
        """Name -> row, of deleted nodes too: their last tasks still report, and a node that comes
        back gets its row again."""
        self.hyper_nodes: dict[str, HyperNode] = {}
        self._topologies: dict[str, KaiTopology] = {}
        self.handover = Handover(len(dispatcher.shards), mode=mode)
        self.rebalancer = Rebalancer(moves_per_minute)
        self._offers = Offers()
        self._dispatcher = dispatcher
        self._accounts = accounts
        self._moved = on_moved
        self._changed = False
        """Whether nodes or domains changed since the last partition."""
        self._anew = False
        """Whether the number of shards differs from that of the restored partition."""

    # --- nodes --------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """Add or change a node. What runs on one that leaves the node pool goes on, as on a
        deleted one, and counts for its job and queue."""
        if self._pool is not None and not self._pool.has(node.labels):
            self.drop_node(node.row)
            self.outside[node.row] = node
            self.name(node)
            return
        self.outside.pop(node.row, None)
        before = self.nodes.get(node.row)
        if before is not None:
            self._dispatcher.offer(node.row, before.allocatable, -1)
        if before is None or (self._topologies and before.labels != node.labels):
            self._changed = True
        self.nodes[node.row] = node
        self.name(node)
        self._offers.put(node.row, node.allocatable)
        self._dispatcher.offer(node.row, node.allocatable, +1)
        self._accounts.put_node(node)

    def name(self, node: Node) -> None:
        """Note name and row of a node, also of a deleted one."""
        self.names[node.row] = node.name
        self.rows[node.name] = node.row

    def drop_node(self, row: int) -> None:
        self.outside.pop(row, None)
        node = self.nodes.pop(row, None)
        if node is None:
            return
        self._changed = True
        self._offers.drop(row)
        self._dispatcher.offer(row, node.allocatable, -1)
        self._accounts.drop_node(row)

    def put_hyper_nodes(self, hyper_nodes: Iterable[HyperNode], *, gone: Iterable[str]) -> None:
        for hyper in hyper_nodes:
            self.hyper_nodes[hyper.name] = hyper
            self._changed = True
        for name in gone:
            self._changed |= self.hyper_nodes.pop(name, None) is not None

    def put_topology(self, topology: KaiTopology) -> None:
        self._topologies[topology.name] = topology
        self._changed = True

    def drop_topology(self, name: str) -> None:
        self._changed |= self._topologies.pop(name, None) is not None

    @property
    def known(self) -> dict[int, Node]:
        """All nodes that the ledger has, those of other node pools included."""
        return self.nodes | self.outside

    @property
    def tiers(self) -> frozenset[str]:
        """The names that tiers of hyper nodes have."""
        return frozenset(h.tier_name for h in self.hyper_nodes.values() if h.tier_name)

    def _busy(self) -> NDArray[np.bool_]:
        """Row -> whether tasks run or are placed there."""
        busy, dispatcher = np.zeros(len(self._offers.present), dtype=np.bool_), self._dispatcher
        for row, node in self.nodes.items():
            busy[row] = dispatcher.busy(row, node.allocatable)
        return busy

    def _domains(self) -> list[list[int]]:
        """The rows of every hyper node, lowest tier first, and of the lowest domains of KAI's
        topologies."""
        nodes, rows = self.nodes, self.rows
        ordered = sorted(self.hyper_nodes.values(), key=lambda hyper: (hyper.tier, hyper.name))
        rows_of = ([rows[name] for name in hyper.nodes if name in rows] for hyper in ordered)
        domains = [[row for row in members if row in nodes] for members in rows_of]
        for _, topology in sorted(self._topologies.items()):
            labels = [level.label for level in topology.levels]
            lowest: dict[tuple[str, ...], list[int]] = {}
            for row, node in nodes.items():
                if all(label in node.labels for label in labels):
                    path = tuple(node.labels[label] for label in labels)
                    lowest.setdefault(path, []).append(row)
            domains += lowest.values()
        return domains

    # --- the partition ------------------------------------------------------------------------

    def restore(self, partition: PutPartition, *, at: str) -> None:
        """Restore the ledger's partition as of this log entry, so that a restart moves nothing, and
        moves under way go on."""
        self.handover.restore(partition, at=at)
        self._anew = partition.shards.keys() != self._dispatcher.shards.keys()
        self._changed = True
        desired = self.handover.desired(0)
        owned_rows = np.flatnonzero(desired != NOBODY)
        owners = dict(zip(owned_rows.tolist(), desired[owned_rows].tolist(), strict=True))
        # Who followed the ledger may know an earlier partition, with rows that this one leaves out.
        self._dispatcher.assign(dict.fromkeys(self._dispatcher.shard_of, NOBODY) | owners)
        self._dispatcher.under_way(self.handover.moving.values())

    def repartition(self, now: float) -> Repartition | None:
        """The first phase: the partition to store after nodes arrived, or when a shard has too much
        capacity. None where nothing changes, or the previous partition is not stored yet."""
        handover = self.handover
        more = self.rebalancer.due(now) and not handover.moving
        if handover.storing or not (self._changed or more):
            return None
        present = self._offers.present
        previous = handover.desired(len(present))[: len(present)]
        if handover.moving and not (present & (previous == NOBODY)).any():
            return None  # only new nodes do not wait for those under way
        new_cut = cut(
            self._offers,
            self._domains(),
            shards=len(self._dispatcher.shards),
            previous=previous,
        )
        if not handover.moving:  # else it is looked at again when that is done
            if not new_cut.incomplete:
                self.rebalancer.even_out(new_cut, busy=self._busy, now=now, free=self._anew)
                self._anew &= self.rebalancer.active
            self._changed = new_cut.incomplete
        changed = handover.assign(new_cut.owners())
        if changed is None:
            return None
        self._dispatcher.assign(changed)
        self._dispatcher.under_way(handover.moving.values())
        return Repartition(handover.put())

    @property
    def at_rest(self) -> bool:
        """Whether no change is unprocessed and no node is moving."""
        handover = self.handover
        return not (self._changed or handover.moving or handover.storing)

    def stored(self, at: str) -> None:
        """Note that the partition is durable: everybody who reads the log up to ``at`` knows it."""
        self.handover.stored(at, last_call=self._dispatcher.last_call)

    def step(self) -> list[Repartition | SendTurns]:
        """The second phase, once possible; before that, calls to the givers it waits for."""
        handover = self.handover
        # While a partition is on its way to the ledger nobody can have read of it.
        waits = None if handover.storing else handover.waits_for(self._dispatcher.shards)
        if waits is None:
            return []
        if waits:
            # An idle giver has no call that would tell how far it has read: one without turns asks
            # for it.
            return [*self._dispatcher.nudge(waits)]
        self._moved(handover.finish())
        self._dispatcher.under_way(())
        return [Repartition(handover.put())]
