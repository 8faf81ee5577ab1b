"""Which objects the garbage collector walks, in processes that hold very many for a long time."""

from __future__ import annotations

import gc

YOUNG, MIDDLE, OLD = 20_000, 0, 1_000_000
"""Thresholds: new objects until the youngest are walked, collections of the youngest until the
middle generation is walked, and of the middle one until all are.

Every object that stays is walked once when it is new and, but for the last batch, once more. With 0
that last batch is every second one: 1.5 walks an object (1.67 with 2, 1.9 with the interpreter's
10). 20,000 objects take some 5 ms, so that neither walk comes near the 20 ms that a callback may
take (``coordinator.service.metrics.loop_time``); with 50,000 and 2 the second one took 30 to 60
ms."""


def walk_young_objects_only() -> None:
    """Never walk through all objects: with 100,000 jobs that stops everything for longer than a
    third of the leader's lease. Objects that live long end by their reference count."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)


def leave_loaded_objects_alone() -> None:
    """Exempt all objects that are alive now from garbage collection. Walking a loaded view again
    and again was a third of the cost of a placement at 100,000 nodes.

    Call it after each load: what an earlier load left behind is collected first.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
