"""One task as a session sees it: its job, its class, its status, and the node it is on.

Only a session over a world (:mod:`shard_worker.world`) has an object per task. The fast path has
columns and runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from typing import TYPE_CHECKING

from shared.messages import TaskState
from shared.model import Requests, Role, TaskClass

if TYPE_CHECKING:
    from shard_worker.session_job import SessionJob, SubJob

PREEMPTABLE = "volcano.sh/preemptable"
"""Annotation, or label, of a pod or its job: may it be evicted in favour of others?"""


class Status(IntFlag):
    """Volcano's states of a task; PIPELINED and ALLOCATED live only inside a session."""

    PENDING = 1
    ALLOCATED = 2
    PIPELINED = 4
    BINDING = 8
    BOUND = 16
    RUNNING = 32
    RELEASING = 64
    SUCCEEDED = 128
    FAILED = 256
    UNKNOWN = 512


OCCUPYING = Status.ALLOCATED | Status.BINDING | Status.BOUND | Status.RUNNING
"""States in which a task counts as allocated to its job and queue."""
READY = OCCUPYING | Status.SUCCEEDED
"""States that count for a gang's minimum."""
EVICTABLE = Status.BOUND | Status.RUNNING
COMPLETED = Status.SUCCEEDED | Status.FAILED
LOST = Status.RELEASING | Status.FAILED | Status.UNKNOWN
"""States in which a task counts for no minimum any more."""
VALID = READY | Status.PIPELINED | Status.PENDING
"""States of which a gang may still come about: what leaves, or failed, does not count."""

STATUS_OF = {
    TaskState.PENDING: Status.PENDING,
    TaskState.BINDING: Status.BINDING,
    TaskState.BOUND: Status.BOUND,
    TaskState.RUNNING: Status.RUNNING,
    TaskState.RELEASING: Status.RELEASING,
    TaskState.SUCCEEDED: Status.SUCCEEDED,
    TaskState.FAILED: Status.FAILED,
}
"""What the ledger's state of a task is in a session."""


@dataclass(slots=True, eq=False)
class TaskInfo:
    """Compared by identity: a world has one object per task."""

    job: SessionJob
    tix: int
    """Index in its job."""
    role: Role
    cls: TaskClass
    name: str
    """Of its pod."""
    status: Status = Status.PENDING
    row: int = -1
    """The node it is on, was on, or is pipelined to; -1 where none."""
    sub: SubJob = field(init=False)
    nominated: int = -1
    """Row of the node that an earlier session promised it; -1 where none."""
    created: float = 0.0
    """Seconds since 1970."""
    started: float = 0.0
    """When it began to run, seconds since 1970; 0 where unknown."""
    uid: str = ""

    @property
    def key(self) -> str:
        return f"{self.job.job.namespace}/{self.name}"

    @property
    def cid(self) -> int:
        return self.role.cid

    @property
    def requests(self) -> Requests:
        return self.cls.requests

    @property
    def best_effort(self) -> bool:
        """Asks for nothing but its place among a node's pods."""
        return self.cls.best_effort

    @property
    def priority(self) -> int:
        return self.role.priority

    @property
    def preempts(self) -> bool:
        """May others be evicted for it? (``preemptionPolicy`` other than Never)"""
        constraints = self.cls.constraints
        return constraints is None or constraints.preempts

    @property
    def preemptable(self) -> bool:
        """May it be evicted for others? What the pod says counts, then what its job says."""
        for marks in (self.role.annotations, self.role.labels):
            for key, value in marks:
                if key == PREEMPTABLE:
                    return value.lower() == "true"
        return self.job.preemptable

    def __repr__(self) -> str:
        return f"<{self.key} {self.status.name} {self.row}>"
