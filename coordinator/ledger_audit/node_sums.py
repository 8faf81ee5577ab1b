"""Compares the amounts that tasks and nominations hold on each node with the node's record."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coordinator.ledger_audit.findings import AuditKind, Finding, RecordKind
from coordinator.ledger_audit.picture import Picture
from coordinator.ledger_audit.portions import portions
from coordinator.ledger_audit.requests import RequestColumns
from coordinator.ledger_audit.task_columns import Ints
from shared.ledger.records import HEAD, NOMINATED, RELEASING, USED, WIDTH, unpack_nodes
from shared.messages.messages import TaskState

CELLS = 2_000_000
"""Maximum number of sums in memory (nodes x slots, for each part): 48 MB. Beyond that the tasks are
processed once per block of slots."""
SLICE_NODES = 1000
"""Nodes numbered per step: 1 ms."""
SLICE_NOMINATIONS = 50
"""Nominations added per step: with 100 tasks each, 2 ms."""

_PARTS = {
    USED: AuditKind.NODE_USED,
    RELEASING: AuditKind.NODE_RELEASING,
    NOMINATED: AuditKind.NODE_NOMINATED,
}


class NodeSums:
    def __init__(self, picture: Picture) -> None:
        """Call ``prepare`` before anything is added."""
        self._picture = picture
        self._requests = RequestColumns(picture.classes)
        self._rows = np.zeros(0, np.int64)
        self._slots = self._width = 1
        self._first = 0
        self._sums: dict[int, Ints] = {}
        self._unknown = np.zeros(0, np.bool_)
        """Nodes with a task whose class has no record, so that their sums are unknown."""

    def prepare(self) -> Iterator[None]:
        nodes, widest, parts = self._picture.nodes, 0, []
        for some in portions(nodes, SLICE_NODES):
            widest = max(widest, *(len(nodes[row]) for row in some))
            parts.append(np.sort(np.array(some, np.int64)))
            yield
        if parts:
            # Stable is a merge sort: 1.5 ms for 100,000 rows in runs, which else are 6 ms.
            self._rows = np.sort(np.concatenate(parts), kind="stable")
        recorded = max(0, (widest // 8 - 1 - HEAD) // WIDTH)
        self._slots = max(1, self._requests.slots, recorded)
        self._width = max(1, min(self._slots, CELLS // max(1, len(self._rows))))
        self._unknown = np.zeros(len(self._rows), np.bool_)
        yield

    def blocks(self) -> Iterator[int]:
        """The block numbers; additions count for the block yielded last."""
        for number, first in enumerate(range(0, self._slots, self._width)):
            self._first = first
            shape = len(self._rows), self._width
            self._sums = {part: np.zeros(shape, np.int64) for part in _PARTS}
            yield number

    def add(self, lines: Ints) -> None:
        """Add tasks, by the numbers of their lines."""
        columns = self._picture.tasks
        lines = columns.holding(lines)
        row, cid = columns.column("row")[lines], columns.column("cid")[lines]
        self._count(USED, row, cid)
        leaving = columns.column("state")[lines] == TaskState.RELEASING
        self._count(RELEASING, row[leaving], cid[leaving])

    def add_nominations(self) -> Iterator[None]:
        for some in portions(self._picture.nominations.values(), SLICE_NOMINATIONS):
            runs = [run for nomination in some for run in nomination]
            rows = [row for _, rows, _ in runs for row in rows]
            cids = [cid for cid, rows, _ in runs for _ in rows]
            self._count(NOMINATED, np.array(rows, np.int64), np.array(cids, np.int64))
            yield

    def _count(self, part: int, rows: Ints, cids: Ints) -> None:
        if not len(rows) or not len(self._rows):
            return
        at = np.minimum(np.searchsorted(self._rows, rows), len(self._rows) - 1)
        places = self._requests.places(cids)
        has_record = self._rows[at] == rows  # a row without a record: no sum to compare
        self._unknown[at[has_record & (places < 0)]] = True
        counted = has_record & (places >= 0)
        requests = self._requests.expand(places[counted])
        inside = (requests.slot >= self._first) & (requests.slot < self._first + self._width)
        where = at[counted][requests.task[inside]], requests.slot[inside] - self._first
        np.add.at(self._sums[part], where, requests.amount[inside])

    def compare(self, some: slice, *, first: bool) -> Iterator[Finding]:
        """Findings of some nodes, for the slots of this block. ``first``: also check amounts that
        are not sums."""
        recorded = unpack_nodes([self._record(row) for row in self._rows[some].tolist()])
        missing = HEAD + WIDTH * self._slots - recorded.shape[1]
        if missing > 0:
            recorded = np.pad(recorded, ((0, 0), (0, missing)))
        end = HEAD + WIDTH * min(self._first + self._width, self._slots)
        begin = HEAD + WIDTH * self._first
        for part in _PARTS:
            has = recorded[:, begin + part : end : WIDTH]
            should = self._sums[part][some, : has.shape[1]]
            for place in np.flatnonzero((has != should).any(axis=1)).tolist():
                yield self._finding(part, some.start + place, has[place], should[place])
        if first:
            yield from self._negative(some, recorded)

    def _record(self, row: int) -> bytes:
        return self._picture.nodes[row]

    def _finding(self, part: int, place: int, has: Ints, should: Ints) -> Finding:
        wrong = np.flatnonzero(has != should).tolist()
        difference = tuple((self._first + s, int(has[s]), int(should[s])) for s in wrong)
        row, complete = int(self._rows[place]), not self._unknown[place]
        kind, record = _PARTS[part], self._record(row)
        return Finding.of_sums(
            kind, RecordKind.NODE, (row,), record, difference, part=part, recomputable=complete
        )

    def _negative(self, some: slice, recorded: Ints) -> Iterator[Finding]:
        """Findings of negative allocatable amounts, or of negative usage by others."""
        slots = recorded[:, HEAD:].reshape(len(recorded), -1, WIDTH)
        summed = np.isin(np.arange(WIDTH), list(_PARTS))
        wrong = (slots < 0) & ~summed
        for place, part in np.argwhere(wrong.any(axis=1)).tolist():
            row = int(self._rows[some.start + place])
            below = [
                (s, int(slots[place, s, part]), 0)
                for s in np.flatnonzero(wrong[place, :, part]).tolist()
            ]
            kind, record = AuditKind.NEGATIVE, self._record(row)
            yield Finding(kind, RecordKind.NODE, (row,), record, tuple(below), part)
