"""The tasks that use what a session assigned to a claim; it is freed after the last of them."""

from __future__ import annotations

from collections import Counter
from typing import Generic, TypeVar

from shard_worker.session_model.job import TaskInfo

T = TypeVar("T")


class ClaimUsers(Generic[T]):
    """``given``: key of a claim -> what was assigned to it."""

    def __init__(self) -> None:
        self.given: dict[str, T] = {}
        self._users: Counter[str] = Counter()
        self._keys: dict[TaskInfo, list[str]] = {}

    def __contains__(self, task: TaskInfo) -> bool:
        return task in self._keys

    def add(self, task: TaskInfo, keys: list[str]) -> None:
        """Record that the task uses these claims, all of which have an assignment."""
        self._keys[task] = keys
        self._users.update(keys)

    def of(self, task: TaskInfo) -> list[T]:
        return [self.given[key] for key in self._keys.get(task, ())]

    def remove(self, task: TaskInfo) -> list[T]:
        """Remove the task; returns the assignments that no task uses any more."""
        free = []
        for key in self._keys.pop(task, ()):
            self._users[key] -= 1
            if not self._users[key]:
                free.append(self.given.pop(key))
        return free
