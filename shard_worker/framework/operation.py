"""One operation of a statement over a world: what it does to one task."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status


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
