"""Partition: which shard should own which nodes.

Balanced by capacity, hyper nodes and the lowest domains of KAI's topologies kept whole where they
fit into a shard, and stable: only new nodes
are assigned here (:mod:`coordinator.dispatch.rebalance` evens out what has grown apart).
Deterministic (ties broken by row), so that two coordinators agree.

Everything is a column over rows: a pass over the whole cluster takes milliseconds, because the
coordinator's event loop must not block.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.model.model import Requests

NOBODY = -1
"""Owner of a row without a shard."""

SPLIT_ABOVE = 1.1
"""A hyper node larger than this multiple of a shard's part of the cluster is split into its nodes:
kept whole it would upset the balance."""

PLACED_AT_ONCE = 50_000
"""New units that one pass assigns, so that many nodes arriving together do not block the
coordinator. The others follow in the next pass."""

Loads = NDArray[np.float64]
Shards = NDArray[np.int32]
"""Row -> shard, or NOBODY."""
Units = NDArray[np.intp]


class Offers:
    """Allocatable of the nodes, by row and slot. A row without a node has none."""

    def __init__(self) -> None:
        self._amounts = np.zeros((0, 0), dtype=np.float64)
        self.present = np.zeros(0, dtype=np.bool_)

    def put(self, row: int, allocatable: Requests) -> None:
        slots = 1 + max((slot for slot, _ in allocatable), default=-1)
        rows, width = self._amounts.shape
        if row >= rows or slots > width:
            # Doubled, so that nodes that arrive one by one are not copied each time.
            self._grow(rows if row < rows else max(row + 1, 2 * rows), max(slots, width))
        self._amounts[row] = 0
        for slot, amount in allocatable:
            self._amounts[row, slot] = amount
        self.present[row] = True

    def drop(self, row: int) -> None:
        self._amounts[row] = 0
        self.present[row] = False

    def _grow(self, rows: int, slots: int) -> None:
        old_rows, old_slots = self._amounts.shape
        amounts, present = np.zeros((rows, slots)), np.zeros(rows, dtype=np.bool_)
        amounts[:old_rows, :old_slots] = self._amounts
        present[:old_rows] = self.present
        self._amounts, self.present = amounts, present

    def loads(self) -> Loads:
        """The load of each node: the largest fraction it has of any resource of the cluster."""
        loads = np.zeros(len(self.present))
        for slot in range(self._amounts.shape[1]):
            column = self._amounts[:, slot]
            if total := float(column.sum()):
                np.maximum(loads, column / total, out=loads)
        return loads


@dataclass(slots=True)
class Cut:
    """An assignment of the cluster to shards. A unit is what moves together: a hyper node of the
    lowest tier, a rack of a topology, or a node. Its number is that of its first row."""

    unit: Units
    """Row -> unit, rows without a node included."""
    units: Units
    """All units, in order."""
    load: Loads
    """By unit; 0 for other numbers."""
    size: NDArray[np.intp]
    """Unit -> number of nodes."""
    owner: Shards
    """By unit."""
    totals: list[float]
    """Shard -> sum of its units' loads."""
    incomplete: bool = False
    """Whether some new units have no shard yet."""

    @property
    def part(self) -> float:
        """The load of each shard if all had the same."""
        return sum(self.totals) / len(self.totals)

    @property
    def gap(self) -> float:
        """Load of the fullest shard minus that of the emptiest, as a fraction of :meth:`part` (0 =
        balanced)."""
        part = self.part
        return (max(self.totals) - min(self.totals)) / part if part else 0.0

    def move(self, unit: int, shard: int) -> None:
        load = self.load.item(unit)
        self.totals[self.owner.item(unit)] -= load
        self.totals[shard] += load
        self.owner[unit] = shard

    def owners(self) -> Shards:
        """By row."""
        return self.owner[self.unit]


def cut(offers: Offers, domains: Iterable[list[int]], *, shards: int, previous: Shards) -> Cut:
    """Assign each unit to the shard that had most of it, if that has room; new ones to the least
    loaded shards.

    ``domains`` are rows that belong together, the hyper nodes of the lowest tier first; a row
    counts for the first that has it. ``previous`` is the present owner of each row, as long as
    ``offers`` has rows.
    """
    loads = offers.loads()
    unit = np.arange(len(loads))
    owner = np.where(offers.present, previous, NOBODY).astype(np.int32)
    part = float(loads.sum()) / shards
    shard_loads = _held(owner, loads, shards)
    assigned = np.zeros(len(loads), dtype=np.bool_)
    for members in domains:
        rows = np.array([row for row in members if not assigned.item(row)], dtype=np.intp)
        if len(rows) and float(loads[rows].sum()) <= part * SPLIT_ABOVE:
            assigned[rows] = True
            first = int(rows.min())
            unit[rows] = first
            owner[first] = _pulled_together(owner[rows], loads[rows], shard_loads, part)
    units = np.flatnonzero(offers.present & (unit == np.arange(len(unit))))
    size = np.bincount(unit[offers.present], minlength=len(unit))
    load: Loads = np.zeros(len(unit))
    np.add.at(load, unit, loads)
    totals = _held(owner[units], load[units], shards).tolist()
    result = Cut(unit, units, load, size, owner, totals)
    result.incomplete = _place_new(result, units[owner[units] == NOBODY])
    return result


def _held(owner: Shards, loads: Loads, shards: int) -> Loads:
    """Shard -> sum of these loads."""
    owned = owner != NOBODY
    shard_loads: Loads = np.zeros(shards)
    shard_loads += np.bincount(owner[owned], weights=loads[owned], minlength=shards)
    return shard_loads


def _pulled_together(owner: Shards, loads: Loads, shard_loads: Loads, part: float) -> int:
    """The shard for these rows: the one that has most of them (ties: the lowest), or where they
    would overfill it, the one that they fill least. NOBODY where no shard had any.

    Adds the rows to ``shard_loads`` (shard -> load).
    """
    before = set(owner.tolist()) - {NOBODY}
    if len(before) <= 1:
        return before.pop() if before else NOBODY
    had = _held(owner, loads, len(shard_loads))
    after = shard_loads + float(loads.sum()) - had
    shard = int(np.bincount(owner[owner != NOBODY]).argmax())
    # Domains that come and go must not empty a shard (decision 0021).
    if after[shard] > part * SPLIT_ABOVE:
        shard = int(after.argmin())
    gained = after[shard]
    shard_loads -= had
    shard_loads[shard] = gained
    return shard


def _place_new(partial_cut: Cut, new: Units) -> bool:
    """Assign new units, largest first, to the least loaded shard. Returns whether some remain."""
    # Largest first: the small ones then level what the large ones left uneven.
    order = new[np.lexsort((new, -partial_cut.load[new]))][:PLACED_AT_ONCE]
    heap = [(load, shard) for shard, load in enumerate(partial_cut.totals)]
    heapq.heapify(heap)
    placed: list[int] = []
    for load in partial_cut.load[order].tolist():
        total, shard = heap[0]
        placed.append(shard)
        heapq.heapreplace(heap, (total + load, shard))
    partial_cut.owner[order] = placed
    for total, shard in heap:
        partial_cut.totals[shard] = total
    return len(order) < len(new)
