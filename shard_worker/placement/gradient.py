"""The gradient: {idle, future idle} x {own shard, other shards}, tried in four levels.

Volcano's order in allocate: an idle node of the own shard, an idle node of another shard, a node
of the own shard that will be idle, one of another shard that will. The first level that has a
node wins, its best-scored node is taken. In mode none every node counts as own; in mode hard
other shards' nodes are no candidates; only in mode soft all four levels exist.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shard_worker.placement.block_maxima import UNPICKABLE
from shard_worker.placement.task_class import IDLE, Compiled
from shared.messages.messages import Level

FITS_NOW = IDLE / 2
"""Keys above it belong to rows that fit now: scores stay far below, IDLE plus a score far above."""


def pick(compiled: Compiled, rows: NDArray[np.intp] | None = None) -> tuple[int, Level] | None:
    """The row for the next task of a class and its level, of ``rows`` (ascending, at least one) or
    of all; None where no node takes it, ever."""
    row, key = compiled.own.top(rows)
    level = None if key == UNPICKABLE else compiled.by_score(row)
    if level is not None:
        return row, level
    if key > FITS_NOW:
        return row, Level.IDLE_OWN
    # One set of maxima: every node counts as own (mode none), or others' have been masked out (mode
    # hard).
    if compiled.other is None:
        return None if key == UNPICKABLE else (row, Level.FUTURE_OWN)
    other_row, other_key = compiled.other.top(rows)
    if other_key > FITS_NOW:
        return other_row, Level.IDLE_OTHER
    if key != UNPICKABLE:
        return row, Level.FUTURE_OWN
    return None if other_key == UNPICKABLE else (other_row, Level.FUTURE_OTHER)


def try_row(compiled: Compiled, row: int) -> Level | None:
    """The level at which one given row takes a task (a nominated node is tried first)."""
    now, later = compiled.fits(row)
    if not later:
        return None
    if compiled.is_own(row):
        return Level.IDLE_OWN if now else Level.FUTURE_OWN
    return Level.IDLE_OTHER if now else Level.FUTURE_OTHER


def kept_level(level: Level) -> Level:
    """The level of the same node for a placement that a promise becomes."""
    return level if level <= Level.IDLE_OTHER else Level(level - 2)


def is_idle(level: Level) -> bool:
    """Whether a placement at this level uses idle capacity (else it is a nomination)."""
    return level <= Level.IDLE_OTHER


def nominated(level: Level) -> Level:
    """The level of the same node for a placement that becomes a nomination."""
    return level if level >= Level.FUTURE_OWN else Level(level + 2)
