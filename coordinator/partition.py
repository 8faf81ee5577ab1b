"""Partition: which shard owns which nodes.

Balanced by capacity, whole hyper nodes where they fit into a shard, and as few moves as balance
allows: a node stays where it was unless its shard has too much. The same input gives the same
shards (no randomness, ties by name), so two coordinators agree.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.model import HyperNode, Node

SLACK = 0.1
"""Shards may differ from the mean load by this part of it before nodes move: below it a move
costs more (caches, running turns) than the imbalance does."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Nodes that move together: a hyper node of the lowest tier, or a single node."""

    name: str
    rows: tuple[int, ...]
    load: float


def partition(
    nodes: Iterable[Node],
    hyper_nodes: Iterable[HyperNode],
    *,
    shards: int,
    previous: Mapping[int, int],
) -> dict[int, list[int]]:
    """Rows of each shard. ``previous`` is row -> shard, empty at first.

    A hyper node that is larger than a shard's part of the cluster is split into its nodes.
    """
    nodes = list(nodes)
    loads = _loads(nodes)
    part = sum(loads.values()) / shards
    units = _units(nodes, hyper_nodes, loads, part)
    owner = {unit.name: _previous_owner(unit, previous, shards) for unit in units}
    totals = [0.0] * shards
    for unit in units:
        if (shard := owner[unit.name]) is not None:
            totals[shard] += unit.load
    _place_new(units, owner, totals)
    _even_out(units, owner, totals, part)
    result: dict[int, list[int]] = {shard: [] for shard in range(shards)}
    for unit in units:
        shard = owner[unit.name]
        assert shard is not None
        result[shard].extend(unit.rows)
    return {shard: sorted(rows) for shard, rows in result.items()}


def _loads(nodes: list[Node]) -> dict[int, float]:
    """A node's load is the largest part it has of any resource of the cluster."""
    total: dict[int, int] = defaultdict(int)
    for node in nodes:
        for slot, amount in node.allocatable:
            total[slot] += amount
    return {
        node.row: max(
            (amount / total[slot] for slot, amount in node.allocatable if amount), default=0.0
        )
        for node in nodes
    }


def _units(
    nodes: list[Node], hyper_nodes: Iterable[HyperNode], loads: dict[int, float], part: float
) -> list[Unit]:
    by_name = {node.name: node for node in nodes}
    taken: set[str] = set()
    units = []
    for hyper in sorted(hyper_nodes, key=lambda h: (h.tier, h.name)):
        members = [by_name[n] for n in hyper.nodes if n in by_name and n not in taken]
        load = sum(loads[node.row] for node in members)
        if members and load <= part * (1 + SLACK):
            taken.update(node.name for node in members)
            rows = tuple(sorted(node.row for node in members))
            units.append(Unit(f"hypernode/{hyper.name}", rows, load))
    units += [
        Unit(f"node/{node.name}", (node.row,), loads[node.row])
        for node in nodes
        if node.name not in taken
    ]
    return sorted(units, key=lambda unit: (-unit.load, unit.name))


def _previous_owner(unit: Unit, previous: Mapping[int, int], shards: int) -> int | None:
    """The shard that had most of the unit, the lowest of equals; None for a new one."""
    votes: dict[int, int] = defaultdict(int)
    for row in unit.rows:
        shard = previous.get(row)
        if shard is not None and shard < shards:
            votes[shard] += 1
    return min(votes, key=lambda shard: (-votes[shard], shard), default=None)


def _place_new(units: list[Unit], owner: dict[str, int | None], totals: list[float]) -> None:
    """New units, largest first, to the least loaded shard."""
    heap = [(load, shard) for shard, load in enumerate(totals)]
    heapq.heapify(heap)
    for unit in units:
        if owner[unit.name] is None:
            load, shard = heapq.heappop(heap)
            owner[unit.name] = shard
            totals[shard] = load + unit.load
            heapq.heappush(heap, (totals[shard], shard))


def _even_out(
    units: list[Unit], owner: dict[str, int | None], totals: list[float], part: float
) -> None:
    """Move units from the fullest to the emptiest shard while that brings the two closer."""
    held: dict[int, list[Unit]] = {shard: [] for shard in range(len(totals))}
    for unit in reversed(units):  # smallest last: taken first by pop()
        shard = owner[unit.name]
        assert shard is not None
        held[shard].append(unit)
    while True:
        order = range(len(totals))
        full = max(order, key=lambda shard: (totals[shard], -shard))
        empty = min(order, key=lambda shard: (totals[shard], shard))
        gap = totals[full] - totals[empty]
        if gap <= 2 * SLACK * part:
            return
        # A unit as large as the gap would only swap the two; the margin keeps rounding out of it.
        movable = [unit for unit in held[full] if unit.load < gap * 0.999]
        if not movable:
            return
        unit = min(movable, key=lambda u: (abs(gap / 2 - u.load), u.name))
        held[full].remove(unit)
        held[empty].append(unit)
        owner[unit.name] = empty
        totals[full] -= unit.load
        totals[empty] += unit.load
