"""A task class over the view: where its tasks fit and how good each node is, maintained lazily.

All rows are evaluated once; after that only rows in the view's change log. The result is one *key*
per row: the score, plus noise that breaks ties, plus :data:`IDLE` if the task fits now and not only
in the future. So the best row of a level is the top of a
:class:`~shard_worker.placement.block_maxima.BlockMaxima`, one for the own shard's rows, one for the
others'.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.session import Session
from shard_worker.placement.block_maxima import UNPICKABLE, BlockMaxima, Keys, noise
from shard_worker.view.columns import ALLOCATABLE, NOMINATED, RELEASING, USED
from shard_worker.view.mode import Mode
from shard_worker.view.node_reasons import FOREIGN, NO_DEVICE, PARTLY, QUARANTINED, STALE_SPEC
from shard_worker.view.view import View
from shared.messages.messages import Level
from shared.messages.reason import Reason
from shared.messages.skips import written
from shared.model.model import Requests
from shared.units.quantity import quantity
from shared.units.things import Things, lacking

IDLE = 2.0**20
"""Added to the key of a row that fits now, so that every idle row sorts before every future one."""
SCORE_LIMIT = 2.0**18
"""Scores are clipped to +- this, so that no score can outweigh a level."""
FEW = 6
"""Up to this many changed rows are evaluated one by one; more are evaluated as arrays."""

REMEMBERED = 1 << 14
"""Cached results by row state."""
_State = tuple[Hashable, ...]
"""The state of a row: amounts and look code; for classes with named things also how many tasks fit
in the future, and now; for those with devices what each has left."""
SomeRows = NDArray[np.intp] | slice


def too_large(requests: Requests, view: View, matching: NDArray[np.bool_]) -> str:
    """The message for a task that requests more than any matching node has, even when empty."""
    names = []
    for slot, amount in requests:
        most = int(view.column("allocatable", slot)[matching].max())
        if most < amount:
            name = view.slot_name(slot)
            names.append(
                f"{quantity(name, amount)} {name} (the largest has {quantity(name, most)})"
            )
    excess = " and ".join(names) or "more at once"
    count = int(matching.sum())
    return f"one task asks {excess}, which none of the {count} matching nodes has even when empty"


class Compiled:
    """One task class, evaluated on every row of one view."""

    __slots__ = (
        "_amounts",
        "_checks",
        "_columns",
        "_counts",
        "_cursor",
        "_devices",
        "_idle",
        "_judged",
        "_levels",
        "_local",
        "_looks",
        "_noise",
        "_own",
        "_reasons",
        "_revision",
        "_session",
        "_static",
        "_view",
        "cid",
        "mode",
        "other",
        "own",
        "requests",
        "room",
        "spec",
    )

    def __init__(
        self, cid: int, *, view: View, session: Session, mode: Mode, noise_of: Keys
    ) -> None:
        """``noise_of``: at least as long as the view; see
        :func:`shard_worker.placement.block_maxima.noise`."""
        self.cid = cid
        self.spec = view.classes[cid]
        self.requests = self.spec.requests
        self.mode = mode
        self._view = view
        self._session = session
        self._noise = noise_of
        self._amounts = tuple(amount for _, amount in self.requests)
        self._levels = session.flat.levels
        rule = session.flat.devices
        self._devices = rule if rule is not None and rule.concerns(self.spec, view) else None
        self._reasons: tuple[int, dict[str, int]] | None = None
        self._judge_all()
        self._cursor = view.changes.end

    # --- catching up --------------------------------------------------------------------------

    @property
    def current(self) -> bool:
        """Whether :meth:`refresh` can bring it up to date. False if specs or the arrays changed
        since it was compiled."""
        return self._revision == self._view.revision

    def refresh(self) -> None:
        """Evaluate the rows that changed since the last time."""
        changes = self._view.changes
        if self._cursor == changes.end:
            return
        rows = changes.since(self._cursor)
        self._cursor = changes.end
        # Where a score compares nodes with each other, one changed row moves the scores of all.
        if rows is None or not self._local:
            self._judge_all()
            return
        distinct = set(rows)
        if len(distinct) <= FEW:
            for row in distinct:
                self._judge_row(row)
        else:
            self._judge_rows(np.fromiter(distinct, dtype=np.intp, count=len(distinct)))

    def _judge_all(self) -> None:
        """Evaluate every row: static masks, room, scores."""
        view = self._view
        view.reserve(self.requests)
        self._checks = self._session.predicates(self.spec, view)
        score = self._session.score(self.spec, view, slice(None))
        self._static = self._pass_static()
        kinds = view.columns.views
        self._columns = tuple(
            (
                kinds[ALLOCATABLE][slot],
                kinds[USED][slot],
                kinds[RELEASING][slot],
                kinds[NOMINATED][slot],
                amount,
            )
            for slot, amount in self.requests
        )
        # A copy: the maxima were split by it, and a change of the partition comes with a new
        # revision.
        self._own = view.own.copy() if self.mode is Mode.SOFT else np.ones(view.size, np.bool_)
        self._local = self._session.scores_node_locally
        by_look = self._session.scores_by_look(self.spec, view)
        self._looks = view.looks().codes if by_look else np.arange(view.size)
        self._judged: dict[_State, tuple[int, bool, float]] = {}
        every = slice(view.size)
        self._counts, idle = self._room_of(every)
        self.room = int(self._counts.sum())
        """Tasks of this class that all nodes together could take, now or in the future."""
        self._idle = idle
        keys = self._keys(every, score, self._counts, idle)
        split = self.mode is Mode.SOFT and self._levels is None
        self.own = BlockMaxima(np.where(self._own, keys, UNPICKABLE) if split else keys)
        self.other = BlockMaxima(np.where(self._own, UNPICKABLE, keys)) if split else None
        self._revision = view.revision

    def _pass_static(self) -> NDArray[np.bool_]:
        passed = self._view.live() & ~self._view.withheld
        if self.mode is Mode.HARD:
            passed &= self._view.own
        for _, mask in self._checks:
            passed &= mask
        return passed

    def _room_of(self, rows: SomeRows) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(how many tasks fit in the future, does one fit now) for each of ``rows``."""
        static = self._static[rows]
        counts = np.where(static, np.iinfo(np.int64).max, 0)
        idle = static.copy()
        for allocatable, used, releasing, nominated, amount in self._columns:
            free = allocatable[rows] - used[rows]
            idle &= free >= amount
            np.minimum(counts, (free + releasing[rows] - nominated[rows]) // amount, out=counts)
        if self.spec.things:
            future, now = self._view.things.counts(self.spec.things, self._view.size)
            np.minimum(counts, future[rows], out=counts)
            idle &= now[rows] > 0
        if self._devices is not None:
            future, now = self._devices.counts(self.spec, self._view)
            np.minimum(counts, future[rows], out=counts)
            idle &= now[rows] > 0
        np.maximum(counts, 0, out=counts)
        return counts, idle

    def _keys(
        self,
        rows: SomeRows,
        score: Keys,
        counts: NDArray[np.int64],
        idle: NDArray[np.bool_],
    ) -> Keys:
        """As :meth:`_judge_state` computes them, with the noise: the same to the last bit."""
        keys: Keys = np.clip(score, -SCORE_LIMIT, SCORE_LIMIT)
        keys += idle * (IDLE if self._levels is None else self._levels.idle)
        if self._levels is not None and self.mode is Mode.SOFT:
            keys += self._own[rows] * self._levels.own
        keys += self._noise[rows]
        keys[counts == 0] = UNPICKABLE
        return keys

    def _judge_rows(self, rows: NDArray[np.intp]) -> None:
        """Judge these rows (no repetition) anew."""
        counts, idle = self._room_of(rows)
        self.room += int(counts.sum() - self._counts[rows].sum())
        self._counts[rows], self._idle[rows] = counts, idle
        score = self._session.score(self.spec, self._view, rows)
        keys = self._keys(rows, score, counts, idle)
        if self.other is None:
            self.own.set_many(rows, keys)
            return
        own_mask = self._own[rows]
        self.own.set_many(rows[own_mask], keys[own_mask])
        self.other.set_many(rows[~own_mask], keys[~own_mask])

    def _judge_row(self, row: int) -> None:
        """:meth:`_judge_rows` of one row, without NumPy's cost per call."""
        # A row that a static check excludes has no key to move: masks change with the revision
        # alone.
        if not self._static.item(row):
            return
        state: _State = (self._view.columns.state(row), self._looks.item(row))
        if self.spec.things:
            fitting = self._view.things.count_at(self.spec.things, row)
            state = (*state, *fitting)
        if self._devices is not None:
            state = (*state, *self._devices.rooms(self._view, row))
        # After a placement nodes of one kind with equal amounts recur all the time: one score
        # serves them all. Noise is added after, as it differs from row to row.
        judged = self._judged.get(state)
        if judged is None:
            if len(self._judged) >= REMEMBERED:
                self._judged.clear()
            judged = self._judged[state] = self._judge_state(row)
        fits, idle, key = judged
        if self._levels is not None and self.mode is Mode.SOFT:
            key += self._own.item(row) * self._levels.own
        key += self._noise.item(row)
        self._idle[row] = idle
        self.room += fits - self._counts.item(row)
        self._counts[row] = fits
        if self.other is None or self._own.item(row):
            self.own.set(row, key)
        else:
            self.other.set(row, key)

    def _judge_state(self, row: int) -> tuple[int, bool, float]:
        """(how many tasks fit in the future, does one fit now, key without noise and what depends
        on the shard) of a row that passes the masks.

        Rows in the same state get the same answer, so it is computed once for all of them.
        """
        fits = -1
        idle = True
        for allocatable, used, releasing, nominated, amount in self._columns:
            free = allocatable.item(row) - used.item(row)
            if free < amount:
                idle = False
            count = (free + releasing.item(row) - nominated.item(row)) // amount
            if fits < 0 or count < fits:
                fits = max(count, 0)
        if self.spec.things:
            future, now = self._view.things.count_at(self.spec.things, row)
            fits = min(fits, future) if self._columns else future
            idle &= now > 0
        if self._devices is not None:
            rooms = self._devices.rooms(self._view, row)
            future, now = self._devices.count_at(self.spec, self._view, row, rooms)
            fits = min(fits, future)
            idle &= now > 0
        if not fits:
            return 0, False, UNPICKABLE
        score = self._session.score_row(self.spec, self._view, row)
        # The same operations in the same order as `_keys`: a row judged alone must get the very key
        # that it gets among many, or the choice between equals would depend on how many rows had
        # changed.
        key = min(max(score, -SCORE_LIMIT), SCORE_LIMIT)
        if idle:
            key += IDLE if self._levels is None else self._levels.idle
        return fits, idle, key

    # --- questions ----------------------------------------------------------------------------

    def fits(self, row: int) -> tuple[bool, bool]:
        """(fits now, fits in the future) on one row, by all rules."""
        if row >= self._view.size or self._counts.item(row) == 0:
            return False, False
        return self._idle.item(row), True

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many tasks fit each row in the future, each row by itself. Callers must not change
        it."""
        return self._counts

    def by_score(self, row: int) -> Level | None:
        """The level of a row where one sum of scores decides; None where the levels do."""
        if self._levels is None:
            return None
        if self._idle.item(row):
            return Level.IDLE_OWN if self._own.item(row) else Level.IDLE_OTHER
        return Level.FUTURE_OWN if self._own.item(row) else Level.FUTURE_OTHER

    def devices_at(self, row: int) -> tuple[Things, bool] | None:
        """(what a task takes of the row's devices, whether they have room now)"""
        if self._devices is None:
            return (), True
        return self._devices.choose(self.spec, self._view, row)

    def kept_at(self, row: int) -> Things | None:
        """The devices of a row that a task takes now by a promise of its own; None where it has to
        wait, or takes none."""
        if self._devices is None or self._counts.item(row) == 0:
            return None
        for allocatable, used, _, _, amount in self._columns:
            if allocatable.item(row) - used.item(row) < amount:
                return None
        things = self.spec.things
        if things and self._view.things.count_at(things, row)[1] <= 0:
            return None
        chosen = self._devices.choose(self.spec, self._view, row, promised=True)
        return chosen[0] if chosen is not None and chosen[1] else None

    def is_own(self, row: int) -> bool:
        """Does the mode treat this row as one of the shard's own?"""
        return bool(self._own.item(row))

    def levels(self) -> list[tuple[Level, NDArray[np.intp]]]:
        """The rows of each level of the gradient, evaluated now; for explanations."""
        counts, idle = self._room_of(slice(self._view.size))
        fits = counts > 0
        idle &= fits
        future = fits & ~idle
        return [
            (Level.IDLE_OWN, np.flatnonzero(idle & self._own)),
            (Level.IDLE_OTHER, np.flatnonzero(idle & ~self._own)),
            (Level.FUTURE_OWN, np.flatnonzero(future & self._own)),
            (Level.FUTURE_OTHER, np.flatnonzero(future & ~self._own)),
        ]

    def reasons(self) -> dict[str, int]:
        """Why nodes do not take a task of this class now: reason -> nodes, each node once.

        The first reason of a node counts, in this order: another shard's node (hard mode), static
        checks in the policy's order, then the first requested slot that is short.
        """
        if self._reasons is None or self._reasons[0] != self._cursor:
            self._reasons = (self._cursor, self._count_reasons())
        return self._reasons[1]

    def _count_reasons(self) -> dict[str, int]:
        view = self._view
        remaining = view.exists()
        counts: dict[str, int] = {}

        def charge(reason: str, failed: NDArray[np.bool_]) -> None:
            failed = failed & remaining
            count = int(failed.sum())
            if count:
                counts[reason] = counts.get(reason, 0) + count
                np.logical_and(remaining, ~failed, out=remaining)

        if self.mode is Mode.HARD:
            charge(FOREIGN, ~view.own)
        charge(STALE_SPEC, ~view.live())
        charge(QUARANTINED, view.withheld)
        for reason, mask in self._checks:
            charge(reason, ~mask)
        large = remaining.copy()
        for allocatable, *_, amount in self._columns:
            large &= allocatable >= amount
        if remaining.any() and not large.any():
            charge(
                written(Reason.EXCEEDS_NODE_CAPACITY, too_large(self.requests, view, remaining)),
                remaining,
            )
        for (slot, _), columns in zip(self.requests, self._columns, strict=True):
            allocatable, used, releasing, nominated, amount = columns
            short = allocatable - used + releasing - nominated < amount
            charge(f"Insufficient {view.slot_name(slot)}", short)
        for name, room in view.things.rooms(self.spec.things):
            charge(lacking(name), room.over(view.size, room.future) < 1)
        if self._devices is not None:
            charge(NO_DEVICE, self._devices.counts(self.spec, view)[0] < 1)
        charge(PARTLY, remaining)
        return counts


class CompiledClasses:
    """The compiled classes of a view; the least recently used are forgotten."""

    def __init__(
        self, *, view: View, session: Session, mode: Mode, seed: int | None, limit: int = 64
    ) -> None:
        """``limit``: compiled classes kept; each costs about 30 bytes per node. ``seed`` None: of
        equal nodes always the first."""
        self.view = view
        self.session = session
        self.mode = mode
        self.seed = seed
        self._limit = limit
        self._kept: dict[int, Compiled] = {}
        self._noise: Keys = np.zeros(0)

    def get(self, cid: int) -> Compiled:
        """The compiled class, up to date with the view. KeyError if the view does not know it."""
        compiled = self._kept.get(cid)
        if compiled is not None and compiled.current:
            # A dict keeps the order of insertion: put in again, the class is the last to be
            # forgotten.
            self._kept[cid] = self._kept.pop(cid)
            compiled.refresh()
            return compiled
        if len(self._noise) < self.view.size:
            # Room for a view that grows, so that its noise is not computed anew for each added
            # node. The beginning stays the same: noise depends on seed and row alone.
            size = 2 * self.view.size
            self._noise = np.zeros(size) if self.seed is None else noise(self.seed, size)
        self._kept.pop(cid, None)
        compiled = Compiled(
            cid, view=self.view, session=self.session, mode=self.mode, noise_of=self._noise
        )
        self._kept[cid] = compiled
        if len(self._kept) > self._limit:
            del self._kept[next(iter(self._kept))]
        return compiled

    def forget(self, cids: Iterable[int]) -> None:
        """Compile these classes anew when they are next needed: a rule raised while rows of them
        were evaluated."""
        for cid in cids:
            self._kept.pop(cid, None)
