"""The streams of a server in memory, and their consumer groups.

Ids are 1-0, 2-0, ... None is given twice, not even after an old copy was brought back: a server's
ids begin with its clock, so that what is added to a copy is newer than all that is missing in it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import itemgetter

Entry = tuple[int, dict[bytes, bytes]]
"""Number and fields."""

_number = itemgetter(0)


def number_of(entry_id: str | bytes) -> int:
    return int(entry_id.partition(b"-" if isinstance(entry_id, bytes) else "-")[0])  # type: ignore[arg-type]


def id_of(number: int) -> bytes:
    return b"%d-0" % number


@dataclass(slots=True)
class Group:
    delivered: int = 0
    """Number of the last entry that was given out."""
    pending: set[int] = field(default_factory=set)
    """Numbers of entries that were given out and not acknowledged."""


@dataclass(slots=True)
class Numbers:
    """Shared by a stream and its copies."""

    issued: int = 0


@dataclass(slots=True)
class Stream:
    numbers: Numbers = field(default_factory=Numbers)
    entries: list[Entry] = field(default_factory=list)
    last: int = 0
    """Number of the newest entry, also where it was trimmed."""
    groups: dict[bytes, Group] = field(default_factory=dict)

    def copy(self) -> Stream:
        groups = {n: Group(g.delivered, set(g.pending)) for n, g in self.groups.items()}
        return Stream(self.numbers, list(self.entries), self.last, groups)

    def add(self, *fields: bytes) -> bytes:
        """``fields``: names and values by turns."""
        self.numbers.issued += 1
        self.last = self.numbers.issued
        self.entries.append((self.last, dict(zip(fields[::2], fields[1::2], strict=True))))
        return id_of(self.last)

    def between(self, first: bytes, last: bytes) -> list[Entry]:
        """By the bounds of XRANGE: ``+`` is the end, and ``(`` leaves the bound itself out."""
        start = bisect_left(self.entries, _bound(first, after=1), key=_number)
        if last == b"+":
            return self.entries[start:]
        return self.entries[start : bisect_right(self.entries, _bound(last, after=-1), key=_number)]

    def after(self, number: int, count: int) -> list[Entry]:
        start = bisect_right(self.entries, number, key=_number)
        return self.entries[start : start + count]

    def trim(self, before: int) -> None:
        del self.entries[: bisect_left(self.entries, before, key=_number)]


def _bound(text: bytes, *, after: int) -> int:
    return number_of(text[1:]) + after if text.startswith(b"(") else number_of(text)
