"""A value that changes in steps over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepFunction:
    """From ``times[i]`` to ``times[i + 1]`` the value is ``values[i]``."""

    times: Floats
    values: Floats

    @property
    def seconds(self) -> Floats:
        return np.diff(self.times)

    def mean(self) -> float:
        """Mean over the time; 0 if there is none."""
        total = float(self.seconds.sum())
        return float((self.values * self.seconds).sum() / total) if total else 0.0

    def at_least(self, share: float) -> float:
        """The value that is reached or exceeded in this share of the time; 0 if there is none."""
        order = np.argsort(self.values, kind="stable")
        passed = np.cumsum(self.seconds[order])
        if not len(passed) or passed[-1] <= 0:
            return 0.0
        return float(self.values[order][np.searchsorted(passed, passed[-1] * (1 - share))])

    def series(self, points: int) -> tuple[Floats, Floats]:
        """Means over equal parts of the time: the middles of the parts, and the means."""
        edges = np.linspace(0.0, float(self.times[-1]), points + 1)
        area = np.concatenate([[0.0], np.cumsum(self.values * self.seconds)])
        passed = np.diff(np.interp(edges, self.times, area))
        width = np.maximum(np.diff(edges), 1e-12)
        return (edges[:-1] + edges[1:]) / 2, passed / width
