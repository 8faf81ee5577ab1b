"""Hand-over: how nodes change from one shard to another without ever being two shards' own.

Two phases. First the ledger is told that rows are *moving*: their giver starts nothing new on them,
their taker does not either (in soft mode they are other shards' nodes to everybody). When the last
statement that the giver may have planned before is decided, the rows become the taker's.

When is that? A worker reads the log to its end before each call and decides every statement of a
call before it answers. So no call may be open that was sent before the move was told, and the
giver's worker, where one is up, must have told a position in the log behind it. A worker that is
gone counts for nothing: its epoch was made void before its calls were closed.

Nothing of it is in memory only. A successor finds the moving rows in the ledger, makes every epoch
before its own void, and finishes.
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
        """``mode``: none, soft or hard; only told, nothing here depends on it."""
        self.revision = 0
        self.storing = False
        """Whether a partition was given out that is not stored yet."""
        self.in_use: Shards = np.full(0, NOBODY, dtype=np.int32)
        """Row -> the one shard that may treat it as its own. Rows of gone nodes stay: the worker
        of another shard must not find one its own because the node came back."""
        self.moving: dict[int, tuple[int, int]] = {}
        """Row -> (giver, taker)."""
        self.strangers: list[int] = []
        """Shards in the ledger's partition that there are no more: their epochs have to be made
        void before their nodes are others' own."""
        self._shards = shards
        self._mode = mode
        self._told_mode = mode
        self._told = ""
        """Id of a log entry behind which every reader knows what moves; "" while nobody does."""
        self._last_call = 0
        """The newest call that may have been planned without knowing."""

    # --- desired ------------------------------------------------------------------------------

    def desired(self, rows: int) -> Shards:
        """Row -> the shard that has it, or will; of at least so many rows."""
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
        """Rows without an owner get theirs at once. Others begin to move, unless some are on their
        way: then their time comes later. Returns the rows that have another shard now, or will; and
        None where nothing has to be stored."""
        self._grow(len(desired))
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
        self.in_use[rows] = NOBODY
        self.in_use[new] = desired[new]
        return changed if changed or self._told_mode != self._mode else None

    def put(self) -> PutPartition:
        """The next partition to store; :meth:`stored` answers."""
        self.revision += 1
        self.storing = True
        self._told_mode = self._mode
        shards = {s: np.flatnonzero(self.in_use == s).tolist() for s in range(self._shards)}
        moves: dict[tuple[int, int], list[int]] = {}
        for row in sorted(self.moving):
            moves.setdefault(self.moving[row], []).append(row)
        moving = [Move(giver, taker, rows) for (giver, taker), rows in sorted(moves.items())]
        return PutPartition(self.revision, shards, moving, self._mode)

    def stored(self, at: str, *, last_call: int) -> None:
        """Note that the partition is durable, in the log before ``at``. ``last_call``: the newest
        call that was sent."""
        self.storing = False
        if self.moving and not self._told:
            self._told, self._last_call = at, last_call

    # --- in use -------------------------------------------------------------------------------

    def waits_for(self, workers: Mapping[int, ShardState]) -> list[int] | None:
        """Shards that may still use the nodes they give away; None where no durable move
        is open."""
        if not self._told:
            return None
        givers = sorted({giver for giver, _ in self.moving.values()})
        return [s for s in givers if s in workers and self._may_use(workers[s])]

    def _may_use(self, worker: ShardState) -> bool:
        if any(call <= self._last_call for call in worker.calls):
            return True
        if worker.fenced:
            return False
        return not worker.position or log_position(worker.position) < log_position(self._told)

    def finish(self) -> list[tuple[int, int]]:
        """The rows are their takers'; what to store is :meth:`put`. Returns (giver, taker) of
        each."""
        moves = list(self.moving.values())
        for row, (_, taker) in self.moving.items():
            self.in_use[row] = taker if taker < self._shards else NOBODY
        self.moving.clear()
        self._told = ""
        return moves

    # --- a successor --------------------------------------------------------------------------

    def restore(self, partition: PutPartition, *, at: str) -> None:
        """Take up the ledger's partition, as of the log entry ``at`` or one before it. Nodes of
        shards beyond today's number belong to nobody: the epochs of those shards are void too."""
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
        self._told_mode = partition.mode
        self._told, self._last_call = (at, 0) if self.moving else ("", 0)
