"""All documents of one kind: by path, in the order of their paths, counted by namespace.

A path is ``namespace/name``, or ``name`` for cluster-wide kinds. What shows up on a shelf without
a document of its own (the pods of a Job) stands there as one mark for all of it.
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
"""End of the path of a mark: no name ends so, and all names that begin with it follow it."""

_FEW = 32
"""Fewer new keys than this are put in their place one by one."""


class Record(NamedTuple):
    """A document as it was published. ``task`` is the packed (jid, tix) of a pod, else -1."""

    document: Document
    version: int
    task: int = -1


class Keys(Generic[K]):
    """Keys in order. Adding and discarding cost nothing until somebody reads."""

    def __init__(self) -> None:
        self._sorted: list[K] = []
        self._fresh: list[K] = []
        self._gone: set[K] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._fresh) - len(self._gone)

    def add(self, key: K) -> None:
        """One that is not there."""
        if key in self._gone:
            self._gone.discard(key)
        else:
            self._fresh.append(key)

    def discard(self, key: K) -> None:
        """One that is there."""
        self._gone.add(key)

    def between(self, first: K, last: K | None = None) -> Iterator[K]:
        """From ``first`` on and below ``last`` (None: to the end). Nothing is added meanwhile."""
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
        if len(self._gone) > 1000 + len(self._sorted) // 4:
            self._sorted = [key for key in self._sorted if key not in self._gone]
            self._gone.clear()


@dataclass(slots=True)
class Shelf:
    records: dict[str, Record] = field(default_factory=dict)
    paths: Keys[str] = field(default_factory=Keys)
    counts: Counter[str] = field(default_factory=Counter)
    """Objects by namespace, those behind marks too."""

    def put(self, path: str, record: Record) -> None:
        """``path``: of its document."""
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
        """``count`` objects without documents stand behind this path."""
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
