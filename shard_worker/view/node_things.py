"""Named things of all nodes (host ports and the like): their usage by row, for those in use.

For each thing (host port 8080) only the rows that use it are kept, with their amounts side by side;
every other row has what the thing's kind implies. So a port costs as much as its users, not the
number of nodes, and a question about all nodes is a few array operations on those rows. What open
statements added stays on top of the records until the statement is undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shard_worker.view.columns import ALLOCATABLE, KINDS, NOMINATED, RELEASING, USED, Column
from shared.ledger.records import WIDTH, unpack_thing
from shared.units.things import DIMENSIONS, Things, Vector, implied


class Devices(NamedTuple):
    """Devices of all nodes, in one dimension, as columns ``[device][row]``."""

    names: list[str]
    """Not every node has each of them."""
    offered: NDArray[np.int64]
    """0 where a node has no such device."""
    free: NDArray[np.int64]
    """Unused and unpromised amount; below 0 where more is used than there is."""
    later: NDArray[np.int64]
    """Unpromised amount after all leaving: at least ``free``."""


class DeviceRooms(NamedTuple):
    """Devices of all nodes as columns ``[device][row]``, in their first dimension."""

    names: list[str]
    there: NDArray[np.bool_]
    """Whether the row has such a device."""
    idle: NDArray[np.int64]
    future: NDArray[np.int64]
    """Free amount now, and after all leaving and all promises; 0 where there is no such device."""


_FIRST = 8
_ENDLESS = np.iinfo(np.int64).max
UNTOLD = -1
"""Version of a thing on a row without a record, and of a row without a thing in the log."""


ReportedThing = tuple[int, str, bytes]
"""A record as it travels: (row, name, record)."""


class ThingRoom(NamedTuple):
    """How many tasks fit on some rows: once all leaving tasks have left, and now."""

    rows: NDArray[np.intp]
    future: Column
    idle: Column
    other_rows: int
    """How many fit on a row that is not among them."""

    def over(self, size: int, counts: Column) -> Column:
        """Counts of these rows (``future`` or ``idle``) expanded to all ``size`` rows."""
        room = np.full(size, self.other_rows)
        room[self.rows] = counts
        return room


class _Thing:
    """One name: the rows that have a record or an open statement of it, in no order."""

    __slots__ = ("amounts", "at", "count", "open", "rows", "versions")

    def __init__(self) -> None:
        self.at: dict[int, int] = {}
        """Row -> where it stands in the columns."""
        self.count = 0
        self.rows = np.zeros(_FIRST, dtype=np.intp)
        self.versions = np.full(_FIRST, UNTOLD, dtype=np.int64)
        self.amounts = np.zeros((len(KINDS), DIMENSIONS, _FIRST), dtype=np.int64)
        """``[kind][dimension][position]``, with what open statements added."""
        self.open = np.zeros_like(self.amounts)

    def place_of(self, row: int) -> int:
        at = self.at.get(row)
        if at is None:
            at = self.at[row] = self.count
            if at == len(self.rows):
                self._grow()
            self.rows[at], self.versions[at] = row, UNTOLD
            self.amounts[:, :, at] = self.open[:, :, at] = 0
            self.count += 1
        return at

    def _grow(self) -> None:
        self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        self.versions = np.concatenate([self.versions, np.zeros_like(self.versions)])
        self.amounts = np.concatenate([self.amounts, np.zeros_like(self.amounts)], axis=2)
        self.open = np.concatenate([self.open, np.zeros_like(self.open)], axis=2)

    def tidy(self, row: int) -> None:
        """Remove the row where nothing is left; the last one takes its place."""
        at = self.at[row]
        # Both: a record and an open statement may cancel out in `amounts` while the statement is
        # still to be undone.
        if self.amounts[:, :, at].any() or self.open[:, :, at].any():
            return
        self.count -= 1
        last = self.count
        for column in (self.rows, self.versions):
            # No order to keep, so that removing a row costs one move.
            column[at] = column[last]
        for block in (self.amounts, self.open):
            block[:, :, at] = block[:, :, last]
        self.at[int(self.rows[at])] = at
        del self.at[row]

    def room(self, asked: Vector, offered: Vector) -> ThingRoom:
        count = self.count
        future = np.full(count, _ENDLESS)
        idle = future.copy()
        for dimension, (amount, offer) in enumerate(zip(asked, offered, strict=True)):
            if amount:
                amounts = self.amounts[:, dimension, :count]
                free = np.maximum(amounts[ALLOCATABLE], offer) - amounts[USED]
                np.minimum(idle, free // amount, out=idle)
                later = free + amounts[RELEASING] - amounts[NOMINATED]
                np.minimum(future, later // amount, out=future)
        other = min((o // a for a, o in zip(asked, offered, strict=True) if a), default=_ENDLESS)
        return ThingRoom(self.rows[:count], np.maximum(future, 0), np.maximum(idle, 0), other)


_NOBODY = _Thing()


def _promised(amounts: NDArray[np.int64], *, later: bool) -> NDArray[np.int64]:
    """Part of the idle amount that promises take. Leaving amounts serve them first; ``later``:
    their rest is free, too."""
    promised: NDArray[np.int64] = amounts[NOMINATED] - amounts[RELEASING]
    return promised if later else np.maximum(promised, 0)


class NodeThings:
    """Every named thing that is in use, from the ledger's records."""

    __slots__ = ("_followed", "_names", "_things")

    def __init__(self) -> None:
        self._things: dict[str, _Thing] = {}
        self._names: dict[str, list[str]] = {}
        """Prefix -> the names of things that begin so, as they were last asked for."""
        self._followed = np.full(0, UNTOLD, dtype=np.int64)
        """By row: the newest version that the log told of any thing there.

        A thing that nobody has any more is forgotten with its version, so that names may come and
        go for ever. One number a row stands for all of them: versions are those of the node, and
        the log tells every move in order, so what is not newer than this is known, or forgotten.
        """

    # --- keeping up -----------------------------------------------------------------------------

    def set(self, reported: Iterable[ReportedThing], *, from_log: bool = False) -> list[int]:
        """Take records that are newer than the present ones; returns their rows.

        ``from_log``: they belong to the log's next entry. Others arrive by themselves (with a
        reply, in a snapshot), possibly after the log has passed changes of everything in them.
        """
        return [row for row, name, record in reported if self._set(row, name, record, from_log)]

    def _set(self, row: int, name: str, record: bytes, from_log: bool) -> bool:
        version, flat = unpack_thing(record, f"thing {row}/{name}")
        # The log comes in order, so that its entries are what `_followed` is made of; what comes by
        # itself (a reply, a snapshot) and is not newer may be of a thing that was forgotten since.
        # Without this test a reply behind the log would bring freed ports back for good (decision
        # 0038).
        if from_log:
            self._mark_followed(row, version)
        elif row < len(self._followed) and version <= self._followed[row]:
            return False
        thing = self._things.get(name)
        at = None if thing is None else thing.at.get(row)
        if thing is not None and at is not None:
            if version <= thing.versions[at]:
                return False
        elif not any(flat):
            return False
        self._take(row, name, version, flat)
        return True

    def _mark_followed(self, row: int, version: int) -> None:
        followed_count = len(self._followed)
        if row >= followed_count:
            more = np.full(max(row + 1 - followed_count, followed_count), UNTOLD, dtype=np.int64)
            self._followed = np.concatenate([self._followed, more])
        self._followed[row] = max(self._followed[row], version)

    def _take(self, row: int, name: str, version: int, flat: Sequence[int]) -> None:
        thing = self._thing(name)
        at = thing.place_of(row)
        thing.versions[at] = version
        # The record replaces what was there, but for what open statements have on top, as in the
        # columns.
        thing.amounts[:, :, at] = thing.open[:, :, at]
        for dimension in range(len(flat) // WIDTH):
            allocatable, used, observed, releasing, nominated = flat[WIDTH * dimension :][:WIDTH]
            amounts = thing.amounts[:, dimension, at]
            amounts += (allocatable, used + observed, releasing, nominated)
        self._tidy(name, row)

    def _thing(self, name: str) -> _Thing:
        thing = self._things.get(name)
        if thing is None:
            thing = self._things[name] = _Thing()
            self._names.clear()
        return thing

    def _tidy(self, name: str, row: int) -> None:
        thing = self._things[name]
        thing.tidy(row)
        if not thing.count:
            del self._things[name]
            self._names.clear()

    def shift(self, kind: int, things: Things, row: int, times: int) -> None:
        """Add ``times`` what a task takes for an open statement; its inverse is ``-times``."""
        for name, amounts in things:
            thing = self._thing(name)
            at = thing.place_of(row)
            for dimension, amount in enumerate(amounts):
                thing.amounts[kind, dimension, at] += amount * times
                thing.open[kind, dimension, at] += amount * times
            self._tidy(name, row)

    # --- questions ------------------------------------------------------------------------------

    def rooms(self, things: Things) -> Iterator[tuple[str, ThingRoom]]:
        """For each thing, how many tasks that take this much of it fit."""
        for name, amounts in things:
            thing = self._things.get(name, _NOBODY)
            yield name, thing.room(amounts, implied(name, len(amounts)))

    def counts(self, things: Things, size: int) -> tuple[Column, Column]:
        """(how many tasks fit in the future, how many now) on each of ``size`` rows."""
        future = np.full(size, _ENDLESS)
        idle = future.copy()
        for _, room in self.rooms(things):
            for counts, some in ((future, room.future), (idle, room.idle)):
                np.minimum(counts, room.over(size, some), out=counts)
        return future, idle

    def count_at(self, things: Things, row: int) -> tuple[int, int]:
        """(how many fit in the future, how many now) on one row."""
        future = idle = _ENDLESS
        for name, amounts in things:
            offered = implied(name, len(amounts))
            thing = self._things.get(name)
            at = None if thing is None else thing.at.get(row)
            for dimension, (amount, offer) in enumerate(zip(amounts, offered, strict=True)):
                if not amount:
                    continue
                declared = used = leaving = promised = 0
                if thing is not None and at is not None:
                    row_amounts = thing.amounts[:, dimension, at].tolist()
                    declared, used, leaving, promised = row_amounts
                free = max(declared, offer) - used
                idle = min(idle, max(free // amount, 0))
                future = min(future, max((free + leaving - promised) // amount, 0))
        return future, idle

    def ahead(self, things: Things, row: int) -> bool:
        """Whether none of these things is promised beyond what the row will have."""
        for name, amounts in things:
            thing = self._things.get(name)
            if thing is None or row not in thing.at:
                continue
            stored = thing.amounts[:, : len(amounts), thing.at[row]]
            offered = np.maximum(stored[ALLOCATABLE], implied(name, len(amounts)))
            if (offered - stored[USED] + stored[RELEASING] - stored[NOMINATED] < 0).any():
                return False
        return True

    def future_at(self, name: str, dimensions: int, row: int) -> list[int]:
        """Free amount of a thing on one row after all leaving and all promises, by dimension."""
        offered = np.array(implied(name, dimensions))
        thing = self._things.get(name)
        if thing is None or row not in thing.at:
            return [int(offer) for offer in offered]
        amounts = thing.amounts[:, :dimensions, thing.at[row]]
        free = np.maximum(amounts[ALLOCATABLE], offered) - amounts[USED]
        free_then: list[int] = (free + amounts[RELEASING] - amounts[NOMINATED]).tolist()
        return free_then

    def names(self, prefix: str) -> list[str]:
        """The things in use, or declared, whose names begin so. Not to be changed by the caller."""
        names = self._names.get(prefix)
        if names is None:
            names = sorted(name for name in self._things if name.startswith(prefix))
            self._names[prefix] = names
        return names

    def device_columns(self, prefix: str, size: int) -> DeviceRooms:
        """Idle and future-idle amounts of the things with this name prefix, over ``size`` rows."""
        names = self.names(prefix)
        exists = np.zeros((len(names), size), np.bool_)
        idle = np.zeros((len(names), size), np.int64)
        future = np.zeros((len(names), size), np.int64)
        for at, name in enumerate(names):
            thing = self._things[name]
            rows, amounts = thing.rows[: thing.count], thing.amounts[:, 0, : thing.count]
            has = amounts[ALLOCATABLE] > 0
            exists[at, rows] = has
            idle[at, rows] = free = np.where(has, amounts[ALLOCATABLE] - amounts[USED], 0)
            future[at, rows] = np.where(has, free + amounts[RELEASING] - amounts[NOMINATED], 0)
        return DeviceRooms(names, exists, idle, future)

    def device_rooms(self, prefix: str, row: int) -> Iterator[tuple[str, int, int]]:
        """(name, free now, free in the future) of each that one row has."""
        for name in self.names(prefix):
            thing = self._things[name]
            at = thing.at.get(row)
            if at is not None:
                offered, used, leaving, promised = thing.amounts[:, 0, at].tolist()
                if offered > 0:
                    yield name, offered - used, offered - used + leaving - promised

    def devices(self, prefix: str, dimension: int, size: int) -> Devices:
        """The things whose names begin so, over ``size`` rows."""
        names = self.names(prefix)
        offered = np.zeros((len(names), size), np.int64)
        free, later = np.zeros_like(offered), np.zeros_like(offered)
        for at, name in enumerate(names):
            offered[at] = self.offered(name, dimension + 1, size)[dimension]
            free[at] = self.free(name, dimension + 1, size)[dimension]
            later[at] = self.free(name, dimension + 1, size, later=True)[dimension]
        return Devices(names, offered, free, later)

    def free(self, name: str, dimensions: int, size: int, *, later: bool = False) -> Column:
        """Unused and unpromised amount of a thing, ``[dimension][row]``. Negative where more is
        used than there is. ``later``: after all leaving."""
        totals = np.repeat(np.array(implied(name, dimensions))[:, np.newaxis], size, axis=1)
        thing = self._things.get(name)
        if thing is not None:
            rows, amounts = thing.rows[: thing.count], thing.amounts[:, :dimensions, : thing.count]
            idle = np.maximum(amounts[ALLOCATABLE], totals[:, rows]) - amounts[USED]
            totals[:, rows] = idle - _promised(amounts, later=later)
        return totals

    def at(
        self, name: str, dimensions: int, row: int, *, later: bool = False
    ) -> tuple[Vector, Vector]:
        """(what one row offers of a thing, what is neither used nor promised of that). ``later``:
        once all that leaves has left."""
        thing = self._things.get(name)
        if thing is None or row not in thing.at:
            offered = implied(name, dimensions)
            return offered, offered
        amounts = thing.amounts[:, :dimensions, thing.at[row]]
        most = np.maximum(amounts[ALLOCATABLE], np.array(implied(name, dimensions)))
        free = most - amounts[USED] - _promised(amounts, later=later)
        return tuple(most.tolist()), tuple(free.tolist())

    def offered(self, name: str, dimensions: int, size: int) -> Column:
        """Capacity of each row for a thing, ``[dimension][row]``."""
        totals = np.repeat(np.array(implied(name, dimensions))[:, np.newaxis], size, axis=1)
        thing = self._things.get(name)
        if thing is not None:
            rows, declared = thing.rows[: thing.count], thing.amounts[ALLOCATABLE, :dimensions]
            totals[:, rows] = np.maximum(totals[:, rows], declared[:, : thing.count])
        return totals

    # --- the whole ------------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """True where no statement is open."""
        return not any(thing.open[:, :, : thing.count].any() for thing in self._things.values())

    def image(self) -> list[tuple[str, int, bytes, bytes]]:
        """Every amount and every open part, to compare by."""
        return sorted(
            (name, row, thing.amounts[:, :, at].tobytes(), thing.open[:, :, at].tobytes())
            for name, thing in self._things.items()
            for row, at in thing.at.items()
        )

    def kept(self) -> NodeThings:
        """A copy of everything, for rollbacks without a list of operations."""
        copy = NodeThings()
        copy._followed = self._followed.copy()
        for name, thing in self._things.items():
            twin = copy._things[name] = _Thing()
            twin.at, twin.count = dict(thing.at), thing.count
            for column in ("rows", "versions", "amounts", "open"):
                setattr(twin, column, getattr(thing, column).copy())
        return copy
