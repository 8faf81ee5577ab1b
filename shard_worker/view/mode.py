"""How a shard's worker treats nodes of other shards."""

from __future__ import annotations

from enum import Enum


class Mode(Enum):
    """Nodes of other shards are equal to own ones, second choice, or out of reach."""

    NONE = "none"
    SOFT = "soft"
    HARD = "hard"
