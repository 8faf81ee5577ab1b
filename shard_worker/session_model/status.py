"""Volcano's states of a task, and the sets of them that rules ask for."""

from __future__ import annotations

from enum import IntFlag

from shared.messages.messages import TaskState


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
"""States in which a task no longer counts for a minimum."""
VALID = READY | Status.PIPELINED | Status.PENDING
"""States with which a gang can still be completed: leaving and failed tasks do not count."""

STATUS_OF = {
    TaskState.PENDING: Status.PENDING,
    TaskState.BINDING: Status.BINDING,
    TaskState.BOUND: Status.BOUND,
    TaskState.RUNNING: Status.RUNNING,
    TaskState.RELEASING: Status.RELEASING,
    TaskState.SUCCEEDED: Status.SUCCEEDED,
    TaskState.FAILED: Status.FAILED,
    TaskState.LOST: Status.FAILED,
}
"""The session's status for each state in the ledger."""
