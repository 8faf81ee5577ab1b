"""A statement over a world: operations on tasks, each with its inverse.

An operation takes effect at once: amounts of the node, counts of the job, totals of the queue, and
whoever listens for events. A checkpoint is a length; undoing goes back to it, newest first. Nothing
is ever copied, so that a dry run costs what it tries and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shard_worker.framework.extension_points import DEVICE_CHOICE
from shard_worker.framework.operation import Operation, OpKind
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.queue_totals import charge, charge_total, reserves
from shard_worker.session_model.status import Status
from shard_worker.view.columns import NOMINATED, RELEASING, USED
from shared.units.things import Things, joined_devices

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob


class WorldStatement:
    """Operations tried for one job, or one task of it: committed, or else undone."""

    __slots__ = ("_ssn", "operations")

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self.operations: list[Operation] = []

    @property
    def checkpoint(self) -> int:
        return len(self.operations)

    # --- operations ---------------------------------------------------------------------------

    def allocate(self, task: TaskInfo, row: int) -> None:
        """Put a pending task on idle capacity of a node."""
        self._apply(Operation(OpKind.ALLOCATE, task, row, task.status))

    def pipeline(self, task: TaskInfo, row: int) -> None:
        """Promise a pending task future capacity of a node."""
        self._apply(Operation(OpKind.PIPELINE, task, row, task.status))

    def unpipeline(self, task: TaskInfo) -> None:
        """Take back the nomination of an earlier statement, for good."""
        self._undo(Operation(OpKind.PIPELINE, task, task.row, Status.PENDING))

    def evict(self, task: TaskInfo, reason: str) -> None:
        """Let a bound or running task leave its node."""
        self._apply(Operation(OpKind.EVICT, task, task.row, task.status, reason))

    def give_back(self, task: TaskInfo) -> None:
        """Let a task that this statement evicts stay after all."""
        for at, operation in enumerate(self.operations):
            if operation.kind is OpKind.EVICT and operation.task is task:
                # From the middle: inverses are additions, so that it does not matter what came
                # after.
                self._undo(self.operations.pop(at))
                return
        raise KeyError(f"{task.key} is not evicted by this statement")

    def promise(self, job: SessionJob) -> None:
        """Turn what this statement allocates of a job into promises of the same places."""
        placed = [
            operation
            for operation in self.operations
            if operation.kind is OpKind.ALLOCATE and operation.task.job is job
        ]
        for operation in placed:
            self.operations.remove(operation)
            self._undo(operation)
        for operation in placed:
            self.pipeline(operation.task, operation.row)

    def _apply(self, operation: Operation) -> None:
        world, task, row = self._ssn.world, operation.task, operation.row
        # Asked before anything moves: a rule may raise.
        devices = () if operation.kind is OpKind.EVICT else self._devices(task, row)
        match operation.kind:
            case OpKind.ALLOCATE:
                task.devices = devices
                world.view.shift(USED, task.taking, row, 1)
                world.settle(task, row)
                self._count(task, Status.ALLOCATED, +1)
            case OpKind.PIPELINE:
                task.devices = devices
                world.view.shift(NOMINATED, task.taking, row, 1)
                world.settle(task, row)
                self._count(task, Status.PIPELINED, +1)
            case OpKind.EVICT:
                world.view.shift(RELEASING, task.taking, row, 1)
                task.evicted = True
                self._count(task, Status.RELEASING, -1)
                world.evictable_changed(row)
        self.operations.append(operation)

    def _devices(self, task: TaskInfo, row: int) -> Things:
        """Devices of the node that the task takes if it is placed there now."""
        rules, world = self._ssn.rules(DEVICE_CHOICE), self._ssn.world
        return joined_devices(
            devices for rule in rules for devices in rule.scalar(task, row, world)
        )

    def _undo(self, operation: Operation) -> None:
        world, task, row = self._ssn.world, operation.task, operation.row
        match operation.kind:
            case OpKind.ALLOCATE:
                world.view.shift(USED, task.taking, row, -1)
                task.devices = ()
                world.unsettle(task)
                self._count(task, operation.before, -1)
            case OpKind.PIPELINE:
                world.view.shift(NOMINATED, task.taking, row, -1)
                task.devices = ()
                world.unsettle(task)
                self._count(task, operation.before, -1)
            case OpKind.EVICT:
                world.view.shift(RELEASING, task.taking, row, -1)
                task.evicted = False
                self._count(task, operation.before, +1)
                world.evictable_changed(row)

    def _count(self, task: TaskInfo, status: Status, by: int) -> None:
        """Update the job's and the queue's totals, then notify the listeners. A pipelined task is
        charged to its queue like an allocated one, a leaving one is not: as Volcano's plugins
        count."""
        job, before = task.job, task.status
        job.move(task, status)
        if job.queue is not None:
            charge(job.queue, task.charged, by)
            if Status.PENDING in (before, status) and reserves(task.role):
                charge_total(job.queue, "reserved", task.charged, -by)
        # Listeners last: rules that count by events see job and queue with this operation in them.
        if by > 0:
            self._ssn.notify_allocated(task)
        else:
            self._ssn.notify_deallocated(task)

    # --- the whole ----------------------------------------------------------------------------

    def rollback(self, to: int = 0) -> list[Operation]:
        """Undo what came after a checkpoint; returns it, oldest first, so that :meth:`redo` can
        bring it back."""
        undone = self.operations[to:]
        for operation in reversed(undone):
            self._undo(operation)
        del self.operations[to:]
        return undone

    def redo(self, operations: Sequence[Operation]) -> None:
        """Apply once more what a dry run did."""
        for operation in operations:
            # An undo goes back to the status that the task has now, not to that of the dry run.
            self._apply(operation._replace(before=operation.task.status))

    def merge(self, statement: WorldStatement) -> None:
        """Take over another statement's operations; they are in effect already."""
        self.operations += statement.operations
        statement.operations = []

    def commit(self) -> None:
        """Keep it for good: allocated tasks are being bound, evicted ones leave."""
        for operation in self.operations:
            if operation.kind is OpKind.ALLOCATE:
                operation.task.job.move(operation.task, Status.BINDING)
        self._ssn.commit(self.operations)
        self.operations = []

    @property
    def evictions(self) -> int:
        return sum(operation.kind is OpKind.EVICT for operation in self.operations)
