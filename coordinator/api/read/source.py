"""What lists, watches and streams ask of the objects; :class:`coordinator.objects.store.Objects`
answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import Kind


class Entry(Protocol):
    """One object before it is shown: cheap to filter by."""

    @property
    def key(self) -> Key: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    def field(self, path: str) -> str:
        """Value of a field as a selector compares it, "" where there is none."""
        ...

    def object(self) -> dict[str, Any]:
        """The complete object."""
        ...


class Page(Protocol):
    @property
    def items(self) -> Iterator[Entry]: ...

    @property
    def next(self) -> str:
        """Where the next page begins; "" after the last."""
        ...

    @property
    def remaining(self) -> int: ...


class Change(Protocol):
    """What last became of one object since some version; several changes of one are one."""

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
        """Tells how the object last was, where it was deleted."""
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

    def table(self, kind: Kind, objects: Sequence[Any]) -> dict[str, Any]: ...

    def changes(self, since: int, kind: Kind) -> Sequence[Change]:
        """By version. Raises Expired where ``since`` is too long ago."""
        ...

    async def wait(self, since: int) -> None:
        """Until there is a version beyond ``since``."""
        ...
