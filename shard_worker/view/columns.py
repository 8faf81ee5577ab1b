"""Amounts of all nodes as columns of whole numbers, and the log of rows that changed.

One block of int64 holds them as ``[kind][slot][row]``; plugins and class caches read the 1-D
arrays ``[row]`` in it. Units are those of the slots (:mod:`shared.units.slots`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from shared.model.model import Requests

Column = NDArray[np.int64]
Block = NDArray[np.int64]
"""``[kind][slot][row]``."""
KINDS = ("allocatable", "used", "releasing", "nominated")
ALLOCATABLE, USED, RELEASING, NOMINATED = range(4)
FIRST_ROWS = 64


class Columns:
    """Growing columns. ``used`` includes the usage of foreign pods.

    Values without a record are 0.
    """

    __slots__ = ("_data", "_open", "_opened", "size", "slots", "views")

    def __init__(self) -> None:
        self.size = 0
        """Rows in use; the arrays handed out have this length."""
        self.slots = 0
        self.views: list[list[Column]] = [[] for _ in KINDS]
        """``views[kind][slot][row]``; replaced whenever the block grows."""
        self._data = np.zeros((len(KINDS), 0, FIRST_ROWS), dtype=np.int64)
        # Beside the data and not only within it: a record that arrives replaces a row as a whole,
        # and what open statements have added to that row must survive (decision 0003).
        self._open = np.zeros_like(self._data)
        """The part of the data that open statements added: not yet, or never, in a record."""
        self._opened: list[list[Column]] = [[] for _ in KINDS]

    def grow(self, *, rows: int = 0, slots: int = 0) -> bool:
        """Make room for this many rows and slots; True where the arrays were replaced."""
        if rows <= self.size and slots <= self.slots:
            return False
        old_rows, old_slots = self.size, self.slots
        self.size = max(rows, old_rows)
        self.slots = max(slots, old_slots)
        if self.size > self._data.shape[2] or self.slots > self._data.shape[1]:
            self._reallocate(old_rows, old_slots)
        self._cut_views()
        return True

    def _reallocate(self, old_rows: int, old_slots: int) -> None:
        capacity = self._data.shape[2]
        while capacity < self.size:
            capacity *= 2
        shape = (len(KINDS), self.slots, capacity)
        for name in ("_data", "_open"):
            grown = np.zeros(shape, dtype=np.int64)
            grown[:, :old_slots, :old_rows] = getattr(self, name)[:, :old_slots, :old_rows]
            setattr(self, name, grown)

    def _cut_views(self) -> None:
        self.views, self._opened = (
            [
                [block[kind, slot, : self.size] for slot in range(self.slots)]
                for kind in range(len(KINDS))
            ]
            for block in (self._data, self._open)
        )

    def set(self, rows: NDArray[np.intp], values: Column) -> None:
        """Make rows equal to their records; what open statements added stays on top.

        ``values``: shape (rows, kinds, slots of these records). Slots beyond are 0.
        """
        width = values.shape[2]
        self._data[:, :width, rows] = values.transpose(1, 2, 0)
        # A record has no slots beyond the highest that was ever used on its node; a row that had
        # some keeps nothing of them.
        if width < self.slots:
            self._data[:, width:, rows] = 0
        # In full, also where the record has one of these statements already (the log may be ahead
        # of the reply): whoever rolls it back takes off exactly what it put on.
        self._data[:, :, rows] += self._open[:, :, rows]

    def shift(self, kind: int, requests: Requests, row: int, times: int) -> None:
        """Add ``times`` a request for an open statement; its inverse is ``-times``."""
        columns, opened = self.views[kind], self._opened[kind]
        for slot, amount in requests:
            more = amount * times
            columns[slot][row] += more
            opened[slot][row] += more

    def shift_many(self, kind: int, requests: Requests, rows: NDArray[np.intp], times: int) -> None:
        """:meth:`shift` of many rows; a row that comes twice is shifted twice."""
        for slot, amount in requests:
            # `columns[rows] += x` would count a row that comes twice once.
            np.add.at(self.views[kind][slot], rows, amount * times)
            np.add.at(self._opened[kind][slot], rows, amount * times)

    def differing(self, rows: NDArray[np.intp], values: Block, widths: Column) -> NDArray[np.bool_]:
        """Which of these rows differ from their records, which must be of the same versions: then
        no record has a slot that is missing here. ``values``: as in :meth:`set`; of each record
        only the first ``widths`` slots count."""
        width = min(self.slots, values.shape[2])
        differs = self._data[:, :width, rows] != values[:, :, :width].transpose(1, 2, 0)
        differs &= np.arange(width)[:, None] < widths
        differing_rows: NDArray[np.bool_] = differs.any(axis=(0, 1))
        return differing_rows

    def state(self, row: int) -> bytes:
        """Every amount of a row: rows with equal states are alike as far as amounts go."""
        return self._data[:, :, row].tobytes()

    def image(self) -> bytes:
        """Every amount and every open part, as bytes to compare columns by."""
        cut = (slice(None), slice(None), slice(0, self.size))
        return self._data[cut].tobytes() + self._open[cut].tobytes()

    def kept(self) -> tuple[Block, Block]:
        """A copy of everything, for rollbacks without a list of operations."""
        return self._data.copy(), self._open.copy()

    def bring_back(self, saved: tuple[Block, Block]) -> None:
        """Restore all amounts. Slots added since stay, with nothing used."""
        for block, old in zip((self._data, self._open), saved, strict=True):
            # All kinds but `allocatable`, which no statement changes.
            block[1:] = 0
            block[:, : old.shape[1], : old.shape[2]] = old

    @property
    def settled(self) -> bool:
        """True where no statement is open: the columns equal the records."""
        return not self._open[:, :, : self.size].any()


class RowChanges:
    """The rows that changed, in order. Readers keep a cursor and catch up when they need to."""

    __slots__ = ("_base", "_limit", "_rows")

    def __init__(self, *, limit: int = 1 << 16) -> None:
        self._rows: list[int] = []
        self._base = 0
        self._limit = limit

    @property
    def end(self) -> int:
        """The cursor of a reader that is up to date."""
        return self._base + len(self._rows)

    def mark(self, row: int) -> None:
        self._rows.append(row)

    def mark_all(self, rows: Iterable[int]) -> None:
        """Record many rows; drops the oldest half where the log is too long."""
        self._rows.extend(rows)
        if len(self._rows) > self._limit:
            # A reader that is behind what is dropped evaluates all rows instead; see `since`.
            half = len(self._rows) // 2
            del self._rows[:half]
            self._base += half

    def since(self, cursor: int) -> list[int] | None:
        """Rows after a cursor, with repetitions; None where they were dropped already."""
        start = cursor - self._base
        return None if start < 0 else self._rows[start:]
