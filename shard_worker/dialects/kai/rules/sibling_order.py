"""Sibling queues, each with its next job, in the order of :mod:`.queue_order`, kept sorted.

:func:`.queue_order.first` looks at all siblings for one answer. A session asks after each job that
was placed or failed, and only the queues of that job's path have changed: with 1,000 siblings on a
full cluster that were a million comparisons. Here siblings of one key stand together, since the
step after the key compares all of them at once, and in there those of one allocatable share.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from shard_worker.dialects.kai.rules.amounts import NOTHING, Amounts
from shard_worker.dialects.kai.rules.queue_order import Candidate, CandidateKey, least_shares

Age = tuple[float, str]


class _Position(NamedTuple):
    key: CandidateKey | None
    share: Amounts
    age: Age


class SiblingOrder:
    def __init__(self, *, by_age: bool = False) -> None:
        """``by_age``: the oldest queue goes first, whatever it has."""
        self._by_age = by_age
        self._positions: dict[int, _Position] = {}
        self._levels: dict[CandidateKey | None, dict[Amounts, list[tuple[Age, int]]]] = {}
        """Key -> allocatable share -> heap of (age, queue); those that have left stay in the heap
        until they come to the top."""
        self._keys: list[CandidateKey] = []
        """Heap of the keys of the levels."""

    def put(self, qid: int, candidate: Candidate | None) -> None:
        """Enter a queue, or enter it anew; None: it has no next job."""
        if candidate is None:
            self._positions.pop(qid, None)
            return
        position = _Position(None, NOTHING, candidate.age)
        if not self._by_age:
            position = _Position(candidate.key, candidate.allocatable, candidate.age)
        if self._positions.get(qid) == position:
            return
        self._positions[qid] = position
        level = self._levels.get(position.key)
        if level is None:
            level = self._levels[position.key] = {}
            if position.key is not None:
                heapq.heappush(self._keys, position.key)
        heapq.heappush(level.setdefault(position.share, []), (position.age, qid))

    def first(self) -> int | None:
        """The queue that goes first; None where none has a next job."""
        while self._levels:
            key = self._keys[0] if self._keys else None
            if (first := self._first_of(key, self._levels[key])) is not None:
                return first
            del self._levels[key]
            if self._keys:
                heapq.heappop(self._keys)
        return None

    def _first_of(
        self, key: CandidateKey | None, level: dict[Amounts, list[tuple[Age, int]]]
    ) -> int | None:
        tops: dict[Amounts, tuple[Age, int]] = {}
        for share, heap in list(level.items()):
            while heap and self._positions.get(heap[0][1]) != (key, share, heap[0][0]):
                heapq.heappop(heap)
            if heap:
                tops[share] = heap[0]
            else:
                del level[share]
        return min(tops[share] for share in least_shares(tops))[1] if tops else None
