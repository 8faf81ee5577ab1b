"""A statement being written: operations on the view, each with its inverse.

A checkpoint is the number of operations so far; rolling back to it applies the inverses of those
that came later. All are additions, so that rows the view receives meanwhile do not disturb them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shard_worker.view.columns import NOMINATED, RELEASING, USED
from shard_worker.view.view import View
from shared.messages.messages import ALLOCATE, NOMINATE, Level, Run
from shared.model.model import TaskClass
from shared.units.things import Things

MANY = 16
"""From this many operations of one class on, the inverses are applied as arrays."""


class Shift(NamedTuple):
    """``times`` a task's requests on one row of the view: +1 takes, -1 gives back."""

    kind: int
    cls: TaskClass
    row: int
    times: int


class TaskPlace(NamedTuple):
    """One task on one row, in the form of a ledger operation."""

    kind: int
    cid: int
    group: int
    task: int
    row: int
    version: int
    spec: int
    level: Level
    cls: TaskClass
    """With its devices."""
    devices: Things


COLUMN = {ALLOCATE: USED, NOMINATE: NOMINATED}

Operation = Shift | TaskPlace


class ViewStatement:
    """The effects of one turn on the view, in order."""

    __slots__ = ("_view", "operations")

    def __init__(self, view: View) -> None:
        self._view = view
        self.operations: list[Operation] = []

    @property
    def checkpoint(self) -> int:
        """The point to roll back to that keeps everything done so far."""
        return len(self.operations)

    def place(
        self,
        *,
        cid: int,
        group: int,
        task: int,
        row: int,
        level: Level,
        kind: int,
        devices: Things = (),
    ) -> TaskPlace:
        """Put a task on a row: ALLOCATE takes idle capacity, NOMINATE future capacity."""
        view = self._view
        cls = view.classes[cid].with_devices(devices)
        view.shift(COLUMN[kind], cls, row, 1)
        # The versions that this placement was planned on, noted at the moment of planning. The
        # ledger accepts at once where they are current, and checks the amounts anew where they are
        # not.
        version, spec = view.version.item(row), view.spec.item(row)
        place = TaskPlace(kind, cid, group, task, row, version, spec, level, cls, devices)
        self.operations.append(place)
        return place

    def cut(self, at: int) -> ViewStatement:
        """Keep the first operations; return a statement with the others, still in effect."""
        rest = ViewStatement(self._view)
        rest.operations = self.operations[at:]
        del self.operations[at:]
        return rest

    def withdraw(self, cls: TaskClass, row: int) -> None:
        """Take a nomination of one task off a row."""
        self._shift(cls, row, -1)

    def restore(self, cls: TaskClass, row: int) -> None:
        """Put a withdrawn nomination back."""
        self._shift(cls, row, 1)

    def let_go(self, cls: TaskClass, row: int) -> None:
        """Count a victim as leaving its row."""
        self._shift(cls, row, 1, kind=RELEASING)

    def _shift(self, cls: TaskClass, row: int, times: int, *, kind: int = NOMINATED) -> None:
        self._view.shift(kind, cls, row, times)
        self.operations.append(Shift(kind, cls, row, times))

    def rollback(self, to: int = 0) -> None:
        """Undo every operation after a checkpoint, on the view too."""
        undone = self.operations[to:]
        del self.operations[to:]
        if len(undone) < MANY:
            for operation in reversed(undone):
                kind, cls, row, times = _effect(operation)
                self._view.shift(kind, cls, row, -times)
            return
        # By identity: operations of one class share its object, and hashing it would cost more
        # than the operation.
        same: dict[tuple[int, int, int], tuple[TaskClass, list[int]]] = {}
        for operation in undone:
            kind, cls, row, times = _effect(operation)
            same.setdefault((kind, id(cls), times), (cls, []))[1].append(row)
        for (kind, _, times), (cls, rows) in same.items():
            self._view.shift_many(kind, cls, rows, -times)

    def redo(self, operations: Sequence[Operation]) -> None:
        """Put operations that were rolled back in effect again, planned on what they were planned
        on."""
        for operation in operations:
            kind, cls, row, times = _effect(operation)
            self._view.shift(kind, cls, row, times)
        self.operations += operations

    def rollback_places(self, since: int) -> None:
        """Undo the placements after a checkpoint and keep the other operations."""
        later = self.operations[since:]
        shifts = [op for op in later if isinstance(op, Shift)]
        self.rollback(since)
        for shift in shifts:
            self._shift(shift.cls, shift.row, shift.times)

    def placed(self, since: int = 0) -> list[TaskPlace]:
        """The placements after a checkpoint."""
        return [op for op in self.operations[since:] if type(op) is TaskPlace]


def _effect(operation: Operation) -> tuple[int, TaskClass, int, int]:
    match operation:
        case Shift(kind=kind, cls=cls, row=row, times=times):
            return kind, cls, row, times
        case TaskPlace(kind=kind, cls=cls, row=row):
            return COLUMN[kind], cls, row, 1


def runs_of(places: Sequence[TaskPlace]) -> list[Run]:
    """Placements as the runs of a message: neighbours of one kind, class, group and devices share a
    run."""
    runs: list[Run] = []
    last: tuple[int, int, int, Things] | None = None
    for place in places:
        key = (place.kind, place.cid, place.group, place.devices)
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
                    devices=place.devices,
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
