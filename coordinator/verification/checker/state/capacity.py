"""What nodes hold, added up anew from requests: the arithmetic behind promise 2.

Amounts are Python integers, so that no total is ever rounded. Nodes are kept by slot, each slot a
list over node rows; named things (host ports) by row and name, as long as somebody has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_UNNAMED = -1
"""Allocatable of a slot that a node does not mention: what its class of requests implies."""

_Amount = tuple[int, int, "_Slot", int]
"""(slot, amount, the slot's columns, what a node offers without saying so)"""


class _Slot:
    """One slot over all node rows."""

    __slots__ = ("allocatable", "most", "nominated", "observed", "releasing", "used")

    def __init__(self, rows: int) -> None:
        self.allocatable = [_UNNAMED] * rows
        self.most = [_UNNAMED] * rows
        self.observed = [0] * rows
        self.used = [0] * rows
        self.releasing = [0] * rows
        self.nominated = [0] * rows

    def limit(self, row: int, implied: int) -> int:
        """What a node offers, said or implied."""
        declared = self.allocatable[row]
        return implied if declared == _UNNAMED else declared

    def future(self, row: int) -> int:
        """What will be in use when all that is ending has ended and all nominations came true."""
        occupied = self.used[row] + self.observed[row]
        return occupied - self.releasing[row] + self.nominated[row]

    def grow(self, by: int) -> None:
        self.allocatable += [_UNNAMED] * by
        self.most += [_UNNAMED] * by
        for column in (self.observed, self.used, self.releasing, self.nominated):
            column.extend([0] * by)


_Named = tuple[str, list[int], list[int]]
"""(name, amounts, what a node offers without saying so), by dimension"""


class _CheckedThing:
    """One named thing of one node. Each list is one number for each dimension."""

    __slots__ = ("nominated", "observed", "releasing", "used")

    def __init__(self, dimensions: int) -> None:
        self.observed = [0] * dimensions
        self.used = [0] * dimensions
        self.releasing = [0] * dimensions
        self.nominated = [0] * dimensions

    def beyond(self, limits: list[int], *, now: bool) -> bool:
        """Is more used (``now``) than there is, or will more be once promises are kept?"""
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
        self.gone: set[int] = set()
        self._slots: list[_Slot] = []
        self._rows = 0
        self._classes: dict[int, list[_Amount]] = {}
        self._most: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
        """Answers of :meth:`most`, asked for each start and end; emptied when a node changes."""
        self._class_things: dict[int, list[_Named]] = {}
        self._things: dict[tuple[int, str], _CheckedThing] = {}

    # --- what is known --------------------------------------------------------------------------

    def put_class(
        self, cid: int, requests: Iterable[list[int]], things: Iterable[_Named] = ()
    ) -> None:
        """Requests of a class as (slot, amount, implied); amounts of 0 ask for nothing."""
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
            column.most[row] = max(column.most[row], amount)

    def drop_node(self, row: int) -> None:
        self.gone.add(row)
        self._reach(row)
        self._set_all(row, 0)

    def observe(
        self, row: int, used: Iterable[list[int]], things: Iterable[tuple[str, list[int]]] = ()
    ) -> None:
        """``used`` is all that others use; of things not named, theirs stay what they were."""
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

    def most(self, cid: int, row: int) -> list[tuple[str, int, int]]:
        """(slot or thing, amount, the most that the node ever offered of it) of what a class
        takes."""
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
        """Use one request of the class; returns what it broke, "" where it fits."""
        broken = ""
        for number, amount, slot, implied in self._classes[cid]:
            slot.used[row] += amount
            limit = slot.limit(row, implied)
            if slot.used[row] + slot.observed[row] > limit or slot.future(row) > limit:
                broken = broken or self._tell(number, slot, row, limit)
        return self._shift(cid, row, "used", 1) or broken

    def nominate(self, cid: int, row: int) -> str:
        """Reserve one request of the future; returns what it broke, "" where it fits."""
        broken = ""
        for number, amount, slot, implied in self._classes[cid]:
            slot.nominated[row] += amount
            limit = slot.limit(row, implied)
            if slot.future(row) > limit:
                broken = broken or self._tell(number, slot, row, limit)
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
        """Add what a class takes of named things to one part; returns what that broke."""
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
