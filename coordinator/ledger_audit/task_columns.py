"""All task records of the ledger as columns: node, class, state and group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.codec.checked import Malformed
from shared.messages.messages import HOLDING, TaskState

_FIXED = np.dtype(
    [
        ("state", "u1"),
        ("row", "<u4"),
        ("cid", "<u4"),
        ("version", "<u4"),
        ("group", "<u2"),
        ("seal", "<u4"),
        ("incarnation", "<u4"),
        ("by", "<i4"),
    ],
    align=False,
)
"""A task record (:mod:`shared.ledger.records`); the last two fields exist only for tasks that were
evicted."""
SHORT = 19
"""Bytes of the record of a task that was never evicted."""
_NEVER_EVICTED = b"\0\0\0\0\xff\xff\xff\xff"
"""``incarnation`` 0, ``by`` -1."""
TIX_BITS = 32
"""A task's key is ``jid << TIX_BITS | tix``: both are below 2**31 (they travel as 4 bytes)."""

Ints = NDArray[np.int64]

_DTYPES: dict[str, type[np.generic]] = {
    "key": np.int64,
    "state": np.int8,
    "row": np.uint32,
    "cid": np.uint32,
    "group": np.uint16,
    "evicted": np.int8,
}
"""As narrow as in the records: 20 bytes a task."""

LINES = 1 << 20
"""Initial capacity in lines. Untouched memory costs nothing, while doubling 131,072 lines takes 6
ms."""


_PARTS = 16
"""Number of dictionaries of lines: growing one of 100,000 entries takes 5 ms."""


def _part(key: int) -> int:
    return (key ^ key >> TIX_BITS) % _PARTS


def task_key(jid: int, tix: int) -> int:
    return jid << TIX_BITS | tix


class TaskColumns:
    """One line per task that has, or had during this pass, a record.

    Pages of the table are added as they are read, each as of a known position of the log; later log
    entries change single lines.
    """

    def __init__(self, capacity: int = LINES) -> None:
        """``capacity``: lines to begin with; it grows."""
        self.count = 0
        self._lines: list[dict[int, int]] = [{} for _ in range(_PARTS)]
        self._columns: dict[str, NDArray[Any]] = {
            name: np.zeros(capacity, dtype) for name, dtype in _DTYPES.items()
        }

    def clearing(self) -> Iterator[None]:
        """Clear all lines, step by step."""
        self.count = 0
        for part in self._lines:
            part.clear()
            yield

    def column(self, name: str) -> Ints:
        """``key``, ``state``, ``row``, ``cid``, ``group`` or ``evicted`` (1: it no longer counts
        for its group)."""
        return self._columns[name][: self.count]

    def holding(self, lines: Ints) -> Ints:
        """Select the lines whose tasks hold a node."""
        state = self.column("state")[lines]
        return lines[(state >= TaskState.BINDING) & (state <= TaskState.RELEASING)]

    def line(self, jid: int, tix: int) -> int | None:
        key = task_key(jid, tix)
        return self._lines[_part(key)].get(key)

    def absent(self, line: int) -> bool:
        """Whether the task may have lost its record: a pending task has one only if it was evicted
        before."""
        return bool(self._columns["state"][line] == TaskState.PENDING)

    def add_page(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Add records as of the position up to which the log was followed. Raises Malformed if a
        field is not a task's name."""
        if not records:
            return
        keys = _keys([field for field, _ in records])
        # All records in one buffer of equal length: NumPy reads the columns out of it without a
        # Python object for each task.
        data = b"".join([_fixed(record) for _, record in records])
        read = np.frombuffer(data, dtype=_FIXED)
        lines = self._lines_of(keys.tolist())
        self._columns["key"][lines] = keys
        for name in ("state", "row", "cid", "group"):
            self._columns[name][lines] = read[name]
        self._columns["evicted"][lines] = read["by"] >= 0

    def _lines_of(self, keys: list[int]) -> Ints:
        """The lines of these tasks; new ones are created."""
        lines, count = self._lines, self.count
        numbers = []
        for key in keys:
            line = lines[_part(key)].setdefault(key, count)
            count += line == count
            numbers.append(line)
        self._grow(count)
        return np.array(numbers, np.int64)

    def _grow(self, count: int) -> None:
        self.count = count
        size = len(self._columns["key"])
        if count > size:
            more = max(count, 2 * size) - size
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate([column, np.zeros(more, column.dtype)])

    # --- what the log says ----------------------------------------------------------------------

    def placed(
        self,
        jid: int,
        tasks: Iterable[int],
        rows: Iterable[int],
        *,
        state: int,
        cid: int,
        group: int,
    ) -> None:
        """Set row, state, class and group of these tasks, and clear their eviction."""
        columns = self._columns
        for tix, row in zip(tasks, rows, strict=True):
            key = task_key(jid, tix)
            line = self._lines[_part(key)].setdefault(key, self.count)
            if line == self.count:
                self._grow(line + 1)
                columns = self._columns
            columns["key"][line] = key
            columns["state"][line] = state
            columns["row"][line] = row
            columns["cid"][line] = cid
            columns["group"][line] = group
            columns["evicted"][line] = 0

    def adopted(
        self,
        jid: int,
        tasks: Iterable[int],
        rows: Iterable[int],
        *,
        state: int,
        cid: int,
        group: int,
    ) -> None:
        """The same after an adoption. Tasks held elsewhere keep class and group, and leaving ones
        stay evicted (``adopt`` in record.lua)."""
        for tix, row in zip(tasks, rows, strict=True):
            line = self.line(jid, tix)
            if line is None or self._columns["state"][line] not in HOLDING:
                self.placed(jid, [tix], [row], state=state, cid=cid, group=group)
                continue
            self._columns["state"][line] = state
            self._columns["row"][line] = row
            if state != TaskState.RELEASING:
                self._columns["evicted"][line] = 0

    def changed(self, jid: int, tasks: Iterable[int], state: TaskState) -> None:
        """Change the state of tasks. One that was not read yet will be read with its newer
        state."""
        columns = self._columns
        for tix in tasks:
            line = self.line(jid, tix)
            if line is None:
                continue
            columns["state"][line] = state
            if state is not TaskState.RELEASING:
                columns["evicted"][line] = 0  # it has ended, or may be placed again

    def evict(self, jid: int, tasks: Iterable[int]) -> None:
        """Mark tasks as evicted: they have to leave, and no longer count for their groups."""
        for tix in tasks:
            line = self.line(jid, tix)
            if line is not None:
                self._columns["state"][line] = TaskState.RELEASING
                self._columns["evicted"][line] = 1


def _fixed(record: bytes) -> bytes:
    if len(record) == SHORT:
        return record + _NEVER_EVICTED
    return record[: _FIXED.itemsize]


def _keys(fields: list[bytes]) -> Ints:
    """The keys of table fields ``jid.tix``."""
    numbers = np.fromiter(map(int, b".".join(fields).split(b".")), np.int64)
    if len(numbers) != 2 * len(fields):
        raise Malformed("a field of the task table is no task's name")
    return numbers[::2] << TIX_BITS | numbers[1::2]
