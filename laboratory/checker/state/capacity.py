"""Usage of nodes, recomputed from requests: the arithmetic of promise 2.

Amounts are Python integers, so that no total is rounded. Slots are lists over node rows; named
things (host ports) are stored by row and name while in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_UNNAMED = -1
"""Allocatable of a slot that a node does not declare: the class's implied amount applies."""

_Amount = tuple[int, int, "_Slot", int]
"""(slot, amount, the slot's columns, amount that a node offers without declaring it)"""


class _Slot:
    """One slot, over all node rows."""

    __slots__ = ("allocatable", "most", "nominated", "observed", "releasing", "used")

    def __init__(self, rows: int) -> None:
        self.allocatable = [_UNNAMED] * rows
        self.most = [_UNNAMED] * rows
        self.observed = [0] * rows
        self.used = [0] * rows
        self.releasing = [0] * rows
        self.nominated = [0] * rows

    def limit(self, row: int, implied: int) -> int:
        """The amount that a node offers, declared or implied."""
        declared = self.allocatable[row]
        return implied if declared == _UNNAMED else declared

    def future(self, row: int) -> int:
        """Usage once all leaving tasks have ended and all nominations are placed."""
        occupied = self.used[row] + self.observed[row]
        return occupied - self.releasing[row] + self.nominated[row]

    def grow(self, by: int) -> None:
        self.allocatable += [_UNNAMED] * by
        self.most += [_UNNAMED] * by
        for column in (self.observed, self.used, self.releasing, self.nominated):
            column.extend([0] * by)


_Named = tuple[str, list[int], list[int]]
"""(name, amounts, amounts that a node offers without declaring them), by dimension"""


class _CheckedThing:
    """One named thing of one node. Each list has one number per dimension."""

    __slots__ = ("nominated", "observed", "releasing", "used")

    def __init__(self, dimensions: int) -> None:
        self.observed = [0] * dimensions
        self.used = [0] * dimensions
        self.releasing = [0] * dimensions
        self.nominated = [0] * dimensions

    def beyond(self, limits: list[int], *, now: bool) -> bool:
        """Whether more is used (``now``) than there is, or more will be once nominations are
        placed."""
        columns = zip(
            limits, self.used, self.observed, self.releasing, self.nominated, strict=False
        )
        return any(
            (now and used + others > limit) or used + others - leaving + promised > limit
            for limit, used, others, leaving, promised in columns
        )

    @property
    def free(self) -> bool:
        return not any((*self.observed, *self.used, *self.releasing, *self.nominated))


class Nodes:
    """Usage per node and slot, and of named things."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.relieved: dict[int, float] = {}
        """Row -> when room last appeared there."""
        self.gone: set[int] = set()
        self._slots: list[_Slot] = []
        self._rows = 0
        self._classes: dict[int, list[_Amount]] = {}
        self._most: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
        """Cache of :meth:`most`, which is called for each start and end; cleared when a node
        changes."""
        self._class_things: dict[int, list[_Named]] = {}
        self._things: dict[tuple[int, str], _CheckedThing] = {}

    # --- what is known --------------------------------------------------------------------------

    def put_class(
        self, cid: int, requests: Iterable[list[int]], things: Iterable[_Named] = ()
    ) -> None:
        """Requests of a class as (slot, amount, implied); amounts of 0 are ignored."""
        self._class_things[cid] = list(things)
        self._classes[cid] = [
            (slot, amount, self._slot(slot), implied)
            for slot, amount, implied in requests
            if amount
        ]

    def put_node(self, row: int, name: str, allocatable: Iterable[list[int]]) -> None:
        self.names[row] = name
        self.gone.discard(row)
        self._most.clear()
        self._reach(row)
        self._set_all(row, _UNNAMED)
        for slot, amount in allocatable:
            column = self._slot(slot)
            column.allocatable[row] = amount
            # A node may have shrunk under what runs there: that is excess from outside, and no
            # placement of ours.
            column.most[row] = max(column.most[row], amount)

    def drop_node(self, row: int) -> None:
        self.gone.add(row)
        self._reach(row)
        self._set_all(row, 0)

    def observe(
        self, row: int, used: Iterable[list[int]], things: Iterable[tuple[str, list[int]]] = ()
    ) -> None:
        """Set the usage by others. ``used`` is complete; things that are not listed keep
        theirs."""
        self._reach(row)
        for name, amounts in things:
            self._thing(row, name, len(amounts)).observed = list(amounts)
            self._forget(row, name)
        for slot in self._slots:
            slot.observed[row] = 0
        for number, amount in used:
            self._slot(number).observed[row] = amount

    def requests(self, cid: int) -> list[tuple[int, int]]:
        return [(slot, amount) for slot, amount, _, _ in self._classes[cid]]

    def known(self, cid: int) -> bool:
        return cid in self._classes

    def has_things(self, cid: int) -> bool:
        return bool(self._class_things.get(cid))

    def has_room(self, cid: int, row: int) -> bool:
        """Whether no amount that the class requests is promised beyond what the node has."""
        return all(
            slot.future(row) <= slot.limit(row, implied)
            for _, _, slot, implied in self._classes[cid]
        )

    def most(self, cid: int, row: int) -> list[tuple[str, int, int]]:
        """(slot or thing, amount, the most that the node ever offered) for each request of a
        class."""
        amounts = self._most.get((cid, row))
        if amounts is None:
            amounts = self._most[cid, row] = list(self._find_most(cid, row))
        return amounts

    def _find_most(self, cid: int, row: int) -> Iterator[tuple[str, int, int]]:
        for number, amount, slot, implied in self._classes[cid]:
            declared = slot.most[row] if row < len(slot.most) else _UNNAMED
            yield (
                f"slot {number}",
                amount,
                implied if declared == _UNNAMED else max(declared, implied),
            )
        for name, amounts, offers in self._class_things[cid]:
            for at, (amount, offer) in enumerate(zip(amounts, offers, strict=True)):
                yield f"{name}[{at}]", amount, offer

    # --- what happens ---------------------------------------------------------------------------

    def take(self, cid: int, row: int) -> str:
        """Add one task of the class; returns the limit it exceeds, "" if it fits."""
        broken = ""
        for number, amount, slot, implied in self._classes[cid]:
            slot.used[row] += amount
            limit = slot.limit(row, implied)
            # Both bounds of promise 2: what is used now, and what is promised once everybody who is
            # leaving has left.
            if slot.used[row] + slot.observed[row] > limit or slot.future(row) > limit:
                broken = broken or self._report(number, slot, row, limit)
        return self._shift(cid, row, "used", 1) or broken

    def nominate(self, cid: int, row: int) -> str:
        """Nominate one task of the class; returns the limit it exceeds, "" if it fits."""
        broken = ""
        for number, amount, slot, implied in self._classes[cid]:
            slot.nominated[row] += amount
            limit = slot.limit(row, implied)
            if slot.future(row) > limit:
                broken = broken or self._report(number, slot, row, limit)
        return self._shift(cid, row, "nominated", 1) or broken

    def end_nomination(self, cid: int, row: int) -> None:
        for _, amount, slot, _ in self._classes[cid]:
            slot.nominated[row] -= amount
        self._shift(cid, row, "nominated", -1)

    def release(self, cid: int, row: int) -> None:
        for _, amount, slot, _ in self._classes[cid]:
            slot.releasing[row] += amount
        self._shift(cid, row, "releasing", 1)

    def free(self, cid: int, row: int, *, releasing: bool) -> None:
        for _, amount, slot, _ in self._classes[cid]:
            slot.used[row] -= amount
            if releasing:
                slot.releasing[row] -= amount
        self._shift(cid, row, "used", -1)
        if releasing:
            self._shift(cid, row, "releasing", -1)

    # --- named things ---------------------------------------------------------------------------

    def _thing(self, row: int, name: str, dimensions: int) -> _CheckedThing:
        thing = self._things.get((row, name))
        if thing is None:
            thing = self._things[row, name] = _CheckedThing(dimensions)
        return thing

    def _forget(self, row: int, name: str) -> None:
        if self._things[row, name].free:
            del self._things[row, name]

    def _shift(self, cid: int, row: int, part: str, sign: int) -> str:
        """Add named things of a class to one part; returns the limit exceeded, "" if none."""
        broken = ""
        for name, amounts, offers in self._class_things[cid]:
            thing = self._thing(row, name, len(amounts))
            column: list[int] = getattr(thing, part)
            for dimension, amount in enumerate(amounts):
                column[dimension] += sign * amount
            if sign > 0 and part != "releasing" and thing.beyond(offers, now=part == "used"):
                broken = broken or (
                    f"node {self.names.get(row, row)} {name}: used {thing.used}, by others "
                    f"{thing.observed}, releasing {thing.releasing}, nominated {thing.nominated}, "
                    f"there is {offers}"
                )
            self._forget(row, name)
        return broken

    def _report(self, number: int, slot: _Slot, row: int, limit: int) -> str:
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
