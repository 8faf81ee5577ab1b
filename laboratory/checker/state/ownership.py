"""Node ownership, the other half of promise 4: no node belongs to two shards at a time.

A partition tells the rows that each shard owns, and those moving from a giver to a taker. The giver
may still commit there what it planned before; the taker may not yet. What a shard may do on foreign
nodes depends on the mode: hard forbids it, soft allows it at levels 2 and 4, and in mode none all
nodes belong to everyone.
"""

from __future__ import annotations

from typing import Any

OWN_LEVELS = (1, 3)
"""Levels of idle and future nodes of the own shard."""


class RowOwnership:
    def __init__(self) -> None:
        self.owner: dict[int, int] = {}
        """Row -> the shard that owns it."""
        self._moving: dict[int, tuple[int, int]] = {}  # row -> (giver, taker)
        self._mode = ""
        self._revision = -1

    def put(self, event: dict[str, Any]) -> list[str]:
        """Apply the next partition; returns its problems."""
        shards = {int(shard): rows for shard, rows in event["shards"].items()}
        moving = {
            row: (giver, taker) for giver, taker, rows in event.get("moving", ()) for row in rows
        }
        wrong = []
        if event["revision"] <= self._revision:
            wrong.append(f"partition {event['revision']} follows {self._revision}")
        owner: dict[int, int] = {}
        for shard, rows in shards.items():
            for row in rows:
                if row in owner or row in moving:
                    wrong.append(f"node row {row} is shard {shard}'s and somebody else's too")
                owner[row] = shard
        wrong += self._jumped(owner, shards)
        self.owner, self._moving = owner, moving
        self._mode, self._revision = event.get("mode", ""), event["revision"]
        return wrong

    def _jumped(self, owner: dict[int, int], shards: dict[int, Any]) -> list[str]:
        """Rows that changed owner without moving first. Rows of a shard that no longer exists are
        free."""
        wrong = []
        for row, shard in owner.items():
            before = self.owner.get(row, shard)
            if row in self._moving:
                giver, before = self._moving[row]
                before = shard if giver not in shards else before
            if before != shard and before in shards:
                wrong.append(f"node row {row} is shard {shard}'s now, but never moved to it")
        return wrong

    def foreign(self, shard: str, operations: list[list[int]]) -> list[int]:
        """Rows of these operations (tix, row, cid, level) that the shard was not allowed to use."""
        if self._mode not in ("soft", "hard"):
            return []
        return [
            row
            for _, row, _, level in operations
            if (self._mode == "hard" or level in OWN_LEVELS) and not self._may(shard, row)
        ]

    def _may(self, shard: str, row: int) -> bool:
        owner = self._moving[row][0] if row in self._moving else self.owner.get(row)
        return str(owner) == shard
