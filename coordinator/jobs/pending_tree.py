"""The lines of one queue in job order, searched for the first whose need fits into the room.

A treap: a search tree by the first entry of each line, balanced by seeded random numbers. Every
node has the minimum over the lines below it of each requested resource, so that a search skips
whole branches without room. With needs that differ in one resource, or in several that grow
together, that finds the first line, or that there is none, in the depth of the tree: some 30 looks
for 20,000 lines where the scan takes 20,000. Needs that trade one resource for another can prevent
the skipping (each branch has a line with little of the one and a line with little of the other);
the search is then as long as the scan at worst.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Generic, TypeVar

from shard_worker.session_model.workload import Amounts

L = TypeVar("L")
"""The type of a line: opaque to the tree."""

LineKey = tuple[float, ...]
Entry = tuple[LineKey, float, int, int]
"""(job key, created, jid, stamp): the order of a line."""

Room = Mapping[int, float]
"""slot -> the most that a line may request; a missing slot has no limit."""

SEED = 1
"""Seed of the balance; no result depends on it."""

NO_LIMIT = float("inf")


class LineNode(Generic[L]):
    """A line in the tree. ``key``: its first entry when it was inserted; never later in order than
    its present one."""

    __slots__ = ("asks", "key", "least", "left", "line", "right", "weight")

    def __init__(self, line: L, key: Entry, asks: Amounts, weight: float) -> None:
        self.line = line
        self.key = key
        self.asks = asks
        self.weight = weight
        self.left: LineNode[L] | None = None
        self.right: LineNode[L] | None = None
        self.least = asks
        """Per slot that every line of the branch asks for: the least of it."""

    def pull(self) -> None:
        """Recompute ``least`` from both branches."""
        least = self.asks
        for branch in (self.left, self.right):
            if branch is not None:
                branch_least = branch.least
                least = {
                    slot: amount if amount < branch_least[slot] else branch_least[slot]
                    for slot, amount in least.items()
                    if slot in branch_least
                }
        self.least = least


class LineTree(Generic[L]):
    def __init__(self) -> None:
        self._root: LineNode[L] | None = None
        self._weights = Random(SEED)
        self.looks = 0
        """Nodes that searches looked at, since the start."""

    # --- what is in it --------------------------------------------------------------------------

    def add(self, line: L, key: Entry, asks: Amounts) -> LineNode[L]:
        """Insert a line by its first entry. ``asks``: the amounts that need room."""
        # Random weights keep the tree flat in whatever order lines arrive; seeded, so that two runs
        # look at the same nodes.
        node = LineNode(line, key, asks, self._weights.random())
        self._root = _insert(self._root, node)
        return node

    def remove(self, node: LineNode[L]) -> None:
        self._root = _delete(self._root, node)

    def move(self, node: LineNode[L], key: Entry) -> None:
        """The line's first entry has changed."""
        self._root = _delete(self._root, node)
        node.key, node.left, node.right = key, None, None
        node.least = node.asks
        self._root = _insert(self._root, node)

    def ask(self, node: LineNode[L], asks: Amounts) -> None:
        """The amounts that need room have changed."""
        node.asks = asks
        way = []
        at = self._root
        while at is not None and at is not node:
            way.append(at)
            at = at.left if node.key < at.key else at.right
        node.pull()
        for above in reversed(way):
            above.pull()

    # --- who is first ---------------------------------------------------------------------------

    def first(self, room: Room) -> LineNode[L] | None:
        """The first line, by the nodes' keys, whose request fits into the room."""
        node, looks = self._root, 0
        way: list[LineNode[L]] = []
        fitting: LineNode[L] | None = None
        while fitting is None:
            while node is not None:
                looks += 1
                # The whole branch is left out: each of its lines asks for at least this much.
                if not _within(node.least, room):
                    break
                way.append(node)
                node = node.left
            if not way:
                break
            last = way.pop()
            if _within(last.asks, room):
                fitting = last
            node = last.right
        self.looks += looks
        return fitting

    def __iter__(self) -> Iterator[LineNode[L]]:
        """All nodes by their keys. The tree must not change meanwhile."""
        node = self._root
        way: list[LineNode[L]] = []
        while node is not None or way:
            while node is not None:
                way.append(node)
                node = node.left
            node = way.pop()
            yield node
            node = node.right


def _within(asks: Amounts, room: Room) -> bool:
    for slot, amount in asks.items():  # noqa: SIM110 (half the time of all(...), asked at each node)
        if amount > room.get(slot, NO_LIMIT):
            return False
    return True


def _insert(at: LineNode[L] | None, node: LineNode[L]) -> LineNode[L]:
    if at is None:
        return node
    if node.weight > at.weight:
        node.left, node.right = _split(at, node.key)
        node.pull()
        return node
    if node.key < at.key:
        at.left = _insert(at.left, node)
    else:
        at.right = _insert(at.right, node)
    at.pull()
    return at


def _delete(at: LineNode[L] | None, node: LineNode[L]) -> LineNode[L] | None:
    assert at is not None, node.key
    if at is node:
        return _merge(at.left, at.right)
    if node.key < at.key:
        at.left = _delete(at.left, node)
    else:
        at.right = _delete(at.right, node)
    at.pull()
    return at


def _split(at: LineNode[L] | None, key: Entry) -> tuple[LineNode[L] | None, LineNode[L] | None]:
    """The entries before the key, and those after it."""
    if at is None:
        return None, None
    if at.key < key:
        at.right, after = _split(at.right, key)
        at.pull()
        return at, after
    before, at.left = _split(at.left, key)
    at.pull()
    return before, at


def _merge(before: LineNode[L] | None, after: LineNode[L] | None) -> LineNode[L] | None:
    if before is None or after is None:
        return before or after
    if before.weight > after.weight:
        before.right = _merge(before.right, after)
        before.pull()
        return before
    after.left = _merge(before, after.left)
    after.pull()
    return after
