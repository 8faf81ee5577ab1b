"""The funnel: counts of the reasons why nodes of the cluster do not take a task of a class now.

Every check is an array of booleans over all rows, True where the node passes. A node is counted
under the first check that it fails, so that the counts and the fitting nodes add up to all nodes.
Cumulative ANDs from both ends give, for each check, the nodes that fail only this one, and the
tasks that could start without it. So all checks together cost three passes, whatever their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Check as Live
from shard_worker.framework.rules import Mask
from shard_worker.framework.session import Session
from shard_worker.kube_scheduler.filters.node_checks import REPELLING, SELECTOR, TAINT, tolerated
from shard_worker.view.mode import Mode
from shard_worker.view.node_reasons import FOREIGN, QUARANTINED, STALE_SPEC
from shard_worker.view.view import View
from shared.codec.packed import Count, Index, Packed, replace
from shared.model.constraints import Taint
from shared.model.model import TaskClass
from shared.units.slots import CPU, MEMORY, PODS
from shared.units.things import Things, is_port, port_text

EXAMPLES = 5
"""Maximum number of example nodes per check."""
NEAREST = 5
"""Maximum number of nodes reported as nearly fitting."""
APART = 8
"""Up to this many taints are reported one by one; more are reported as a single check."""

PROMISED = "promised to nominated jobs"
Counts = NDArray[np.int64]


class FunnelCheck(Packed, frozen=True):
    """One line of the funnel. ``slot`` is -1 unless the check is about the amount of a slot."""

    kind: str
    """foreign, stale, aside (quarantined or reserved), selector, affinity, taint, check (any other
    by class and node), live (depends on running pods), amount, thing (a host port) or promised."""
    name: str
    slot: int
    count: Count
    """Nodes that fail this check and passed all checks before it."""
    only: Count
    """Nodes that pass all other checks, and so would take a task without this one."""
    starts: Count
    """Tasks that could start now on all nodes if this check were dropped."""
    examples: list[Index]
    """Rows of some of the nodes counted."""


class NearMiss(Packed, frozen=True):
    """A node that passes every check except those of amounts, with the amounts it lacks."""

    row: Count
    lacks: list[tuple[int, int, int, int]]
    """(slot, requested, idle now, idle once leaving tasks have ended and nominations are
    placed)."""


class Funnel(Packed, frozen=True, kw_only=True):
    """The funnel of one class over all nodes of a view. The counts of all checks and ``fits`` add
    up to ``total``."""

    total: Count
    fits: Count
    """Nodes that take at least one task now."""
    starts: Count
    """Tasks that could start now if every node were filled."""
    later: Count
    """Tasks that could start once all leaving tasks have ended."""
    matching: Count
    """Nodes that pass every check except those of amounts and of running pods."""
    empty: Count
    """Tasks that the matching nodes would take if nothing ran on them."""
    idle: list[tuple[Count, int]]
    """(slot, amount): total idle amount on matching nodes."""
    scarce: list[Index] = msgspec.field(default_factory=list)
    """Slots that limit the number of tasks: more could start if a task requested nothing of this
    slot."""
    named: list[str] = msgspec.field(default_factory=list)
    """Host ports that limit the number of tasks in the same way."""
    checks: list[FunnelCheck] = msgspec.field(default_factory=list)
    """The checks that at least one node fails, in the order in which nodes are checked."""
    near: list[NearMiss] = msgspec.field(default_factory=list)
    smaller: list[tuple[Count, int]] = msgspec.field(default_factory=list)
    """(slot, amount): for each slot by itself, the largest smaller request with which the wanted
    number of tasks could start now."""


@dataclass(frozen=True, slots=True)
class _CheckResult:
    """A check and the rows that pass it, before counting."""

    kind: str
    name: str
    slot: int
    passes: Mask


@dataclass(frozen=True, slots=True)
class _SlotRoom:
    """The tasks that one requested slot, or named thing, has room for. Arrays over rows.

    The dimensions of a thing are combined: amounts are then in tasks, and a task requests 1.
    """

    slot: int
    amount: int
    free: Counts
    future: Counts
    whole: Counts
    name: str
    """The name of its check."""

    def tasks(self) -> Counts:
        """Tasks that each node could start now as far as this slot is concerned."""
        room: Counts = np.maximum(np.minimum(self.free, self.future) // self.amount, 0)
        return room


def funnel(
    cls: TaskClass,
    *,
    view: View,
    session: Session,
    mode: Mode,
    needed: int,
    live: Sequence[Live] = (),
) -> Funnel:
    """Count why nodes do not take a class. ``needed``: how many tasks of the class have to start
    together. ``live``: checks that depend on running pods, for the first of these tasks."""
    view.reserve(cls.requests)
    rooms = [_room(view, slot, amount) for slot, amount in cls.requests]
    every = [*rooms, *_things(view, cls.things)]
    static = list(_static(cls, view, session, mode))
    static += [_CheckResult("live", c.reason.removeprefix("node(s) "), -1, c.mask) for c in live]
    checks = [*static, *_amounts(every, view)]
    exists = view.exists()
    lasting, matching = exists.copy(), exists.copy()
    for check in static:
        matching &= check.passes
        if check.kind != "live":
            lasting &= check.passes
    counted, fitting = _count(checks, exists, every)
    starts = _sum(fitting, [room.tasks() for room in every])
    holding_back = [
        room
        for room in every
        if _sum(matching, [r.tasks() for r in every if r is not room]) > starts
    ]
    return Funnel(
        total=int(exists.sum()),
        fits=int(fitting.sum()),
        starts=starts,
        later=_sum(matching, [np.maximum(r.future // r.amount, 0) for r in every]),
        matching=int(lasting.sum()),
        empty=_sum(lasting, [r.whole // r.amount for r in every]),
        idle=[(r.slot, int(np.maximum(r.free, 0)[matching].sum())) for r in rooms],
        scarce=[room.slot for room in holding_back if room.slot >= 0],
        named=[room.name for room in holding_back if room.slot < 0],
        checks=counted,
        near=_nearest(matching & ~fitting, rooms),
        smaller=_smaller(matching, every, needed),
    )


# --- the checks ---------------------------------------------------------------------------------


def _static(cls: TaskClass, view: View, session: Session, mode: Mode) -> Iterator[_CheckResult]:
    """The checks by class and node alone, in the order of the policy."""
    if mode is Mode.HARD:
        yield _CheckResult("foreign", FOREIGN, -1, view.own)
    yield _CheckResult("stale", STALE_SPEC, -1, view.live() | ~view.exists())
    if view.withheld.any():
        yield _CheckResult("quarantined", QUARANTINED, -1, ~view.withheld)
    for name, passes in session.predicates(cls, view):
        if name == SELECTOR and len(cls.selector) > 1:
            yield from _pairs(cls, view, session)
        elif name == SELECTOR:
            (key, value), *_ = cls.selector
            yield _CheckResult("selector", f"label {key}={value}", -1, passes)
        elif name == TAINT:
            yield from _taints(cls, view, passes)
        else:
            kind = "affinity" if name.endswith("node affinity") else "check"
            yield _CheckResult(kind, name.removeprefix("node(s) "), -1, passes)


def _pairs(cls: TaskClass, view: View, session: Session) -> Iterator[_CheckResult]:
    """Each label of a selector as a check of its own."""
    for pair in cls.selector:
        alone = TaskClass(requests=cls.requests, selector=(pair,), tolerations=cls.tolerations)
        for name, passes in session.predicates(alone, view):
            if name == SELECTOR:
                yield _CheckResult("selector", f"label {pair[0]}={pair[1]}", -1, passes)


def _taints(cls: TaskClass, view: View, passes: Mask) -> Iterator[_CheckResult]:
    """One check per taint that repels the class, or a single one if there are more than APART."""
    column = view.taints()
    repelling: set[Taint] = {
        taint
        for taints in column.values
        for taint in taints
        if taint.effect in REPELLING and not tolerated(taint, cls.tolerations)
    }
    if len(repelling) > APART:
        yield _CheckResult("taint", "taints that are not tolerated", -1, passes)
        return
    for taint in sorted(repelling, key=lambda t: (t.key, t.value, t.effect)):
        clear = np.array([taint not in taints for taints in column.values] + [True])
        value = f"={taint.value}" if taint.value else ""
        yield _CheckResult("taint", f"taint {taint.key}{value}", -1, clear[column.codes])


def _room(view: View, slot: int, amount: int) -> _SlotRoom:
    allocatable, used, releasing, nominated = (
        view.column(kind, slot) for kind in ("allocatable", "used", "releasing", "nominated")
    )
    free = allocatable - used
    future = free + releasing - nominated
    return _SlotRoom(slot, amount, free, future, allocatable, view.slot_name(slot))


def _things(view: View, things: Things) -> Iterator[_SlotRoom]:
    for (name, amounts), (_, room) in zip(things, view.things.rooms(things), strict=True):
        offered = view.things.offered(name, len(amounts), view.size)
        whole = [have // amount for have, amount in zip(offered, amounts, strict=True) if amount]
        text = f"host port {port_text(name)}" if is_port(name) else name
        idle, future = (room.over(view.size, counts) for counts in (room.idle, room.future))
        yield _SlotRoom(-1, 1, idle, future, np.minimum.reduce(whole), text)


def _amounts(rooms: list[_SlotRoom], view: View) -> Iterator[_CheckResult]:
    """A check per slot, then one per thing, then one for room that is idle but promised by
    nominations."""
    unpromised = np.ones(view.size, dtype=np.bool_)
    for room in rooms:
        idle = room.free >= room.amount
        unpromised &= ~idle | (room.future >= room.amount)
        yield _CheckResult("thing" if room.slot < 0 else "amount", room.name, room.slot, idle)
    yield _CheckResult("promised", PROMISED, -1, unpromised)


# --- counting -----------------------------------------------------------------------------------


def _count(
    checks: list[_CheckResult], exists: Mask, rooms: list[_SlotRoom]
) -> tuple[list[FunnelCheck], Mask]:
    """The checks that keep out a node, and the nodes that pass all."""
    after = [exists]
    for check in reversed(checks):
        after.append(after[-1] & check.passes)
    after.reverse()  # after[i]: passes checks i and later
    counted: list[FunnelCheck] = []
    before = exists
    for i, check in enumerate(checks):
        failed = before & ~check.passes
        rows = np.flatnonzero(failed)
        if len(rows):
            others = before & after[i + 1]
            counted.append(
                FunnelCheck(
                    kind=check.kind,
                    name=check.name,
                    slot=check.slot,
                    count=len(rows),
                    only=int((others & ~check.passes).sum()),
                    starts=_sum(others, _without(rooms, check)),
                    examples=rows[:EXAMPLES].tolist(),
                )
            )
        before = before & check.passes
    return counted, before


def _without(rooms: list[_SlotRoom], check: _CheckResult) -> list[Counts]:
    """Tasks per node for each slot, with this check dropped."""
    if check.kind == "promised":
        return [np.maximum(room.free // room.amount, 0) for room in rooms]
    return [room.tasks() for room in rooms if (room.slot, room.name) != (check.slot, check.name)]


def _sum(rows: Mask, tasks: list[Counts]) -> int:
    """Tasks that these rows could take; the scarcest slot of each row limits it."""
    if not tasks or not rows.any():
        return int(rows.sum())
    return int(np.minimum.reduce([t[rows] for t in tasks]).sum())


# --- what is near, and what would help ------------------------------------------------------------


def _nearest(rows: Mask, rooms: list[_SlotRoom]) -> list[NearMiss]:
    """The nodes whose shortfall is the smallest relative to the request."""
    at = np.flatnonzero(rows)
    if not len(at):
        return []
    lack = np.maximum.reduce([(r.amount - r.free[at]) / r.amount for r in rooms])
    best = at[np.argsort(lack, kind="stable")[:NEAREST]]
    return [
        NearMiss(
            row,
            [
                (r.slot, r.amount, r.free.item(row), r.future.item(row))
                for r in rooms
                if min(r.free.item(row), r.future.item(row)) < r.amount
            ],
        )
        for row in best.tolist()
    ]


def _smaller(rows: Mask, rooms: list[_SlotRoom], needed: int) -> list[tuple[int, int]]:
    """Per slot, the largest request below the written one with which ``needed`` tasks could
    start."""
    smaller: list[tuple[int, int]] = []
    for room in rooms:
        if room.slot in (PODS, -1) or _sum(rows, [r.tasks() for r in rooms]) >= needed:
            continue
        others = [r.tasks() for r in rooms if r is not room]
        step = _step(room.slot, room.amount)
        low, high = 0, (room.amount - 1) // step
        while low < high:  # the largest number of steps that suffices; 0: none does
            middle = (low + high + 1) // 2
            tried = replace(room, amount=middle * step)
            if _sum(rows, [*others, tried.tasks()]) >= needed:
                low = middle
            else:
                high = middle - 1
        if low:
            smaller.append((room.slot, low * step))
    return smaller


def _step(slot: int, amount: int) -> int:
    """The step in which smaller requests are proposed, as people write them: 0.1 core, 64 Mi, one
    device."""
    if slot == CPU:
        return 100 if amount > 100 else 10
    if amount > 1 << 26:
        return 1 << 26
    return max(1, amount // 10) if slot == MEMORY else 1000
