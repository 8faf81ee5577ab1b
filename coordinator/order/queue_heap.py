"""Queues by their places in the policy's order, the first one on top.

A pick that asks every queue for its place costs as much as there are queues, and one that passes
over queues beyond their share asked once more after each. Between two picks of a session only the
queue that got a turn has another place, and those above and beside it in a tree of queues: what a
queue takes counts for its parent too, so that all queues below the parent move at once, compared
with those of other parents. A heap of single keys cannot follow that. So there is a heap for each
set of siblings, in which a whole branch stands by the parent's rank and by its own first queue.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from shard_worker.framework.sort_keys import Key, QueuePlace


class QueueHeap:
    def __init__(self, qids: Iterable[int], place: Callable[[int], QueuePlace]) -> None:
        """``place``: of a queue by its id, no two alike; the same until :meth:`changed` or
        :meth:`moved`. Nobody asks for it while there is one queue alone."""
        self._place = place
        self._paths: dict[int, tuple[Hashable, ...]] = {}
        """Queue -> the branches it stands in, from the top down."""
        self._changed = set(qids)
        self._moved: set[int] = set()
        self._top = _Siblings()
        self._ranks: dict[Hashable, Any] = {}
        self._stands: dict[Hashable, set[tuple[Hashable, ...]]] = {}
        """Branch -> the paths down to it: one queue may be above others of several priorities."""

    def changed(self, qid: int) -> None:
        """Note that a queue is new, or may have another place."""
        self._changed.add(qid)

    def moved(self, qid: int) -> None:
        """Note that the branches of a queue, in it or not, may have other ranks."""
        self._moved.add(qid)

    def qids(self) -> set[int]:
        """All queues in it."""
        return self._changed | self._paths.keys()

    def first(self) -> int | None:
        """The id of the first queue; None where none is left."""
        if len(self._changed) == 1 and self._paths.keys() <= self._changed:
            return next(iter(self._changed))  # whatever its place is by now
        for qid in self._moved - self._changed:
            for branch, rank in self._place(qid).path:
                self._set_rank(branch, rank)
        self._moved.clear()
        changed, self._changed = self._changed, set()
        for qid in changed:
            self._put(qid)
        return None if (first := self._top.first()) is None else first[1]

    def remove(self, qid: int) -> None:
        """Leave a queue out until it changes."""
        self._changed.discard(qid)
        if (path := self._paths.pop(qid, None)) is not None:
            self._siblings(path).put((qid,), None)
            self._climb(path)

    def drain(self) -> Iterator[int]:
        """Take out all queues, in order."""
        while (qid := self.first()) is not None:
            yield qid
            self.remove(qid)

    def _put(self, qid: int) -> None:
        place = self._place(qid)
        path = tuple(branch for branch, _ in place.path)
        if self._paths.get(qid, path) != path:
            self.remove(qid)
        self._paths[qid] = path
        for branch, rank in place.path:
            self._set_rank(branch, rank)
        self._siblings(path).put((qid,), (((), place.key), qid))
        self._climb(path)

    def _set_rank(self, branch: Hashable, rank: Any) -> None:
        if self._ranks.get(branch) != rank:
            self._ranks[branch] = rank
            for path in list(self._stands.get(branch, ())):
                self._climb(path)

    def _siblings(self, path: tuple[Hashable, ...]) -> _Siblings:
        """The members directly below the last branch of a path."""
        at = self._top
        for branch in path:
            at = at.below.setdefault(branch, _Siblings())
        return at

    def _climb(self, path: tuple[Hashable, ...]) -> None:
        """Enter each branch of a path anew among its siblings, from below."""
        levels = [self._top]
        for branch in path:
            levels.append(levels[-1].below[branch])
        for at in range(len(path) - 1, -1, -1):
            branch, down_to_it = path[at], path[: at + 1]
            if (first := levels[at + 1].first()) is None:
                levels[at].put(branch, None)
                del levels[at].below[branch]
                self._stands[branch].discard(down_to_it)
                continue
            self._stands.setdefault(branch, set()).add(down_to_it)
            levels[at].put(branch, ((self._ranks[branch], first[0][1]), first[1]))


Entry = tuple[tuple[Any, Key], int]
"""((rank among the siblings, key of the first queue), that queue)."""


class _Siblings:
    """The branches and queues directly below one branch."""

    __slots__ = ("_entries", "_heap", "below")

    def __init__(self) -> None:
        self.below: dict[Hashable, _Siblings] = {}
        self._entries: dict[Hashable, Entry] = {}
        self._heap: list[tuple[tuple[Any, Key], int, Hashable]] = []

    def put(self, member: Hashable, entry: Entry | None) -> None:
        if entry is None:
            self._entries.pop(member, None)
        elif self._entries.get(member) != entry:
            self._entries[member] = entry
            heapq.heappush(self._heap, (*entry, member))

    def first(self) -> Entry | None:
        # Earlier entries are passed over when they come to the top.
        while self._heap:
            key, qid, member = self._heap[0]
            if self._entries.get(member) == (key, qid):
                return key, qid
            heapq.heappop(self._heap)
        return None
