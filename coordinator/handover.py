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

from coordinator.dispatch import ShardState
from shared.ledger.keys import log_position
from shared.ledger.protocol import Move, PutPartition


class Handover:
    def __init__(self, shards: int, *, mode: str = "") -> None:
        """``mode``: none, soft or hard; only told, nothing here depends on it."""
        self.revision = 0
        self.storing = False
        """Whether a partition was given out that is not stored yet."""
        self.in_use: dict[int, int] = {}
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

    def desired(self) -> dict[int, int]:
        """Row -> the shard that has it, or will."""
        return self.in_use | {row: taker for row, (_, taker) in self.moving.items()}

    def assign(self, desired: Mapping[int, int]) -> bool:
        """Rows without an owner get theirs at once. Others begin to move, unless some are on their
        way: then their time comes later. Returns whether a partition has to be stored."""
        under_way = bool(self.moving)
        changed = self._told_mode != self._mode
        for row, taker in desired.items():
            giver = self.in_use.get(row)
            if row in self.moving or giver == taker:
                continue
            if giver is None:
                self.in_use[row] = taker
                changed = True
            elif not under_way:
                del self.in_use[row]
                self.moving[row] = (giver, taker)
                changed = True
        return changed

    def put(self) -> PutPartition:
        """The next partition to store; :meth:`stored` answers."""
        self.revision += 1
        self.storing = True
        self._told_mode = self._mode
        shards: dict[int, list[int]] = {shard: [] for shard in range(self._shards)}
        for row in sorted(self.in_use):
            shards[self.in_use[row]].append(row)
        moves: dict[tuple[int, int], list[int]] = {}
        for row in sorted(self.moving):
            moves.setdefault(self.moving[row], []).append(row)
        moving = [Move(giver, taker, rows) for (giver, taker), rows in sorted(moves.items())]
        return PutPartition(self.revision, shards, moving, self._mode)

    def stored(self, at: str, *, last_call: int) -> None:
        """It is durable, and told in the log before ``at``. ``last_call``: the newest one sent."""
        self.storing = False
        if self.moving and not self._told:
            self._told, self._last_call = at, last_call

    # --- in use -------------------------------------------------------------------------------

    def waits_for(self, workers: Mapping[int, ShardState]) -> list[int] | None:
        """Givers that may still use what moves; None where nothing is told to move."""
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
        moved = list(self.moving.values())
        takers = {row: taker for row, (_, taker) in self.moving.items()}
        self.in_use |= {row: taker for row, taker in takers.items() if taker < self._shards}
        self.moving.clear()
        self._told = ""
        return moved

    # --- a successor --------------------------------------------------------------------------

    def restore(self, put: PutPartition, *, at: str) -> None:
        """What the ledger knows, as of the log entry ``at`` or one before it. What belongs to
        shards that there are no more is nobody's: their epochs are void too."""
        self.revision = put.revision
        self.storing = False
        self.strangers = sorted(shard for shard in put.shards if shard >= self._shards)
        every = {row: shard for shard, rows in put.shards.items() for row in rows}
        self.in_use = {row: shard for row, shard in every.items() if shard < self._shards}
        self.moving = {row: (m.giver, m.taker) for m in put.moving for row in m.rows}
        self._told_mode = put.mode
        self._told, self._last_call = (at, 0) if self.moving else ("", 0)
