"""A statement that moves tasks: what it evicts it may promise another place, or let stay.

An eviction that is taken back is an operation of its own, not a gap in the list: rolling back to a
checkpoint that lies between the two brings the eviction back. What is committed has neither.
"""

from __future__ import annotations

from typing import NamedTuple

from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.operation import Operation, OpKind
from shard_worker.framework.statement import WorldStatement
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shard_worker.view.columns import NOMINATED, RELEASING
from shared.model.gpu_request import WHOLE
from shared.units.things import Things


class TaskOrigin(NamedTuple):
    """Where a task was that this statement evicts."""

    row: int
    devices: Things
    status: Status
    reason: str


class _Swap(NamedTuple):
    """A promised task that takes other devices of its node than it was promised first."""

    task: TaskInfo
    before: Things
    after: Things


class _UndoneEviction(NamedTuple):
    """An eviction that was taken back."""

    operation: Operation


class SearchStatement(WorldStatement):
    """Operations of a search for victims; see :class:`WorldStatement` for those it shares."""

    __slots__ = ("_homes", "_session", "_stayed", "_steps")

    def __init__(self, ssn: KaiSession) -> None:
        super().__init__(ssn)
        self._session = ssn
        self._homes: dict[int, TaskOrigin] = {}
        self._steps: list[Operation | _UndoneEviction | _Swap] = []
        """Everything in order; :attr:`operations` has the operations among it."""
        self._stayed: set[int] = set()
        """ids of tasks whose eviction was taken back."""

    @property
    def checkpoint(self) -> int:
        return len(self._steps)

    def evict(self, task: TaskInfo, reason: str) -> None:
        self._homes[id(task)] = TaskOrigin(task.row, task.devices, task.status, reason)
        super().evict(task, reason)

    def pipeline(self, task: TaskInfo, row: int) -> None:
        """Promise a place to a task. One that was evicted stays where that is its own place."""
        if task.status is not Status.RELEASING:
            super().pipeline(task, row)
        elif row == task.row and self._may_stay(task):
            self._stay(task)
        else:
            self._move(task, row)

    def _apply(self, operation: Operation) -> None:
        super()._apply(operation)
        self._steps.append(operation)

    # --- staying ------------------------------------------------------------------------------

    def _may_stay(self, task: TaskInfo) -> bool:
        """Whether the task's devices are free for it. Whole devices of a node are alike: somebody
        who was promised them meanwhile takes others instead."""
        things, row = self._session.world.view.things, task.row
        devices = self._devices(task, row)
        if sorted(devices) == sorted(task.devices):
            return True
        if any(amounts != (WHOLE,) for _, amounts in task.devices):
            return False
        free = [name for name, _ in devices]
        for name, _ in task.devices:
            if things.future_at(name, 1, row)[0] >= WHOLE:
                if name in free:
                    free.remove(name)
                continue
            other = self._promised(name, row)
            if other is None or not free:
                return False
            self._swap(other, name, free.pop())
        return True

    def _promised(self, device: str, row: int) -> TaskInfo | None:
        """Task to which this statement promised the whole device; None for none."""
        for step in reversed(self._steps):
            if not isinstance(step, Operation) or step.kind is not OpKind.PIPELINE:
                continue
            task = step.task
            is_there = task.row == row and task.status is Status.PIPELINED
            if is_there and (device, (WHOLE,)) in task.devices:
                return task
        return None

    def _swap(self, task: TaskInfo, device: str, instead: str) -> None:
        after = tuple(
            sorted((instead if name == device else name, amounts) for name, amounts in task.devices)
        )
        self._exchange(task, after)
        self._steps.append(_Swap(task, task.devices, after))
        task.devices = after

    def _exchange(self, task: TaskInfo, devices: Things) -> None:
        view = self._session.world.view
        view.things.shift(NOMINATED, task.devices, task.row, -1)
        view.things.shift(NOMINATED, devices, task.row, +1)
        view.changes.mark(task.row)

    def _stay(self, task: TaskInfo) -> None:
        home = self._homes[id(task)]
        operation = Operation(OpKind.EVICT, task, home.row, home.status, home.reason)
        super()._undo(operation)
        self._stayed.add(id(task))
        self._steps.append(_UndoneEviction(operation))

    # --- moving -------------------------------------------------------------------------------

    def _move(self, task: TaskInfo, row: int) -> None:
        world = self._session.world
        operation = Operation(OpKind.PIPELINE, task, row, task.status)
        devices = self._devices(task, row)
        task.devices = devices
        world.view.shift(NOMINATED, task.taking, row, 1)
        world.settle(task, row)
        self._count(task, Status.PIPELINED, +1)
        self.operations.append(operation)
        self._steps.append(operation)

    def _undo(self, operation: Operation) -> None:
        if operation.kind is not OpKind.PIPELINE or operation.before is not Status.RELEASING:
            super()._undo(operation)
            return
        world, task = self._session.world, operation.task
        world.view.shift(NOMINATED, task.taking, operation.row, -1)
        world.resident[operation.row].reverse()
        world.unsettle(task)  # the last one: on its own node it stands there twice
        world.resident[operation.row].reverse()
        home = self._homes[id(task)]
        task.row, task.devices = home.row, home.devices
        self._count(task, operation.before, -1)

    # --- the whole ----------------------------------------------------------------------------

    def rollback(self, to: int = 0) -> list[Operation]:
        undone = self._steps[to:]
        for step in reversed(undone):
            match step:
                case _Swap():
                    self._exchange(step.task, step.before)
                    step.task.devices = step.before
                case _UndoneEviction():
                    self._again(step.operation)
                case Operation():
                    self._undo(step)
                    self.operations.pop()
        del self._steps[to:]
        return [step for step in undone if isinstance(step, Operation)]

    def _again(self, operation: Operation) -> None:
        """Evict once more who was let stay."""
        world, task = self._session.world, operation.task
        world.view.shift(RELEASING, task.taking, operation.row, 1)
        task.evicted = True
        self._count(task, Status.RELEASING, -1)
        world.evictable_changed(operation.row)
        self._stayed.discard(id(task))

    def _as_it_was(self, eviction: Operation) -> Operation:
        """The eviction with the devices that the task had where it leaves."""
        return eviction._replace(left=self._homes[id(eviction.task)].devices)

    def commit(self) -> None:
        """Keep it for good. What it evicts is no victim of a later search, and is not placed by
        one: its room is promised."""
        self.operations = [
            self._as_it_was(op) if op.kind is OpKind.EVICT else op
            for op in self.operations
            if op.kind is not OpKind.EVICT or id(op.task) not in self._stayed
        ]
        evicted = [op.task for op in self.operations if op.kind is OpKind.EVICT]
        super().commit()
        self._steps = []
        self._stayed = set()
        for task in evicted:
            task.evicted = False
