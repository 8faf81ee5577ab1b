"""Rebalance: which nodes should change hands because one shard has too much and another too little.

Three things keep it calm. It starts only above one bound and goes on until it is below a lower one
(hysteresis), so that a cluster at the edge does not swing. It moves as little as that takes: nodes
where nothing runs first, of them the one that closes the gap best. And it is capped per minute.

Capacity alone is weighed, not load: any shard takes any job where it fits, and dispatch gives each
new one to the shard with the least work, so work evens itself out in less time than nodes move.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Collection

from coordinator.partition import Cut

START_ABOVE = 0.25
"""Gap between the fullest and the emptiest shard, as a part of what each should have. Below it
the difference is less than what the jobs themselves differ in, and a move costs every worker a
new judgement of all nodes."""

STOP_BELOW = 0.1
"""Far enough below the start that some dozen nodes of a thousand may go before it starts again."""

PAUSE_SECONDS = 10.0
"""Between two hand-overs of one rebalance: few and large ones, for the workers' sake."""

CLOSER = 0.999
"""A unit must be smaller than the gap by more than rounding, or it would only swap the two."""

_Listed = tuple[float, int]
"""(load, index) of a unit."""


class Rebalancer:
    """When, and how much at a time. No clock: the caller says what time it is, in seconds."""

    def __init__(self, moves_per_minute: int) -> None:
        """``moves_per_minute``: nodes; 0 = none move for balance."""
        self.active = False
        """Whether a rebalance has begun and is not done."""
        self._cap = moves_per_minute
        self._room = float(moves_per_minute)
        self._filled = -math.inf
        self._next = -math.inf

    def due(self, now: float) -> bool:
        """Whether one that was begun may go on."""
        return self.active and now >= self._next

    def even_out(
        self, found: Cut, *, busy: Callable[[], Collection[int]], now: float, free: bool = False
    ) -> int:
        """Move units of ``found`` if it is time to; returns how many nodes. ``busy``: rows where
        something runs. ``free``: neither cap nor pause counts, the cluster is cut anew."""
        gap = found.gap
        self.active = gap > (STOP_BELOW if self.active else START_ABOVE)
        if not self.active or (now < self._next and not free):
            return 0
        rows = busy()
        if free or not rows:  # nobody is disturbed where nothing runs
            self.active = False
            return even_out(found, busy=rows)[0]
        moved, self.active = even_out(found, busy=rows, allowance=self._allowance(now))
        self._room -= moved
        self._next = now + PAUSE_SECONDS
        return moved

    def _allowance(self, now: float) -> float:
        """The cap fills up evenly and holds one minute's moves."""
        since = min(60.0, max(0.0, now - self._filled))
        self._room = min(float(self._cap), self._room + since * self._cap / 60.0)
        self._filled = now
        return self._room


def even_out(found: Cut, *, busy: Collection[int], allowance: float = math.inf) -> tuple[int, bool]:
    """Move units from the fullest to the emptiest shard while that brings the two closer.

    Returns how many nodes moved, and whether ``allowance`` (nodes) ended it early. The first unit
    may be larger than what is allowed, as long as anything is: else a large one never could go.
    """
    shelves = [_Shelf() for _ in found.totals]
    for index, unit in enumerate(found.units):
        runs = any(row in busy for row in unit.rows)
        shelves[found.owner[index]].put((unit.load, index), busy=runs)
    part, totals, moved = found.part, found.totals, 0
    stuck: set[int] = set()
    while len(stuck) < len(totals):
        full = max(set(range(len(totals))) - stuck, key=lambda shard: (totals[shard], -shard))
        empty = min(range(len(totals)), key=lambda shard: (totals[shard], shard))
        gap = totals[full] - totals[empty]
        if gap <= STOP_BELOW * part:
            break
        taken = shelves[full].take(gap)
        if taken is None:
            stuck.add(full)
            continue
        (load, index), runs = taken
        size = len(found.units[index].rows)
        if allowance <= 0 or (moved and moved + size > allowance):
            return moved, True
        moved += size
        found.move(index, empty)
        shelves[empty].put((load, index), busy=runs)
        stuck.discard(empty)
    return moved, False


class _Shelf:
    """The units of one shard by load, idle ones and busy ones apart."""

    def __init__(self) -> None:
        self._idle: list[_Listed] = []
        self._busy: list[_Listed] = []

    def put(self, listed: _Listed, *, busy: bool) -> None:
        insort(self._busy if busy else self._idle, listed)

    def take(self, gap: float) -> tuple[_Listed, bool] | None:
        """The unit that closes a gap best, idle ones first, and whether it is busy; None where
        each would only swap the two shards."""
        for units, busy in ((self._idle, False), (self._busy, True)):
            at = bisect_left(units, (gap / 2, -1))
            near = [i for i in (at - 1, at) if 0 <= i < len(units) and units[i][0] < gap * CLOSER]
            if near:
                best = min(near, key=lambda i: (abs(gap / 2 - units[i][0]), units[i][1]))
                return units.pop(best), busy
        return None
