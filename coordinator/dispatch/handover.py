"""Handover: nodes change shards without ever being owned by two.

Two phases. First the ledger records rows as *moving*: neither giver nor taker starts anything new
on them as their owner (in soft mode they count as another shard's nodes for everybody). When the
last statement that the giver may have planned earlier is decided, the rows become the taker's.

When is that? A worker reads the log to its end before each call, and decides every statement of a
call before it answers. So no call may be open that was sent before the move was published, and the
giver's live worker must have reported a log position behind it. A dead worker does not count: its
epoch was revoked before its calls were closed.

No part of this is in memory only. A new leader finds the moving rows in the ledger, revokes every
earlier epoch, and finishes the move.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coordinator.dispatch.dispatcher import ShardState
from coordinator.dispatch.partition import NOBODY, Shards
from shared.ledger.entries.intake_batch import Move, PutPartition
from shared.ledger.keys import log_position


class Handover:
    def __init__(self, shards: int, *, mode: str = "") -> None:
        """``mode``: none, soft or hard; only published, nothing here depends on it."""
        self.revision = 0
        self.storing = False
        """Whether a partition was handed out by :meth:`put` and is not stored yet."""
        self.in_use: Shards = np.full(0, NOBODY, dtype=np.int32)
        """Row -> the one shard that may treat it as its own. Rows of deleted nodes stay: a node
        that comes back must not be another shard's."""
        self.moving: dict[int, tuple[int, int]] = {}
        """Row -> (giver, taker)."""
        self.strangers: list[int] = []
        """Shards of the ledger's partition beyond the configured number: their epochs must be
        revoked before other shards own their nodes."""
        self._shards = shards
        self._mode = mode
        self._announced_mode = mode
        self._announced = ""
        """Log entry id behind which every reader knows the moving rows; "" while there is none."""
        self._last_call = 0
        """The newest call that may have been planned without knowing them."""

    # --- desired ------------------------------------------------------------------------------

    def desired(self, rows: int) -> Shards:
        """Row -> the shard that owns it, or will; has at least ``rows`` entries."""
        self._grow(rows)
        desired = self.in_use.copy()
        for row, (_, taker) in self.moving.items():
            desired[row] = taker
        return desired

    def _grow(self, rows: int) -> None:
        more = rows - len(self.in_use)
        if more > 0:
            self.in_use = np.append(self.in_use, np.full(more, NOBODY, dtype=np.int32))

    def assign(self, desired: Shards) -> dict[int, int] | None:
        """Rows without an owner get theirs at once; other changes start a move, unless one is under
        way: then they are left for a later call. Returns the changed rows with their new shards;
        None where there is nothing to store."""
        self._grow(len(desired))
        # As of before the loop: all moves of one pass start together, and none joins a hand-over
        # whose position in the log and last call are noted already.
        under_way = bool(self.moving)
        now = self.in_use[: len(desired)]
        changed: dict[int, int] = {}
        for row in np.flatnonzero((desired != now) & (desired != NOBODY)).tolist():
            giver, taker = now.item(row), desired.item(row)
            if row in self.moving or (giver != NOBODY and under_way):
                continue
            changed[row] = taker
            if giver != NOBODY:
                self.moving[row] = (giver, taker)
        rows = np.fromiter(changed, dtype=np.intp, count=len(changed))
        new = rows[now[rows] == NOBODY]
        # A moving node is nobody's own until its taker has it: in hard mode the ledger does not ask
        # whose node it is, so the order of these steps is all that keeps the rule (decision 0021).
        self.in_use[rows] = NOBODY
        self.in_use[new] = desired[new]
        return changed if changed or self._announced_mode != self._mode else None

    def put(self) -> PutPartition:
        """The next partition to store; its caller reports back to :meth:`stored`."""
        self.revision += 1
        self.storing = True
        self._announced_mode = self._mode
        shards = {s: np.flatnonzero(self.in_use == s).tolist() for s in range(self._shards)}
        moves: dict[tuple[int, int], list[int]] = {}
        for row in sorted(self.moving):
            moves.setdefault(self.moving[row], []).append(row)
        moving = [Move(giver, taker, rows) for (giver, taker), rows in sorted(moves.items())]
        return PutPartition(self.revision, shards, moving, self._mode)

    def stored(self, at: str, *, last_call: int) -> None:
        """Note that the partition is durable, in the log before ``at``. ``last_call``: the newest
        call sent."""
        self.storing = False
        # The first time that these moves are durable: revisions that only give new nodes away come
        # in between.
        if self.moving and not self._announced:
            self._announced, self._last_call = at, last_call

    # --- in use -------------------------------------------------------------------------------

    def waits_for(self, workers: Mapping[int, ShardState]) -> list[int] | None:
        """Givers that may still use the moving nodes; None where no durable move is open."""
        if not self._announced:
            return None
        givers = sorted({giver for giver, _ in self.moving.values()})
        return [s for s in givers if s in workers and self._may_use(workers[s])]

    def _may_use(self, worker: ShardState) -> bool:
        # Calls and positions both: positions would do if every call came once, calls if every reply
        # told of all that was planned before it. Together they hold when calls come twice, late or
        # not at all (decision 0021).
        if any(call <= self._last_call for call in worker.calls):
            return True
        if worker.fenced:
            return False
        return not worker.position or log_position(worker.position) < log_position(self._announced)

    def finish(self) -> list[tuple[int, int]]:
        """Complete the move: the takers own the rows. Returns (giver, taker) of each; the caller
        stores :meth:`put`."""
        moves = list(self.moving.values())
        for row, (_, taker) in self.moving.items():
            # The number of shards may have fallen since the move began.
            self.in_use[row] = taker if taker < self._shards else NOBODY
        self.moving.clear()
        self._announced = ""
        return moves

    # --- a successor --------------------------------------------------------------------------

    def restore(self, partition: PutPartition, *, at: str) -> None:
        """Restore the ledger's partition, as of the log entry ``at`` or one before it. Nodes of
        shards beyond the configured number have no owner: the epochs of those shards are revoked
        too."""
        self.revision = partition.revision
        self.storing = False
        self.strangers = sorted(shard for shard in partition.shards if shard >= self._shards)
        owned = [rows for rows in partition.shards.values() if rows]
        self.in_use = np.full(1 + max(map(max, owned), default=-1), NOBODY, dtype=np.int32)
        for shard, rows in partition.shards.items():
            if shard < self._shards:
                self.in_use[rows] = shard
        self.moving = {row: (m.giver, m.taker) for m in partition.moving for row in m.rows}
        self._grow(1 + max(self.moving, default=-1))
        self._announced_mode = partition.mode
        # 0: calls of an earlier leader do not count, as every older epoch is revoked first.
        self._announced, self._last_call = (at, 0) if self.moving else ("", 0)
