"""Compares what tasks and nominations take of named things (ports, devices) with their records.

Few classes name any, so that their tasks are processed one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

from coordinator.ledger_audit.findings import AuditKind, Finding, RecordKind
from coordinator.ledger_audit.picture import Picture
from coordinator.ledger_audit.portions import portions
from coordinator.ledger_audit.requests import RequestColumns
from coordinator.ledger_audit.task_columns import Ints
from shared.ledger.records import NOMINATED, RELEASING, USED, WIDTH
from shared.messages.messages import HOLDING, TaskState
from shared.units.things import Things

SLICE_THINGS = 500
"""Things compared per step: 1 ms."""
_SUMMED = (USED, RELEASING, NOMINATED)

Thing = tuple[int, str]
"""(row, name)."""


class ThingSums:
    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._requests = RequestColumns(picture.classes)
        self._sums: defaultdict[Thing, dict[int, int]] = defaultdict(dict)
        """Thing -> index in its record -> amount."""
        self._unknown: set[int] = set()
        """Nodes with a task or a nomination whose class has no record."""

    def add(self, lines: Ints) -> None:
        """Add tasks, by the numbers of their lines."""
        columns = self._picture.tasks
        lines = columns.holding(lines)
        places = self._requests.places(columns.column("cid")[lines])
        self._unknown.update(columns.column("row")[lines[places < 0]].tolist())
        some = lines[(places >= 0) & self._requests.names_things[places]]
        for row, cid, now in zip(
            columns.column("row")[some].tolist(),
            columns.column("cid")[some].tolist(),
            columns.column("state")[some].tolist(),
            strict=True,
        ):
            self._take(row, self._of_class(cid), USED)
            if now == TaskState.RELEASING:
                self._take(row, self._of_class(cid), RELEASING)

    def add_nominations(self) -> None:
        for runs in self._picture.nominations.values():
            for cid, rows, devices in runs:
                if cid not in self._picture.classes:
                    self._unknown.update(rows)
                for row in rows:
                    self._take(row, (*self._of_class(cid), *devices), NOMINATED)

    def add_devices(self) -> Iterator[None]:
        """Add what tasks have of devices, step by step."""
        columns, forgotten = self._picture.tasks, self._picture.forgotten
        rows, states = columns.column("row"), columns.column("state")
        for some in portions(self._picture.devices.items(), SLICE_THINGS):
            for (jid, tix), devices in some:
                line = None if jid in forgotten else columns.line(jid, tix)
                if line is not None and states[line] in HOLDING:
                    self._take(int(rows[line]), devices, USED)
                    if states[line] == TaskState.RELEASING:
                        self._take(int(rows[line]), devices, RELEASING)
            yield

    def _of_class(self, cid: int) -> Things:
        task_class = self._picture.classes.get(cid)
        return task_class.things if task_class is not None else ()

    def _take(self, row: int, things: Things, part: int) -> None:
        for name, amounts in things:
            sums = self._sums[row, name]
            for dimension, amount in enumerate(amounts):
                at = WIDTH * dimension + part
                sums[at] = sums.get(at, 0) + amount

    def compare(self) -> Iterator[list[Finding]]:
        """Findings, slice by slice."""
        recorded = self._picture.things
        missing = (thing for thing in self._sums if thing not in recorded)
        for some in portions(chain(recorded, missing), SLICE_THINGS):
            yield [*self._compare(some)]

    def _compare(self, things: Iterable[Thing]) -> Iterator[Finding]:
        for thing in things:
            has, sums = self._picture.things.get(thing, ()), self._sums.get(thing, {})
            size = max(len(has), *(at + 1 for at in sums), 0)
            wrong = []
            for at in range(size):
                amount = has[at] if at < len(has) else 0
                # What is no sum (capacity, use by others) has nothing to be compared with; only
                # below 0 it is wrong for certain.
                should = sums.get(at, 0) if at % WIDTH in _SUMMED else max(0, amount)
                if amount != should:
                    wrong.append((at, amount, should))
            if wrong:
                yield self._finding(thing, tuple(wrong))

    def _finding(self, thing: Thing, wrong: tuple[tuple[int, int, int], ...]) -> Finding:
        row, name = thing
        record = self._picture.nodes.get(row)
        complete, record = record is not None and row not in self._unknown, record or b""
        kind, subject = AuditKind.THING, RecordKind.NODE
        return Finding.of_sums(
            kind, subject, (row,), record, wrong, key=name, recomputable=complete
        )
