"""What nodes of other shards mean to a shard's worker."""

from __future__ import annotations

from enum import Enum


class Mode(Enum):
    """What nodes of other shards mean: nothing special, second choice, or out of reach."""

    NONE = "none"
    SOFT = "soft"
    HARD = "hard"
