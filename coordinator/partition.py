"""Partition: which shard should own which nodes.

Balanced by capacity, whole hyper nodes where they fit into a shard, and a node stays where it was:
only new ones are placed here (:mod:`coordinator.rebalance` evens out what has grown apart). The
same input gives the same shards (no randomness, ties by name), so two coordinators agree.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.model import HyperNode, Node, Requests

SPLIT_ABOVE = 1.1
"""A hyper node with more than so many shards' parts of the cluster is split into its nodes: it
cannot be whole in one shard without upsetting the balance."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Nodes that move together: a hyper node of the lowest tier, or a single node."""

    name: str
    rows: tuple[int, ...]
    load: float


@dataclass(slots=True)
class Cut:
    """A cluster in shards. ``owner``: the shard of each unit, in the order of ``units``."""

    units: list[Unit]
    owner: list[int]
    totals: list[float]
    """What each shard has: the sum of its units' loads."""

    @property
    def part(self) -> float:
        """What each shard would have if all had the same."""
        return sum(self.totals) / len(self.totals)

    @property
    def gap(self) -> float:
        """What the fullest shard has more than the emptiest, in parts (0 = balanced)."""
        part = self.part
        return (max(self.totals) - min(self.totals)) / part if part else 0.0

    def move(self, unit: int, shard: int) -> None:
        load = self.units[unit].load
        self.totals[self.owner[unit]] -= load
        self.totals[shard] += load
        self.owner[unit] = shard

    def owners(self) -> dict[int, int]:
        """Row -> shard."""
        pairs = zip(self.units, self.owner, strict=True)
        return {row: shard for unit, shard in pairs for row in unit.rows}


def cut(
    nodes: Iterable[Node],
    hyper_nodes: Iterable[HyperNode],
    *,
    shards: int,
    previous: Mapping[int, int],
) -> Cut:
    """Every unit where most of it was, new ones where there is least. ``previous``: row -> shard,
    empty at first; of shards that are not among ``shards`` nothing stays."""
    nodes = list(nodes)
    loads = _loads(nodes)
    units = _units(nodes, hyper_nodes, loads, sum(loads.values()) / shards)
    found: list[int | None] = [_previous_owner(unit, previous, shards) for unit in units]
    totals = [0.0] * shards
    for unit, shard in zip(units, found, strict=True):
        if shard is not None:
            totals[shard] += unit.load
    return Cut(units, _place_new(units, found, totals), totals)


def _loads(nodes: list[Node]) -> dict[int, float]:
    """A node's load is the largest part it has of any resource of the cluster."""
    total: dict[int, int] = defaultdict(int)
    for shape, count in Counter(node.allocatable for node in nodes).items():
        for slot, amount in shape:
            total[slot] += count * amount

    shapes: dict[Requests, float] = {}
    loads: dict[int, float] = {}
    for node in nodes:
        shape = node.allocatable
        if shape not in shapes:
            shapes[shape] = max((a / total[slot] for slot, a in shape if a), default=0.0)
        loads[node.row] = shapes[shape]
    return loads


def _units(
    nodes: list[Node], hyper_nodes: Iterable[HyperNode], loads: dict[int, float], part: float
) -> list[Unit]:
    by_name = {node.name: node for node in nodes}
    taken: set[str] = set()
    units = []
    for hyper in sorted(hyper_nodes, key=lambda h: (h.tier, h.name)):
        members = [by_name[n] for n in hyper.nodes if n in by_name and n not in taken]
        load = sum(loads[node.row] for node in members)
        if members and load <= part * SPLIT_ABOVE:
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


def _place_new(units: list[Unit], found: list[int | None], totals: list[float]) -> list[int]:
    """New units, largest first, to the least loaded shard."""
    heap = [(load, shard) for shard, load in enumerate(totals)]
    heapq.heapify(heap)
    owner: list[int] = []
    for unit, shard in zip(units, found, strict=True):
        if shard is not None:
            owner.append(shard)
            continue
        load, least = heap[0]
        totals[least] = load + unit.load
        heapq.heapreplace(heap, (totals[least], least))
        owner.append(least)
    return owner
