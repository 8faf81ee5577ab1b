"""Which objects of the cluster are to be written about next. No I/O and no clock.

An object is queued by its uid, and what is written of it is made when its turn comes: of several
changes only the last is written, and of what passed meanwhile nothing. The next object of the same
name has pauses of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from typing import Generic, TypeVar

PAUSE_SECONDS = 1.0
"""Between the first two writes about an object. Twice as long with each further one: the amounts in
a sentence change with every turn, and who waits for an hour does not need each of them."""
LONGEST_PAUSE_SECONDS = 16.0
"""After as long without a write the pauses begin anew."""
LONGEST = 20_000
"""Maximum number of objects that wait for their write; the least important ones beyond it are
dropped. At the rate of writes they would be told something that is minutes old."""


class Importance(IntEnum):
    """Gangs before single pods: one write tells of all members."""

    GROUP = 0
    GROUP_EVENT = 1
    POD = 2
    QUEUE = 3
    STAMPS = 4
    POD_EVENT = 5
    PLACED = 6
    """The record that a pod was placed, which its spec says as well."""


K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Written:
    content: int
    """Hash of what was written."""
    at: float
    pause: float

    @property
    def until(self) -> float:
        return self.at + self.pause


@dataclass(slots=True)
class StatusQueue(Generic[K]):
    dropped: int = 0
    _lines: dict[Importance, dict[K, None]] = field(
        default_factory=lambda: {importance: {} for importance in Importance}
    )
    _later: list[tuple[float, int, Importance, K]] = field(default_factory=list)
    _waits: dict[K, int] = field(default_factory=dict)
    """Key -> number of its entry in ``_later``."""
    _written: dict[K, _Written] = field(default_factory=dict)
    _number: count[int] = field(default_factory=count)

    def __len__(self) -> int:
        return sum(map(len, self._lines.values())) + len(self._later)

    def changed(self, key: K, importance: Importance, now: float, *, at_once: bool = False) -> None:
        """There may be something new to write about the object. ``at_once``: without a pause."""
        line = self._lines[importance]
        if key in line or (key in self._waits and not at_once):
            return
        before = self._written.get(key)
        if before is not None and now < before.until and not at_once:
            self._waits[key] = number = next(self._number)
            heapq.heappush(self._later, (before.until, number, importance, key))
        else:
            line[key] = None
        if len(self) > LONGEST:
            self._drop()

    def _drop(self) -> None:
        """Give up the newest of the least important objects."""
        line = next((line for line in reversed(self._lines.values()) if line), None)
        if line is not None:
            line.popitem()
            self.dropped += 1

    def take(self, now: float) -> K | None:
        """The next object; None where there is none now."""
        while self._later and self._later[0][0] <= now:
            _, number, importance, key = heapq.heappop(self._later)
            if self._waits.get(key) == number:
                del self._waits[key]
                self._lines[importance][key] = None
        for line in self._lines.values():
            if line:
                key = next(iter(line))
                del line[key]
                return key
        return None

    def take_paused(self, key: K) -> bool:
        """Take this object before the end of its pause. False: it does not wait for one."""
        return self._waits.pop(key, None) is not None

    def is_new(self, key: K, content: Hashable) -> bool:
        """Whether this is something else than what was written last."""
        before = self._written.get(key)
        return before is None or before.content != hash(content)

    def written(self, key: K, content: Hashable, now: float) -> None:
        before, pause = self._written.get(key), PAUSE_SECONDS
        if before is not None and now < before.until + LONGEST_PAUSE_SECONDS:
            pause = min(2 * before.pause, LONGEST_PAUSE_SECONDS)
        self._written[key] = _Written(hash(content), now, pause)

    def forget(self, key: K) -> None:
        """The object is gone, or nothing is written about it any more."""
        self._written.pop(key, None)
