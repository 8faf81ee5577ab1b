"""Index of all documents of one kind: by path, sorted, counted by namespace.

A path is ``namespace/name``, or ``name`` for cluster-wide kinds. Objects without documents of their
own (the pods of a Job) are represented by one mark for all of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from coordinator.intake.documents.document import Document

K = TypeVar("K", str, int)

MARK = "-"
"""Suffix of the path of a mark: no name ends with it, and all names with this prefix sort after
it."""

_FEW = 32
"""Fewer new keys than this are inserted one by one; this many or more are sorted in together."""


class Record(NamedTuple):
    """A published document. ``task`` is the packed (jid, tix) of a pod, else -1."""

    document: Document
    version: int
    task: int = -1


class Keys(Generic[K]):
    """Sorted keys. Adding and discarding are deferred until the next read."""

    def __init__(self) -> None:
        self._sorted: list[K] = []
        self._fresh: dict[K, None] = {}
        self._gone: set[K] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._fresh) - len(self._gone)

    def add(self, key: K) -> None:
        """Add a key that is not present."""
        # Still in the sorted list: removed names are only skipped, so the key must not get in
        # twice.
        if key in self._gone:
            self._gone.discard(key)
        else:
            self._fresh[key] = None

    def discard(self, key: K) -> None:
        """Remove a key that is present."""
        # One that came since the last read leaves nothing: there may be no further read.
        if key in self._fresh:
            del self._fresh[key]
        else:
            self._gone.add(key)

    def between(self, first: K, last: K | None = None) -> Iterator[K]:
        """Keys from ``first`` up to ``last``, exclusive (None: to the end). No key may be added
        meanwhile."""
        self._settle()
        keys, removed = self._sorted, self._gone
        end = len(keys) if last is None else bisect_left(keys, last)
        for i in range(bisect_left(keys, first), end):
            if keys[i] not in removed:
                yield keys[i]

    def _settle(self) -> None:
        if len(self._fresh) < _FEW:
            for key in self._fresh:
                insort(self._sorted, key)
        else:
            self._sorted += self._fresh
            self._sorted.sort()  # two runs in order: about one pass
        self._fresh.clear()
        # Rebuilt when a quarter is gone: each deletion then costs a few steps, where taking one out
        # of a list moves all behind it.
        if len(self._gone) > 1000 + len(self._sorted) // 4:
            self._sorted = [key for key in self._sorted if key not in self._gone]
            self._gone.clear()


@dataclass(slots=True)
class KindIndex:
    records: dict[str, Record] = field(default_factory=dict)
    paths: Keys[str] = field(default_factory=Keys)
    counts: Counter[str] = field(default_factory=Counter)
    """Namespace -> objects, those that marks stand for included."""

    def put(self, path: str, record: Record) -> None:
        """``path`` is that of the record's document."""
        if path not in self.records:
            self.paths.add(path)
            self.counts[record.document.key.namespace] += 1
        self.records[path] = record

    def take(self, path: str) -> Record | None:
        record = self.records.pop(path, None)
        if record is not None:
            self.paths.discard(path)
            self.count(record.document.key.namespace, -1)
        return record

    def mark(self, path: str, namespace: str, count: int) -> None:
        """Represent ``count`` objects without documents by one mark under this path."""
        self.paths.add(path + MARK)
        self.count(namespace, count)

    def unmark(self, path: str, namespace: str, count: int) -> None:
        self.paths.discard(path + MARK)
        self.count(namespace, -count)

    def count(self, namespace: str, count: int) -> None:
        self.counts[namespace] += count
        if not self.counts[namespace]:
            del self.counts[namespace]

    def total(self, namespace: str | None) -> int:
        return self.counts.total() if namespace is None else self.counts[namespace]
