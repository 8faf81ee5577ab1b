"""One operation of a statement over a world: what it does to one task."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shared.model.model import TaskClass
from shared.units.things import Things


class OpKind(Enum):
    ALLOCATE = "allocate"
    PIPELINE = "pipeline"
    EVICT = "evict"


class Operation(NamedTuple):
    kind: OpKind
    task: TaskInfo
    row: int
    before: Status
    """The task's status before."""
    reason: str = ""
    """Evictions: the action and plugins, for people."""
    left: Things | None = None
    """After a committed eviction: the devices that the task had there, where it moves to others."""

    @property
    def taking(self) -> TaskClass:
        """Task class with the devices that the operation takes of the row."""
        return self.task.taking if self.left is None else self.task.cls.with_devices(self.left)
