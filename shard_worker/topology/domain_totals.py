"""Sums over the nodes of each hyper node's domain; arrays are indexed by domain.

Two sets, as in Volcano: room when the session opened, which decides what domains are considered,
and current usage, by which they are scored.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shard_worker.session_model.job import SubJob
from shard_worker.session_model.world import World
from shard_worker.topology.allocated_domains import tree_of
from shard_worker.view.hyper_tree import NOWHERE, HyperDomain, HyperTree
from shared.model.model import Requests

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class DomainTotals:
    """The sums over one world, from the moment this object is created."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tree: HyperTree = tree_of(world)
        slots = range(world.view.columns.slots)
        self._idle = [self.tree.sums(world.idle(slot)) for slot in slots]
        self._future = [self.tree.sums(world.future_idle(slot)) for slot in slots]
        self._promised = [self._sums("nominated", slot) for slot in slots]
        self._leaving = [self._sums("releasing", slot) for slot in slots]
        self._by_tier: dict[int, Ints] = {}

    def _sums(self, kind: str, slot: int) -> Ints:
        return self.tree.sums(self.world.view.column(kind, slot))

    @staticmethod
    def _at(sums: list[Ints], slot: int, domain: HyperDomain) -> int:
        return int(sums[slot][domain.index]) if slot < len(sums) else 0

    def had_room(self, domain: HyperDomain, needed: Requests) -> bool:
        """Whether the request fitted what was idle, or about to be, in the domain when the session
        opened."""
        return any(
            all(self._at(sums, slot, domain) >= amount for slot, amount in needed)
            for sums in (self._idle, self._future)
        )

    def could_hold(self, domain: HyperDomain, needed: Requests) -> bool:
        """Whether the request would fit the domain if it were empty."""
        return all(
            int(self._sums("allocatable", slot)[domain.index]) >= amount for slot, amount in needed
        )

    def used(self, slot: int) -> Ints:
        """Amounts in use now, per domain. Includes the session's nominations, not its evictions;
        tasks that were leaving or nominated before it opened count as they did then."""
        now = self._sums("used", slot) + self._sums("nominated", slot)
        now -= self._sums("releasing", slot)
        if slot < len(self._promised):
            now += self._leaving[slot] - self._promised[slot]
        return now

    def fullness(self, requested: Mapping[int, int], weights: Mapping[int, int]) -> Floats:
        """The weighted mean over slots of (used + requested) / allocatable; 0 if a slot
        overflows."""
        total = np.zeros(len(self.tree.listed), np.float64)
        over = np.zeros(len(total), np.bool_)
        sum_weights = 0
        for slot, amount in requested.items():
            weight = weights.get(slot)
            if weight is None:
                continue
            has, after = self._sums("allocatable", slot), self.used(slot) + amount
            over |= after > has
            total += weight * after / np.maximum(has, 1)
            sum_weights += weight
        return np.where(over | (sum_weights <= 0), 0.0, total / (sum_weights or 1))

    def at_tier(self, tier: int) -> Ints:
        """Row -> index of the domain of this tier that contains it, or NOWHERE."""
        indices = self._by_tier.get(tier)
        if indices is None:
            indices = self._by_tier[tier] = np.full(self.world.size, NOWHERE, np.int64)
            for domain in reversed(self.tree.listed):
                if domain.tier == tier:
                    indices[domain.rows] = domain.index
        return indices

    def share(self, sub: SubJob, domain: HyperDomain) -> float:
        """The fraction of the sub job's tasks that are already in the domain."""
        if not sub.tasks:
            return 1.0
        rows = set(domain.rows.tolist())
        return sum(task.row in rows for task in sub.tasks) / len(sub.tasks)
