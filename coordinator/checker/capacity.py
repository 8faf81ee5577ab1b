"""What nodes and queues hold, added up anew from requests: the arithmetic behind promise 2.

Amounts are Python integers, so that no total is ever rounded. Nodes are kept by slot, each slot a
list over node rows.
"""

from __future__ import annotations

from collections.abc import Iterable

_UNNAMED = -1
"""Allocatable of a slot that a node does not mention: what its class of requests implies."""

_Amount = tuple[int, int, "_Slot", int]
"""(slot, amount, the slot's columns, what a node offers without saying so)"""


class _Slot:
    """One slot over all node rows."""

    __slots__ = ("allocatable", "nominated", "observed", "releasing", "used")

    def __init__(self, rows: int) -> None:
        self.allocatable = [_UNNAMED] * rows
        self.observed = [0] * rows
        self.used = [0] * rows
        self.releasing = [0] * rows
        self.nominated = [0] * rows

    def limit(self, row: int, implied: int) -> int:
        """What a node offers, said or implied."""
        said = self.allocatable[row]
        return implied if said == _UNNAMED else said

    def future(self, row: int) -> int:
        """What will be in use when all that is ending has ended and all nominations came true."""
        held = self.used[row] + self.observed[row]
        return held - self.releasing[row] + self.nominated[row]

    def grow(self, by: int) -> None:
        self.allocatable += [_UNNAMED] * by
        for column in (self.observed, self.used, self.releasing, self.nominated):
            column.extend([0] * by)


class Nodes:
    """Usage per node and slot."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self._slots: list[_Slot] = []
        self._rows = 0
        self._classes: dict[int, list[_Amount]] = {}

    # --- what is known --------------------------------------------------------------------------

    def put_class(self, cid: int, requests: Iterable[list[int]]) -> None:
        """Requests of a class as (slot, amount, implied); amounts of 0 ask for nothing."""
        self._classes[cid] = [
            (slot, amount, self._slot(slot), implied)
            for slot, amount, implied in requests
            if amount
        ]

    def put_node(self, row: int, name: str, allocatable: Iterable[list[int]]) -> None:
        self.names[row] = name
        self._reach(row)
        self._set_all(row, _UNNAMED)
        for slot, amount in allocatable:
            self._slot(slot).allocatable[row] = amount

    def drop_node(self, row: int) -> None:
        self._reach(row)
        self._set_all(row, 0)

    def observe(self, row: int, used: Iterable[list[int]]) -> None:
        self._reach(row)
        for slot in self._slots:
            slot.observed[row] = 0
        for number, amount in used:
            self._slot(number).observed[row] = amount

    def requests(self, cid: int) -> list[tuple[int, int]]:
        return [(slot, amount) for slot, amount, _, _ in self._classes[cid]]

    # --- what happens ---------------------------------------------------------------------------

    def take(self, cid: int, row: int) -> str:
        """Use one request of the class; returns what it broke, "" where it fits."""
        broken = ""
        for number, amount, slot, implied in self._classes[cid]:
            slot.used[row] += amount
            limit = slot.limit(row, implied)
            if slot.used[row] + slot.observed[row] > limit or slot.future(row) > limit:
                broken = broken or self._tell(number, slot, row, limit)
        return broken

    def nominate(self, cid: int, row: int) -> str:
        """Reserve one request of the future; returns what it broke, "" where it fits."""
        broken = ""
        for number, amount, slot, implied in self._classes[cid]:
            slot.nominated[row] += amount
            limit = slot.limit(row, implied)
            if slot.future(row) > limit:
                broken = broken or self._tell(number, slot, row, limit)
        return broken

    def end_nomination(self, cid: int, row: int) -> None:
        for _, amount, slot, _ in self._classes[cid]:
            slot.nominated[row] -= amount

    def release(self, cid: int, row: int) -> None:
        for _, amount, slot, _ in self._classes[cid]:
            slot.releasing[row] += amount

    def free(self, cid: int, row: int, *, releasing: bool) -> None:
        for _, amount, slot, _ in self._classes[cid]:
            slot.used[row] -= amount
            if releasing:
                slot.releasing[row] -= amount

    def _tell(self, number: int, slot: _Slot, row: int, limit: int) -> str:
        others = f" + {slot.observed[row]} of others" if slot.observed[row] else ""
        return (
            f"node {self.names.get(row, row)} slot {number}: used {slot.used[row]}{others}, "
            f"releasing {slot.releasing[row]}, nominated {slot.nominated[row]}, "
            f"allocatable {limit}"
        )

    def _slot(self, number: int) -> _Slot:
        while len(self._slots) <= number:
            self._slots.append(_Slot(self._rows))
        return self._slots[number]

    def _reach(self, row: int) -> None:
        if row >= self._rows:
            by = max(row + 1, 2 * self._rows) - self._rows
            for slot in self._slots:
                slot.grow(by)
            self._rows += by

    def _set_all(self, row: int, amount: int) -> None:
        for slot in self._slots:
            slot.allocatable[row] = amount


class _Queue:
    __slots__ = ("capability", "guarantee", "leaving", "parent", "used")

    def __init__(self) -> None:
        self.parent = -1
        self.capability: dict[int, int] = {}
        self.guarantee: dict[int, int] = {}
        self.used: dict[int, int] = {}
        self.leaving: dict[int, int] = {}
        """The part of what is used that is releasing."""


class Queues:
    """Usage per queue; what a leaf uses, its ancestors use too."""

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}

    def put(
        self,
        qid: int,
        parent: int,
        capability: Iterable[list[int]] | None,
        guarantee: Iterable[list[int]] = (),
    ) -> None:
        """A queue that moves takes its usage with it."""
        queue = self._queues.setdefault(qid, _Queue())
        queue.capability = {limit[0]: limit[1] for limit in capability or ()}
        queue.guarantee = {kept[0]: kept[1] for kept in guarantee}
        if queue.parent != parent:
            used, leaving = list(queue.used.items()), list(queue.leaving.items())
            self.charge(queue.parent, used, -1)
            self.leave(queue.parent, leaving, -1)
            queue.parent = parent
            self.charge(parent, used, 1)
            self.leave(parent, leaving, 1)

    def leave(self, qid: int, requests: list[tuple[int, int]], times: int) -> None:
        """Requests begin to leave a queue and its ancestors, or (below 0) have left."""
        while (queue := self._queues.get(qid)) is not None:
            for slot, amount in requests:
                queue.leaving[slot] = queue.leaving.get(slot, 0) + amount * times
            qid = queue.parent

    def robbed(self, qid: int) -> str:
        """Which queue, from this one up, keeps less than is guaranteed to it; "" where none."""
        while (queue := self._queues.get(qid)) is not None:
            for slot, kept in queue.guarantee.items():
                stays = queue.used.get(slot, 0) - queue.leaving.get(slot, 0)
                if stays < kept:
                    return f"queue {qid} slot {slot}: {stays} stay, {kept} are guaranteed"
            qid = queue.parent
        return ""

    def drop(self, qid: int) -> str:
        """The queue is gone; returns what was still in it, "" where nothing was."""
        queue = self._queues.pop(qid, None)
        used = {} if queue is None else {slot: n for slot, n in queue.used.items() if n}
        return f"queue {qid} is gone, but {used} of it is in use" if used else ""

    def charge(self, qid: int, requests: list[tuple[int, int]], times: int) -> str:
        """Add requests to a queue and its ancestors; returns what it broke, "" where it fits."""
        broken = ""
        while (queue := self._queues.get(qid)) is not None:
            for slot, amount in requests:
                used = queue.used[slot] = queue.used.get(slot, 0) + amount * times
                limit = queue.capability.get(slot)
                if limit is not None and used > limit and not broken:
                    broken = f"queue {qid} slot {slot}: used {used}, capability {limit}"
            qid = queue.parent
        return broken
