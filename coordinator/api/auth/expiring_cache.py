"""Answers that count for a while, and a bound on questions whose answer is no."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class CachedValue(Generic[V]):
    value: V
    until: float
    """On the cache's clock."""


class ExpiringCache(Generic[K, V]):
    """At most ``size`` values, each for ``seconds``; the one that was stored first gives way."""

    def __init__(self, *, size: int, seconds: float, clock: Clock) -> None:
        self._size, self._seconds, self._clock = size, seconds, clock
        self._entries: OrderedDict[K, CachedValue[V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: K) -> CachedValue[V] | None:
        """The value, if it still counts."""
        entry = self._entries.get(key)
        return entry if entry is not None and self._clock() < entry.until else None

    def store(self, key: K, value: V) -> CachedValue[V]:
        self._entries.pop(key, None)
        entry = self._entries[key] = CachedValue(value, self._clock() + self._seconds)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
        return entry


class FailureBudget:
    """Failures that each source may cause: ``burst`` at once, ``per_second`` in the long run."""

    def __init__(self, *, per_second: float, burst: float, sources: int, clock: Clock) -> None:
        """``sources``: how many are remembered; the one that failed longest ago is forgotten."""
        self._per_second, self._burst = per_second, burst
        self._sources, self._clock = sources, clock
        self._debts: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Source -> failures that are not paid off yet, and when that was."""

    def wait(self, source: str) -> float:
        """Seconds until this source may try again; 0: now."""
        return max(0.0, (self._debt(source) + 1 - self._burst) / self._per_second)

    def spend(self, source: str) -> None:
        """A failure of this source."""
        debt = self._debt(source) + 1
        self._debts.pop(source, None)
        self._debts[source] = (debt, self._clock())
        if len(self._debts) > self._sources:
            self._debts.popitem(last=False)

    def _debt(self, source: str) -> float:
        debt, since = self._debts.get(source, (0.0, 0.0))
        return max(0.0, debt - (self._clock() - since) * self._per_second)
