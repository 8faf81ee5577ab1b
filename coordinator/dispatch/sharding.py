"""Borders: the nodes of the cluster, and which shard has each of them now and shall have it.

It joins what is decided apart: where a node belongs (:mod:`coordinator.dispatch.partition`), what
should change hands (:mod:`coordinator.dispatch.rebalance`), and how it does
(:mod:`coordinator.dispatch.handover`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coordinator.dispatch.dispatcher import Dispatcher, SendTurns
from coordinator.dispatch.handover import Handover
from coordinator.dispatch.instructions import Repartition
from coordinator.dispatch.partition import NOBODY, Offers, cut
from coordinator.dispatch.rebalance import Rebalancer
from coordinator.jobs.accounts import Accounts
from shared.ledger.entries.intake_batch import PutPartition
from shared.model.model import Node
from shared.model.topology import HyperNode

MOVES_PER_MINUTE = 1000
"""Nodes that change hands for balance, where nobody says otherwise."""


class Borders:
    def __init__(
        self,
        dispatcher: Dispatcher,
        accounts: Accounts,
        *,
        mode: str,
        moves_per_minute: int,
        on_moved: Callable[[list[tuple[int, int]]], None],
    ) -> None:
        """``on_moved``: nodes have changed hands, one (giver, taker) each."""
        self.nodes: dict[int, Node] = {}
        self.names: dict[int, str] = {}
        """Of every node that was ever known: a bind may be under way to one that is gone."""
        self.rows: dict[str, int] = {}
        """Row of every name, of gone nodes too: their last tasks still report, and one that comes
        back has its row again."""
        self.hyper_nodes: dict[str, HyperNode] = {}
        self.handover = Handover(len(dispatcher.shards), mode=mode)
        self.rebalancer = Rebalancer(moves_per_minute)
        self._offers = Offers()
        self._dispatcher = dispatcher
        self._accounts = accounts
        self._moved = on_moved
        self._changed = False
        """Whether nodes or domains came or went since the partition was looked at."""
        self._anew = False
        """Whether there are other shards than the partition was made for."""

    # --- nodes --------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        before = self.nodes.get(node.row)
        if before is not None:
            self._dispatcher.offer(node.row, before.allocatable, -1)
        else:
            self._changed = True
        self.nodes[node.row] = node
        self.name(node)
        self._offers.put(node.row, node.allocatable)
        self._dispatcher.offer(node.row, node.allocatable, +1)
        self._accounts.put_node(node)

    def name(self, node: Node) -> None:
        """A node that there was once."""
        self.names[node.row] = node.name
        self.rows[node.name] = node.row

    def drop_node(self, row: int) -> None:
        node = self.nodes.pop(row, None)
        if node is None:
            return
        self._changed = True
        self._offers.drop(row)
        self._dispatcher.offer(row, node.allocatable, -1)
        self._accounts.drop_node(row)

    def put_hyper_node(self, hyper: HyperNode) -> None:
        self.hyper_nodes[hyper.name] = hyper
        self._changed = True

    def drop_hyper_node(self, name: str) -> None:
        self._changed |= self.hyper_nodes.pop(name, None) is not None

    def _busy(self) -> NDArray[np.bool_]:
        """By row, whether something runs there or is placed."""
        busy, dispatcher = np.zeros(len(self._offers.present), dtype=np.bool_), self._dispatcher
        for row, node in self.nodes.items():
            busy[row] = dispatcher.busy(row, node.allocatable)
        return busy

    def _domains(self) -> list[list[int]]:
        """The rows of every hyper node, lowest tier first."""
        nodes, rows = self.nodes, self.rows
        ordered = sorted(self.hyper_nodes.values(), key=lambda hyper: (hyper.tier, hyper.name))
        rows_of = ([rows[name] for name in hyper.nodes if name in rows] for hyper in ordered)
        return [[row for row in members if row in nodes] for members in rows_of]

    # --- the partition ------------------------------------------------------------------------

    def restore(self, partition: PutPartition, *, at: str) -> None:
        """The partition that the ledger knows as of this log entry: kept, so that a restart moves
        nothing, and what was moving goes on to."""
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
        """The first phase: what to store where nodes came, or a shard has too much. None where all
        stays as it is, or the partition given out before is not stored yet."""
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
        """Whether all was looked at, and nothing is on its way."""
        handover = self.handover
        return not (self._changed or handover.moving or handover.storing)

    def stored(self, at: str) -> None:
        """Everybody who reads the log up to ``at`` knows the partition that was given out."""
        self.handover.stored(at, last_call=self._dispatcher.last_call)

    def step(self) -> list[Repartition | SendTurns]:
        """The second phase as soon as it may be; until then, calls to those it waits for."""
        handover = self.handover
        waits = None if handover.storing else handover.waits_for(self._dispatcher.shards)
        if waits is None:
            return []
        if waits:
            return [*self._dispatcher.nudge(waits)]
        self._moved(handover.finish())
        self._dispatcher.under_way(())
        return [Repartition(handover.put())]
