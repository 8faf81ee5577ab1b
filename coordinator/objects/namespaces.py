"""Which namespaces there are: those that were created, and those that an object names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from coordinator.intake.documents.index import Record

DEFAULT = "default"


class NamespaceIndex:
    """``created``: the documents of namespaces by name, as they are now."""

    __slots__ = ("_counts", "_created")

    def __init__(self, created: Mapping[str, Record]) -> None:
        self._created = created
        self._counts: Counter[str] = Counter()
        """Namespace -> number of documents in it."""

    def enter(self, namespace: str) -> bool:
        """Count an object; True if its namespace exists since then."""
        self._counts[namespace] += 1
        return self._counts[namespace] == 1 and not self._stays(namespace)

    def leave(self, namespace: str) -> bool:
        """Stop counting an object; True if its namespace is gone since then."""
        self._counts[namespace] -= 1
        if self._counts[namespace]:
            return False
        del self._counts[namespace]
        return not self._stays(namespace)

    def implied(self, name: str) -> bool:
        """Whether this namespace exists without being created."""
        return name == DEFAULT or name in self._counts

    def names(self) -> list[str]:
        return sorted({DEFAULT, *self._counts, *self._created} - {""})

    def _stays(self, namespace: str) -> bool:
        return namespace in ("", DEFAULT) or namespace in self._created
