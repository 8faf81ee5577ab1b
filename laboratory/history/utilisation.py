"""Utilisation of the cluster, computed exactly from the starts and ends of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Busy:
    """The fraction of the capacity that tasks held between two moments."""

    start: float
    end: float
    share: float
    """0 to 1; 0 for an empty window."""

    @property
    def seconds(self) -> float:
        return self.end - self.start


def busy(
    *,
    occupied: Sequence[float],
    freed: Sequence[float],
    start: float,
    end: float,
    capacity: int,
) -> Busy:
    """Integrate units in use over ``start .. end`` and divide by the capacity.

    ``occupied`` and ``freed`` are the times at which one unit each was taken and returned; they
    need not be paired or sorted. A unit that is not returned counts until ``end``. Times in
    seconds.
    """
    if end <= start or capacity <= 0:
        return Busy(start, max(start, end), 0.0)
    # The integral of a step function is the sum over its steps of what is left of the window.
    up = end - np.clip(np.asarray(occupied, dtype=np.float64), start, end)
    down = end - np.clip(np.asarray(freed, dtype=np.float64), start, end)
    area = float(up.sum() - down.sum())
    return Busy(start, end, area / (capacity * (end - start)))
