"""Queues by their keys, the first in order on top.

A pick that asks every queue for its key costs as much as there are queues, and one that passes over
queues beyond their share asked once more after each. Between two picks of a session only the queue
that got a turn has another key, and those above it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

QueueKey = tuple[tuple[float, ...], str]


class QueueHeap:
    def __init__(self, qids: Iterable[int], key: Callable[[int], QueueKey]) -> None:
        """``key``: of a queue by its id; the same until :meth:`changed`. Nobody asks for it while
        there is one queue alone."""
        self._key = key
        self._keys: dict[int, QueueKey | None] = dict.fromkeys(qids)
        self._heap: list[tuple[QueueKey, int]] = []
        self._changed = set(self._keys)

    def changed(self, qid: int) -> None:
        """Note that a queue is new, or may have another key."""
        self._changed.add(qid)

    def first(self) -> int | None:
        """The id of the first queue; None where none is left."""
        if len(self._keys) == 1 and self._changed <= self._keys.keys():
            return next(iter(self._keys))  # whatever its key is by now
        for qid in self._changed:
            key = self._key(qid)
            if self._keys.get(qid) != key:
                self._keys[qid] = key
                heapq.heappush(self._heap, (key, qid))
        self._changed.clear()
        # Entries of earlier keys are passed over when they come to the top.
        while self._heap and self._keys.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def remove(self, qid: int) -> None:
        """Leave a queue out until it changes."""
        del self._keys[qid]
        self._changed.discard(qid)
