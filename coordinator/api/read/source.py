"""The read model's interface for lists, watches and streams;
:class:`coordinator.objects.store.Objects` implements it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import Kind
from shared.slices import Steps


class Entry(Protocol):
    """An object before rendering; cheap to filter."""

    @property
    def key(self) -> Key: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    def field(self, path: str) -> str:
        """The value of a field for selectors; "" if absent."""
        ...

    def object(self) -> dict[str, Any]:
        """The complete object."""
        ...


class Page(Protocol):
    @property
    def items(self) -> Iterator[Entry]: ...

    @property
    def next(self) -> str:
        """Where the next page begins; "" after the last one."""
        ...

    @property
    def remaining(self) -> int: ...


class Change(Protocol):
    """The latest change of one object since a version; several changes are combined into one."""

    @property
    def version(self) -> int: ...

    @property
    def type(self) -> str:
        """ADDED, MODIFIED or DELETED."""
        ...

    @property
    def key(self) -> Key: ...

    @property
    def last(self) -> Callable[[], dict[str, Any]] | None:
        """Renders the last form of a deleted object."""
        ...


class Source(Protocol):
    @property
    def version(self) -> int: ...

    def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None: ...

    def entry(self, kind: Kind, namespace: str, name: str) -> Entry | None: ...

    def document(self, key: Key) -> Document | None: ...

    def list(
        self, kind: Kind, *, namespace: str | None, after: str = "", limit: int | None
    ) -> Page: ...

    def events_of_pod(self, namespace: str, name: str) -> Sequence[Entry] | None:
        """Events about a member of a gang; None where the pod is none."""
        ...

    def table(self, kind: Kind, objects: Sequence[Any]) -> dict[str, Any]: ...

    def changes(self, since: int, kind: Kind) -> Steps[Sequence[Change]]:
        """Changes up to now in order of version. The first step raises Expired if ``since`` is too
        old."""
        ...

    async def wait(self, since: int) -> None:
        """Wait until there is a version after ``since``."""
        ...
