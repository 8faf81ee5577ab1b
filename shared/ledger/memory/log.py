"""The double's log.

An id is never used twice, not even after an old copy was restored: a server's ids begin with its
clock, so that what is added to a copy is newer than all that is missing in it.
"""

from __future__ import annotations

from bisect import bisect_right

from shared.ledger.entries.log import LogEntry
from shared.ledger.errors import LedgerTrimmed

LogCopy = tuple[list[LogEntry], int]


def number_of(entry_id: str) -> int:
    return int(entry_id.partition("-")[0])


def _number(entry: LogEntry) -> int:
    return number_of(entry.id)


class Log:
    """Ids are 1-0, 2-0, ..."""

    def __init__(self) -> None:
        self.issued = 0
        """How many ids were given, also to entries that an old copy lacks."""
        self._entries: list[LogEntry] = []
        self._trimmed = 0
        """Number of the last entry that was cut off."""

    def next_id(self) -> str:
        """The id of the entry that is appended next."""
        return f"{self.issued + 1}-0"

    def append(self, entry: LogEntry) -> None:
        self._entries.append(entry)
        self.issued += 1

    @property
    def tail(self) -> str:
        last = _number(self._entries[-1]) if self._entries else self._trimmed
        return f"{last}-0" if last else "0"

    def has(self, entry_id: str) -> bool:
        """Whether the log has this very entry, or had it before it was trimmed; newer entries alone
        prove nothing."""
        number = number_of(entry_id)
        at = bisect_right(self._entries, number, key=_number)
        return number <= self._trimmed or (at > 0 and self._entries[at - 1].id == entry_id)

    def after(self, entry_id: str, count: int) -> list[LogEntry]:
        """Errors: LedgerTrimmed."""
        if entry_id != "0" and number_of(entry_id) < self._trimmed:
            raise LedgerTrimmed(f"the log after {entry_id} is gone: start again from a snapshot")
        first = bisect_right(self._entries, number_of(entry_id), key=_number)
        return self._entries[first : first + count]

    def trim(self, before: str) -> None:
        gone = bisect_right(self._entries, number_of(before) - 1, key=_number)
        if gone:
            self._trimmed = _number(self._entries[gone - 1])
            del self._entries[:gone]

    # --- copies -----------------------------------------------------------------------------

    def copy(self) -> LogCopy:
        return list(self._entries), self._trimmed

    def bring_back(self, copy: LogCopy) -> None:
        entries, self._trimmed = copy
        self._entries = list(entries)
