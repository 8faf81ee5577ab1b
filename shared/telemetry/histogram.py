"""A histogram as plain counts: cheap to observe in bulk, easy to add up and to send.

One observation is a binary search and two additions, a fifth of what the metrics library takes;
many equal ones cost the same as one. Whoever answers a scrape turns the counts into series.
"""

from __future__ import annotations

from bisect import bisect_left

import msgspec

from shared.codec.packed import Count, Finite


class Histogram(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Counts of values by upper bound; the last count is of those above every bound."""

    bounds: tuple[float, ...]
    counts: list[Count] = msgspec.field(default_factory=list)
    sum: Finite = 0.0

    def __post_init__(self) -> None:
        if not self.counts:
            self.counts = [0] * (len(self.bounds) + 1)
        if len(self.counts) != len(self.bounds) + 1:
            raise ValueError("its counts and bounds differ in number")

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        return sum(self.counts)

    def add(self, other: Histogram) -> None:
        """Add the counts of another histogram with the same bounds."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds of a histogram: ``count`` of them, each ``factor`` times the one before."""
    return tuple(float(f"{start * factor**i:.6g}") for i in range(count))
