"""Compares what tasks and nominations take of named things (host ports) with their records.

Few classes name any, so that their tasks are processed one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from coordinator.ledger_audit.findings import AuditKind, Finding, Subject
from coordinator.ledger_audit.picture import Picture
from coordinator.ledger_audit.requests import RequestColumns
from coordinator.ledger_audit.task_columns import Ints
from shared.ledger.records import NOMINATED, RELEASING, USED, WIDTH
from shared.messages.messages import TaskState

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

    def add(self, lines: Ints) -> None:
        """Add tasks, by the numbers of their lines."""
        columns = self._picture.tasks
        places = self._requests.places(columns.column("cid")[lines])
        state = columns.column("state")[lines]
        holds = (state >= TaskState.BINDING) & (state <= TaskState.RELEASING)
        some = lines[holds & (places >= 0) & self._requests.names_things[places]]
        for row, cid, now in zip(
            columns.column("row")[some].tolist(),
            columns.column("cid")[some].tolist(),
            columns.column("state")[some].tolist(),
            strict=True,
        ):
            self._take(row, cid, USED)
            if now == TaskState.RELEASING:
                self._take(row, cid, RELEASING)

    def add_nominations(self) -> None:
        for runs in self._picture.nominations.values():
            for cid, rows in runs:
                for row in rows:
                    self._take(row, cid, NOMINATED)

    def _take(self, row: int, cid: int, part: int) -> None:
        task_class = self._picture.classes.get(cid)
        for name, amounts in task_class.things if task_class is not None else ():
            sums = self._sums[row, name]
            for dimension, amount in enumerate(amounts):
                at = WIDTH * dimension + part
                sums[at] = sums.get(at, 0) + amount

    def compare(self) -> Iterator[list[Finding]]:
        """Findings, slice by slice."""
        recorded = self._picture.things
        missing = (thing for thing in self._sums if thing not in recorded)
        things = chain(recorded, missing)
        while some := [*islice(things, SLICE_THINGS)]:
            yield [*self._compare(some)]

    def _compare(self, things: Iterable[Thing]) -> Iterator[Finding]:
        for thing in things:
            has, sums = self._picture.things.get(thing, ()), self._sums.get(thing, {})
            size = max(len(has), *(at + 1 for at in sums), 0)
            wrong = []
            for at in range(size):
                amount = has[at] if at < len(has) else 0
                should = sums.get(at, 0) if at % WIDTH in _SUMMED else max(0, amount)
                if amount != should:
                    wrong.append((at, amount, should))
            if wrong:
                yield self._finding(thing, tuple(wrong))

    def _finding(self, thing: Thing, wrong: tuple[tuple[int, int, int], ...]) -> Finding:
        row, name = thing
        negative = any(amount < 0 for _, amount, _ in wrong)
        record = self._picture.nodes.get(row)
        return Finding(
            AuditKind.NEGATIVE if negative else AuditKind.THING,
            Subject.NODE,
            (row,),
            record or b"",
            wrong,
            key=name,
            repairable=record is not None,
        )
