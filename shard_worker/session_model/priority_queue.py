"""A priority queue that compares while it is used: shares change during a session.

A sort key computed when an item is pushed would be out of date by the time it is popped. This is a
binary heap over a comparison instead, evaluated anew on each push and pop. If the order changed in
between, the popped item is the first of those that the comparison passed on its way: as in the
heaps of Volcano's actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """``compare``: negative where the left one goes first. The order of equals is unspecified but
    deterministic for the same pushes and pops."""

    __slots__ = ("_compare", "_heap")

    def __init__(self, compare: Callable[[T, T], float], items: Iterable[T] = ()) -> None:
        self._compare = compare
        self._heap: list[T] = []
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, item: T) -> None:
        heap, at = self._heap, len(self._heap)
        heap.append(item)
        while at:
            above = (at - 1) // 2
            if self._compare(heap[at], heap[above]) >= 0:
                return
            heap[at], heap[above] = heap[above], heap[at]
            at = above

    def pop(self) -> T:
        """Remove and return the first item. Raises IndexError where there is none."""
        heap = self._heap
        last = heap.pop()
        if not heap:
            return last
        first, heap[0] = heap[0], last
        self._sink()
        return first

    def _sink(self) -> None:
        heap, at = self._heap, 0
        while (below := 2 * at + 1) < len(heap):
            beside = below + 1
            if beside < len(heap) and self._compare(heap[beside], heap[below]) < 0:
                below = beside
            if self._compare(heap[below], heap[at]) >= 0:
                return
            heap[at], heap[below] = heap[below], heap[at]
            at = below

    def drain(self) -> list[T]:
        """Pop everything, in order."""
        return [self.pop() for _ in range(len(self))]


class LiveQueue(PriorityQueue[T]):
    """Pops the item that is first now, however the order of the waiting ones changed: in a tree of
    queues a turn of one changes its relatives, too. Compares all of them each time."""

    __slots__ = ()

    def push(self, item: T) -> None:
        self._heap.append(item)

    def pop(self) -> T:
        """Remove and return the first item. Raises IndexError where there is none."""
        items, first = self._heap, 0
        for at in range(1, len(items)):
            if self._compare(items[at], items[first]) < 0:
                first = at
        return items.pop(first)
