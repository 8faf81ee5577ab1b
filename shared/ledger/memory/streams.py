"""The streams of a server in memory, and their consumer groups.

Ids are 1-0, 2-0, ... None is given twice, not even after an old copy was brought back: a server's
ids begin with its clock, so that what is added to a copy is newer than all that is missing in it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import itemgetter

from redis.exceptions import ResponseError

Entry = tuple[int, dict[bytes, bytes]]
"""Number and fields."""

_number = itemgetter(0)


def number_of(entry_id: str) -> int:
    return int(entry_id.partition("-")[0])


def id_of(number: int) -> bytes:
    return b"%d-0" % number


@dataclass(slots=True)
class ConsumerGroup:
    delivered: int = 0
    """Number of the last entry that was given out."""
    pending: set[int] = field(default_factory=set)
    """Numbers of entries that were given out and not acknowledged."""


@dataclass(slots=True)
class IdCounter:
    """Shared by a stream and its copies."""

    issued: int = 0
    """The highest number that any of them gave."""


@dataclass(slots=True)
class Stream:
    ids: IdCounter = field(default_factory=IdCounter)
    entries: list[Entry] = field(default_factory=list)
    last: int = 0
    """Number of the newest entry, also where it was trimmed."""
    groups: dict[bytes, ConsumerGroup] = field(default_factory=dict)

    def group(self, name: bytes) -> ConsumerGroup:
        """Errors: ResponseError where there is none of this name."""
        if name not in self.groups:
            raise ResponseError(f"NOGROUP No such consumer group '{name.decode()}'")
        return self.groups[name]

    def copy(self) -> Stream:
        groups = {n: ConsumerGroup(g.delivered, set(g.pending)) for n, g in self.groups.items()}
        return Stream(self.ids, list(self.entries), self.last, groups)

    def add(self, *fields: bytes) -> bytes:
        """``fields``: names and values by turns."""
        self.ids.issued += 1
        self.last = self.ids.issued
        self.entries.append((self.last, dict(zip(fields[::2], fields[1::2], strict=True))))
        return id_of(self.last)

    def between(self, first: bytes, last: bytes) -> list[Entry]:
        """By the bounds of XRANGE: ``+`` is the end, and ``(`` leaves the bound itself out."""
        start = bisect_left(self.entries, _lowest(first), key=_number)
        if last == b"+":
            return self.entries[start:]
        return self.entries[start : bisect_right(self.entries, _highest(last), key=_number)]

    def after(self, number: int, count: int) -> list[Entry]:
        start = bisect_right(self.entries, number, key=_number)
        return self.entries[start : start + count]

    def trim(self, lowest: bytes) -> None:
        """Forget the entries before an id."""
        del self.entries[: bisect_left(self.entries, _lowest(lowest), key=_number)]


def _lowest(bound: bytes) -> int:
    """The lowest number from a bound on. All ids here end in ``-0``: 4-1 stands before 5-0."""
    if bound == b"-":
        return 0
    number, _, second = bound.removeprefix(b"(").partition(b"-")
    return int(number) + (bound.startswith(b"(") or int(second or 0) > 0)


def _highest(bound: bytes) -> int:
    """The highest number up to a bound."""
    number, _, second = bound.removeprefix(b"(").partition(b"-")
    return int(number) - (bound.startswith(b"(") and int(second or 0) == 0)
