"""Whose node it is: the other half of promise 4. No node is two shards' own at any moment.

A partition tells which rows each shard may treat as its own, and which are moving from a giver to a
taker. The giver may still commit there what it had planned before; the taker may not yet. What a
shard does on nodes that are not its own depends on the mode: hard forbids it, soft allows it as
that (levels 2 and 4), and in mode none every node is everyone's own.
"""

from __future__ import annotations

from typing import Any

OWN_LEVELS = (1, 3)
"""Idle and future nodes of the own shard."""


class RowOwnership:
    def __init__(self) -> None:
        self.owner: dict[int, int] = {}
        """Row -> the shard that may treat it as its own."""
        self._moving: dict[int, tuple[int, int]] = {}  # row -> (giver, taker)
        self._mode = ""
        self._revision = -1

    def put(self, event: dict[str, Any]) -> list[str]:
        """The next partition; what is wrong with it."""
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
        """Rows that came to another shard without moving there first. The rows of a shard that
        there is no more are free."""
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
        """Rows of these operations (tix, row, cid, level) that the shard must not have taken."""
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
