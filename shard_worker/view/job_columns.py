"""All jobs of the ledger as columns, sorted by number, with their specifications in one buffer.

Nothing here is an object per job: 140,000 jobs are 6 MB, and what their specifications take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_DTYPES: dict[str, type[np.generic]] = {
    "jid": np.int64,
    "qid": np.int32,
    "first": np.int64,
    "size": np.int32,
    "offset": np.int64,
    "length": np.int32,
    "known": np.bool_,
    "gone": np.bool_,
    "stamp": np.int64,
}
_WASTE = 1 << 20
"""Bytes, or dead slots times 16, that are left lying before the columns are written anew."""


class JobColumns:
    """A job's *slot* is its place among all jobs by number; it moves when jobs come and go."""

    def __init__(self) -> None:
        self.count = 0
        self._columns: dict[str, NDArray[Any]] = {}
        self._specs = bytearray()
        self._unused = 0
        """Bytes of specifications that are not in force any more."""
        self._dead = 0
        self._stamp = 0
        """The last one that was given out."""
        self._grow(1024)

    def column(self, name: str) -> NDArray[Any]:
        """``jid``, ``qid``, ``known``, ``gone`` (deleted, with tasks that still run), or ``first``
        and ``size``: the job's lines in the table of tasks; ``stamp``: another one for each
        specification that a job had."""
        return self._columns[name][: self.count]

    def slots(self, jids: Ints) -> Ints:
        """The slots of these jobs, -1 for one that is not known."""
        have = self.column("jid")
        at = np.searchsorted(have, jids)
        # `searchsorted` gives the place where a missing number would stand, which may be behind the
        # end.
        inside = np.minimum(at, max(self.count - 1, 0))
        if not self.count:
            return np.full(len(jids), -1, np.int64)
        present = (have[inside] == jids) & self.column("known")[inside]
        return np.where(present, inside, -1)

    def slot(self, jid: int) -> int:
        at = int(np.searchsorted(self.column("jid"), jid))
        columns = self._columns
        is_there = at < self.count and columns["jid"][at] == jid and columns["known"][at]
        return at if is_there else -1

    def spec(self, slot: int) -> bytes:
        offset, length = int(self._columns["offset"][slot]), int(self._columns["length"][slot])
        return bytes(self._specs[offset : offset + length])

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns.values()) + len(self._specs)

    # --- changes ------------------------------------------------------------------------------

    def load(self, jobs: Sequence[tuple[int, int, bool, bytes]]) -> None:
        """Fill empty columns: (jid, qid, gone, specification), sorted by jid."""
        self._grow(len(jobs))
        self.count = len(jobs)
        self._specs = bytearray(b"".join(spec for *_, spec in jobs))
        lengths = np.fromiter((len(spec) for *_, spec in jobs), np.int64, len(jobs))
        self.column("jid")[:] = [jid for jid, *_ in jobs]
        self.column("qid")[:] = [qid for _, qid, *_ in jobs]
        self.column("gone")[:] = [deleted for _, _, deleted, _ in jobs]
        self.column("length")[:] = lengths
        self.column("offset")[:] = np.cumsum(lengths) - lengths
        self.column("known")[:] = True
        self.column("stamp")[:] = np.arange(1, len(jobs) + 1)
        self._stamp = len(jobs)

    def put(self, jid: int, qid: int, spec: bytes) -> None:
        """Add a job, or change it."""
        at, columns = self.slot(jid), self._columns
        if at < 0:
            at = self._add(jid)
        else:
            # Appended, never overwritten: the new specification may be longer than the old one.
            self._unused += int(columns["length"][at])
        columns = self._columns
        columns["qid"][at] = qid
        columns["offset"][at] = len(self._specs)
        columns["length"][at] = len(spec)
        self._stamp += 1
        columns["stamp"][at] = self._stamp
        self._specs += spec
        if self._unused > max(_WASTE, len(self._specs) // 2):
            self._pack()

    def leave(self, jid: int) -> None:
        """Note that the job was deleted; its tasks may still run."""
        at = self.slot(jid)
        if at >= 0:
            self._columns["gone"][at] = True

    def forget(self, slot: int) -> None:
        # The slot stays until many are dead: to take one out moves all behind it in all columns.
        self._columns["known"][slot] = False
        self._columns["size"][slot] = 0
        self._unused += int(self._columns["length"][slot])
        self._dead += 1

    def tidy(self) -> None:
        """Take out the slots of forgotten jobs, where they are many."""
        if self._dead * 16 > max(_WASTE, self.count * 8):
            self._pack()

    def _add(self, jid: int) -> int:
        at = int(np.searchsorted(self.column("jid"), jid))
        if self.count == len(self._columns["jid"]):
            self._grow(2 * self.count)
        columns = self._columns
        if at < self.count and columns["jid"][at] == jid:  # forgotten, and here again
            self._dead -= 1
        else:
            for column in columns.values():  # numbers rise: there is rarely anything to move
                column[at + 1 : self.count + 1] = column[at : self.count]
            self.count += 1
        columns["jid"][at], columns["known"][at], columns["gone"][at] = jid, True, False
        columns["first"][at] = columns["size"][at] = 0
        return at

    def _grow(self, size: int) -> None:
        for name, dtype in _DTYPES.items():
            old = self._columns.get(name, np.zeros(0, dtype))
            more = max(size - len(old), 0)
            self._columns[name] = np.concatenate([old, np.zeros(more, dtype)])

    def _pack(self) -> None:
        """Rewrite everything without entries that are not in force any more."""
        keep = np.flatnonzero(self.column("known"))
        specs, offsets = bytearray(), []
        for slot in keep.tolist():
            offsets.append(len(specs))
            specs += self.spec(slot)
        for name, column in self._columns.items():
            column[: len(keep)] = column[keep]
            self._columns[name] = column
        self.count = len(keep)
        self.column("offset")[:] = offsets
        self._specs, self._unused, self._dead = specs, 0, 0
