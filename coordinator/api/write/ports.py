"""Ports of the handlers that write."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from aiohttp import web

from coordinator.core.pod_evictions import Action, EvictionRefusal, Leaving, Task
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import Kind
from coordinator.intake.writer import ChangeResult, Make


class Writer(Protocol):
    def change(self, key: Key, make: Make, *, dry_run: bool = False) -> Awaitable[ChangeResult]: ...


class PublishedObjects(Protocol):
    def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None: ...

    def document(self, key: Key) -> Document | None:
        """The document with the version of its last write."""
        ...

    def version_of(self, kind: Kind, namespace: str, name: str) -> str | None:
        """The resourceVersion of the complete object, without rendering it; None if there is
        none."""
        ...


class PermissionCheck(Protocol):
    def __call__(
        self, request: web.Request, kind: Kind, obj: Mapping[str, Any], *, as_it_is: bool = False
    ) -> None:
        """Raise Problem if the request's principal may not write this object. ``as_it_is``: check
        for a change or deletion of the object in its current form, whoever set its fields."""
        ...


def everybody(
    request: web.Request, kind: Kind, obj: Mapping[str, Any], *, as_it_is: bool = False
) -> None:
    """A check that allows everyone."""


class Evictor(Protocol):
    def task_of(self, namespace: str, name: str) -> Task | None:
        """The task of a pod; None if there is none."""
        ...

    def budgets_allow(self, task: Task) -> EvictionRefusal | None: ...

    def evict(
        self, task: Task, *, action: Action, requester: str, dry_run: bool = False
    ) -> Awaitable[EvictionRefusal | Leaving]: ...
