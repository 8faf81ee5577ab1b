"""A statement being written: operations on the view, each with its inverse.

A checkpoint is the number of operations so far; rolling back to it applies the inverses of those
that came later. All are additions, so that rows the view receives meanwhile do not disturb them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shard_worker.columns import NOMINATED, RELEASING, USED
from shard_worker.view import View
from shared.messages import ALLOCATE, NOMINATE, Level, Run
from shared.model import Requests

MANY = 16
"""From so many operations of one class on, the inverses are applied as arrays."""


class Shift(NamedTuple):
    """``times`` a request on one row of the view: +1 takes, -1 gives back."""

    kind: int
    requests: Requests
    row: int
    times: int


class Place(NamedTuple):
    """One task on one row, as the ledger will be asked to judge it."""

    kind: int
    cid: int
    group: int
    task: int
    row: int
    version: int
    spec: int
    level: Level
    requests: Requests


COLUMN = {ALLOCATE: USED, NOMINATE: NOMINATED}

Operation = Shift | Place


class Statement:
    """What one turn does to the view, in order."""

    __slots__ = ("_view", "operations")

    def __init__(self, view: View) -> None:
        self._view = view
        self.operations: list[Operation] = []

    @property
    def checkpoint(self) -> int:
        """What to roll back to, to keep everything done so far."""
        return len(self.operations)

    def place(self, *, cid: int, group: int, task: int, row: int, level: Level, kind: int) -> None:
        """Put a task on a row: ALLOCATE takes idle capacity, NOMINATE future capacity."""
        view = self._view
        requests = view.classes[cid].requests
        view.shift(COLUMN[kind], requests, row, 1)
        version, spec = view.version.item(row), view.spec.item(row)
        self.operations.append(Place(kind, cid, group, task, row, version, spec, level, requests))

    def withdraw(self, requests: Requests, row: int) -> None:
        """Take a nomination of one task off a row."""
        self._shift(requests, row, -1)

    def restore(self, requests: Requests, row: int) -> None:
        """Put a withdrawn nomination back."""
        self._shift(requests, row, 1)

    def let_go(self, requests: Requests, row: int) -> None:
        """A victim of the row begins to leave it."""
        self._shift(requests, row, 1, kind=RELEASING)

    def _shift(self, requests: Requests, row: int, times: int, *, kind: int = NOMINATED) -> None:
        self._view.shift(kind, requests, row, times)
        self.operations.append(Shift(kind, requests, row, times))

    def rollback(self, to: int = 0) -> None:
        """Undo every operation after a checkpoint; the view is as if they had never been."""
        undone = self.operations[to:]
        del self.operations[to:]
        if len(undone) < MANY:
            for operation in reversed(undone):
                kind, requests, row, times = _effect(operation)
                self._view.shift(kind, requests, row, -times)
            return
        same: dict[tuple[int, Requests, int], list[int]] = {}
        for operation in undone:
            kind, requests, row, times = _effect(operation)
            same.setdefault((kind, requests, times), []).append(row)
        for (kind, requests, times), rows in same.items():
            self._view.shift_many(kind, requests, rows, -times)

    def rollback_places(self, since: int) -> None:
        """Undo the placements after a checkpoint and keep the other operations."""
        later = self.operations[since:]
        kept = [op for op in later if isinstance(op, Shift)]
        self.rollback(since)
        for shift in kept:
            self._shift(shift.requests, shift.row, shift.times)

    def placed(self, since: int = 0) -> list[Place]:
        """The placements after a checkpoint."""
        return [op for op in self.operations[since:] if type(op) is Place]


def _effect(operation: Operation) -> tuple[int, Requests, int, int]:
    match operation:
        case Shift(kind=kind, requests=requests, row=row, times=times):
            return kind, requests, row, times
        case Place(kind=kind, requests=requests, row=row):
            return COLUMN[kind], requests, row, 1


def runs_of(places: Sequence[Place]) -> list[Run]:
    """Placements as the runs of a message: neighbours of one kind, class and group share a run."""
    runs: list[Run] = []
    last: tuple[int, int, int] | None = None
    for place in places:
        key = (place.kind, place.cid, place.group)
        if key != last:
            runs.append(
                Run(
                    kind=place.kind,
                    cid=place.cid,
                    group=place.group,
                    tasks=[],
                    rows=[],
                    versions=[],
                    specs=[],
                    levels=[],
                )
            )
            last = key
        run = runs[-1]
        run.tasks.append(place.task)
        run.rows.append(place.row)
        run.versions.append(place.version)
        run.specs.append(place.spec)
        run.levels.append(int(place.level))
    return runs
