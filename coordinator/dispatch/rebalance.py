"""Rebalance: which nodes should move from an overloaded shard to an underloaded one.

Three things keep it calm. It starts only above one bound and goes on until below a lower one
(hysteresis), so that a cluster at the edge does not oscillate. It moves as little as that takes:
idle nodes first, and of them the one that closes the gap best. And the moves per minute are capped.

Only capacity is balanced, not work: any shard can place any job where it fits, and dispatch gives
new jobs to the shard with the least work, so that work evens out faster than nodes move.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coordinator.dispatch.partition import Cut, Units

START_ABOVE = 0.25
"""Gap between the fullest and the emptiest shard, as a fraction of the average, at which a
rebalance starts. A smaller gap is less than jobs differ by, and a move costs every worker a new
evaluation of all nodes."""

STOP_BELOW = 0.1
"""Gap at which it stops: far enough below the start that some dozen nodes of a thousand may leave
before the next."""

PAUSE_SECONDS = 10.0
"""Pause between two handovers of a rebalance: few large ones cost the workers less."""

CLOSER = 0.999
"""A unit must be smaller than the gap by more than rounding, or moving it would only swap the two
shards."""

MOVED_AT_ONCE = 20_000
"""Nodes per handover without a cap: bounds the time of their choice."""

Rows = NDArray[np.bool_]


class Rebalancer:
    """Decides when to move nodes, and how many at a time. No clock: callers pass the time in
    seconds."""

    def __init__(self, moves_per_minute: int) -> None:
        """``moves_per_minute``: nodes; 0 turns rebalancing off."""
        self.active = False
        """Whether a rebalance has started and is not finished."""
        self._cap = moves_per_minute
        self._room = float(moves_per_minute)
        self._filled = -math.inf
        self._next = -math.inf

    def due(self, now: float) -> bool:
        """Whether a started rebalance may go on now."""
        return self.active and now >= self._next

    def even_out(
        self, cut: Cut, *, busy: Callable[[], Rows], now: float, free: bool = False
    ) -> int:
        """Move units of ``cut`` where due; returns the number of nodes. ``busy`` returns, by row,
        whether tasks run there. ``free``: ignore cap and pause, because the cluster is partitioned
        anew."""
        gap = cut.gap
        self.active = gap > (STOP_BELOW if self.active else START_ABOVE)
        if not self.active or (now < self._next and not free):
            return 0
        # Only now: it asks every node of the cluster.
        rows = busy()
        if free or not rows.any():  # nobody is disturbed where nothing runs
            count, self.active = even_out(cut, busy=rows, allowance=MOVED_AT_ONCE)
            return count
        count, self.active = even_out(cut, busy=rows, allowance=self._allowance(now))
        self._room -= count
        self._next = now + PAUSE_SECONDS
        return count

    def _allowance(self, now: float) -> float:
        """Nodes that may move now: a token bucket that holds one minute's moves."""
        since = min(60.0, max(0.0, now - self._filled))
        self._room = min(float(self._cap), self._room + since * self._cap / 60.0)
        self._filled = now
        return self._room


def even_out(cut: Cut, *, busy: Rows, allowance: float = math.inf) -> tuple[int, bool]:
    """Move units from the fullest to the emptiest shard while that reduces the gap, each at most
    once.

    Returns the number of nodes moved, and whether ``allowance`` (nodes) ended it early. With any
    allowance left the first unit may exceed it, or a large unit could never move.
    """
    part, totals, count = cut.part, cut.totals, 0
    before = cut.owner.copy()
    shelves: dict[int, _ShardUnits] = {}
    givers = set(range(len(totals)))
    while givers:
        full = max(givers, key=lambda shard: (totals[shard], -shard))
        empty = min(range(len(totals)), key=lambda shard: (totals[shard], shard))
        gap = totals[full] - totals[empty]
        if gap <= STOP_BELOW * part:
            break
        if full not in shelves:
            shelves[full] = _ShardUnits(cut, cut.units[before[cut.units] == full], busy)
        unit = shelves[full].take(gap)
        if unit is None:
            # Each of its units is larger than the gap; another shard may have smaller ones.
            givers.discard(full)
            continue
        size = cut.size.item(unit)
        # `count and`: a hyper node larger than the allowance moves alone, or it would never move.
        if allowance <= 0 or (count and count + size > allowance):
            return count, True
        count += size
        cut.move(unit, empty)
    return count, False


class _ShardUnits:
    """The units of one shard, sorted by load, idle and busy ones apart."""

    def __init__(self, cut: Cut, units_of_shard: Units, busy: Rows) -> None:
        runs = np.bincount(cut.unit, weights=busy, minlength=len(cut.unit)) > 0
        ordered = units_of_shard[np.lexsort((-units_of_shard, cut.load[units_of_shard]))]
        self._kinds: list[tuple[list[float], list[int]]] = [
            (cut.load[units].tolist(), units.tolist())
            for units in (ordered[~runs[ordered]], ordered[runs[ordered]])
        ]

    def take(self, gap: float) -> int | None:
        """Remove and return the unit that closes a gap best, idle ones first; None where each would
        only swap the two shards."""
        for loads, units in self._kinds:
            # Moving half of the gap would make the two shards equal.
            at = bisect_right(loads, gap / 2)
            near = [i for i in (at - 1, at) if 0 <= i < len(loads) and loads[i] < gap * CLOSER]
            if near:
                best = min(near, key=lambda i: abs(gap / 2 - loads[i]))
                loads.pop(best)
                return units.pop(best)
        return None
