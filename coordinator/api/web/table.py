"""A table of the page: its rows by key, and which of them changed since the last frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Key = int | str
Row = tuple[Any, ...]
"""Plain values in the order of the table's columns; the first one is the key."""


@dataclass(frozen=True, slots=True)
class TableDelta:
    rows: Sequence[Row]
    """Rows that are new or changed."""
    gone: Sequence[Key]


NO_CHANGE = TableDelta((), ())


class FrameTable:
    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = columns
        self.rows: dict[Key, Row] = {}
        self._changed: dict[Key, Row | None] = {}
        """Rows for the next delta; None: the row is gone."""
        self.namespace = columns.index("namespace") if "namespace" in columns else None
        """The column by which a tenant's token sees a part of the rows; None: everybody sees
        all."""

    def put(self, row: Row) -> None:
        key = row[0]
        if self.rows.get(key) != row:
            self.rows[key] = self._changed[key] = row

    def drop(self, key: Key) -> None:
        if self.rows.pop(key, None) is not None:
            self._changed[key] = None

    def clear(self) -> None:
        self.rows.clear()
        self._changed.clear()

    def take_delta(self) -> TableDelta:
        """The changes since the last call."""
        if not self._changed:
            return NO_CHANGE
        changed, self._changed = self._changed, {}
        rows = [row for row in changed.values() if row is not None]
        return TableDelta(rows, [key for key, row in changed.items() if row is None])
