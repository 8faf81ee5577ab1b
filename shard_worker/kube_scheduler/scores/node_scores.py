"""kube-scheduler's scores by free and used amounts, in its integer arithmetic.

All evaluate the node with the task placed on it. Each has two forms, for many rows and for a single
row, with bit-identical results. If a class requests no cpu or no memory, the scores by free amounts
assume a small request; kube-scheduler does so per container, here it is per pod, since a class only
has the pod's sum. Running pods count with their requests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Mask, NodeColumns, Rows
from shared.model.model import TaskClass
from shared.units.slots import CPU, MEMORY

Column = NDArray[np.int64]
Floats = NDArray[np.float64]
N = TypeVar("N", float, Floats)

FULL = 100
"""The maximum score."""
UNASKED = {CPU: 100, MEMORY: 200 * 1024 * 1024}
"""Assumed requests of a pod without any: 100 thousandths of a core, 200 MiB."""
NOTHING = {CPU: 0, MEMORY: 0}
GPU = "nvidia.com/gpu"


class Allocated:
    """Least or most allocated: the mean percentage over cpu and memory, rounded down twice."""

    node_local = True

    def __init__(self, *, weight: int, most: bool) -> None:
        self._weight = weight
        self._most = most

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> Floats:
        size = len(view.column("used", CPU)[rows])
        total = np.zeros(size, dtype=np.int64)
        count = np.zeros(size, dtype=np.int64)
        for slot, request in _asked(cls):
            capacity = view.column("allocatable", slot)[rows]
            after = view.column("used", slot)[rows] + request
            counted = np.minimum(after, capacity) if self._most else capacity - after
            # Whole numbers and rounded twice, as there: a fraction more would order nodes that are
            # equal in kube-scheduler.
            part = np.maximum(counted, 0) * FULL // np.maximum(capacity, 1)
            offered = capacity > 0
            total += part * offered
            count += offered
        mean = total // np.maximum(count, 1)
        return (mean * self._weight).astype(np.float64)

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        total = count = 0
        for slot, request in _asked(cls):
            capacity = view.column("allocatable", slot).item(row)
            if capacity > 0:
                after = view.column("used", slot).item(row) + request
                counted = min(after, capacity) if self._most else max(capacity - after, 0)
                total += counted * FULL // capacity
                count += 1
        return float(total // max(count, 1) * self._weight)


class Balanced:
    """Balanced allocation: 100 minus the spread of the used fractions of cpu, memory and requested
    GPUs.

    A class that requests none of them scores 0 everywhere.
    """

    node_local = True

    def __init__(self, *, weight: int) -> None:
        self._weight = weight

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> Floats:
        requested = _weighed(cls, view.slot_names)
        capacities = [view.column("allocatable", slot)[rows] for slot, _ in requested]
        if not any(amount for _, amount in requested):
            return np.zeros(len(capacities[0]))
        fractions = [
            _fractions(view.column("used", slot)[rows] + amount, capacity)
            for (slot, amount), capacity in zip(requested, capacities, strict=True)
        ]
        offers = sum((capacity > 0) << i for i, capacity in enumerate(capacities))
        return self._by_offer(np.asarray(offers), fractions)

    def _by_offer(self, offers: Column, fractions: list[Floats]) -> Floats:
        """Score rows that offer the same resources together. Bit i of an offer: fraction i."""
        score = np.zeros(len(offers))
        for offer in np.flatnonzero(np.bincount(offers)).tolist():
            mask: Mask = offers == offer
            chosen = slice(None) if mask.all() else mask
            parts = [f[chosen] for i, f in enumerate(fractions) if offer >> i & 1]
            spread = _spread(parts, np.sqrt) if len(parts) > 1 else 0.0
            score[chosen] = np.asarray((1 - spread) * FULL).astype(np.int64) * self._weight
        return score

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        requested = _weighed(cls, view.slot_names)
        if not any(amount for _, amount in requested):
            return 0.0
        parts = []
        for slot, amount in requested:
            capacity = view.column("allocatable", slot).item(row)
            if capacity > 0:
                parts.append(min((view.column("used", slot).item(row) + amount) / capacity, 1.0))
        spread = _spread(parts, math.sqrt) if len(parts) > 1 else 0.0
        return float(int((1 - spread) * FULL) * self._weight)


def _asked(cls: TaskClass) -> list[tuple[int, int]]:
    """(slot, amount) of cpu and memory, with a small amount assumed for one not requested."""
    amounts = UNASKED | {slot: amount for slot, amount in cls.requests if slot <= MEMORY}
    return list(amounts.items())


def _weighed(cls: TaskClass, names: Sequence[str]) -> list[tuple[int, int]]:
    """(slot, requested amount) of cpu, memory, and of GPUs if the class requests any."""
    amounts = NOTHING | {
        slot: amount
        for slot, amount in cls.requests
        if slot <= MEMORY or (slot < len(names) and names[slot] == GPU)
    }
    return list(amounts.items())


def _fractions(after: Column, capacity: Column) -> Floats:
    """The used fraction of the capacity, at most 1; 0 without capacity."""
    part: Floats = after / np.maximum(capacity, 1)
    return np.minimum(part, 1.0)


def _spread(parts: list[N], root: Callable[[N], N]) -> N:
    """The standard deviation; for two values half their distance."""
    if len(parts) == 2:
        return abs(parts[0] - parts[1]) / 2
    mean = sum(parts[1:], parts[0]) / len(parts)
    squares = [(part - mean) * (part - mean) for part in parts]
    return root(sum(squares[1:], squares[0]) / len(parts))
