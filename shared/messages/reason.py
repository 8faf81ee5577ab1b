"""The closed list of reasons why a job waits: every part of the service says one of these words."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The closed list, worst first: where several hold, the first is told."""

    DEACTIVATED = "Deactivated"
    MISCONFIGURED = "Misconfigured"
    NO_MATCHING_NODES = "NoMatchingNodes"
    EXCEEDS_NODE_CAPACITY = "ExceedsNodeCapacity"
    EXCEEDS_CAPABILITY = "ExceedsCapability"
    LARGER_THAN_SHARD = "LargerThanShard"
    QUEUE_CLOSED = "QueueClosed"
    GATED = "Gated"
    NOT_ENOUGH_TASKS = "NotEnoughTasks"
    ATTEMPTS_EXHAUSTED = "AttemptsExhausted"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    FRAGMENTED = "Fragmented"
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    REPEATED_CONFLICT = "RepeatedConflict"
    WAITING_FOR_TURN = "WaitingForTurn"
    PENDING_EVALUATION = "PendingEvaluation"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return _RANK[self]


_RANK = {reason: rank for rank, reason in enumerate(Reason)}


class Hold(StrEnum):
    """Words of the coordinator's own for a job that had its places: shown as PendingEvaluation."""

    NONE = ""
    """It does not wait."""
    BIND_FAILED = "BindFailed"
    """It is placed again in a moment."""
    GANG_RELEASED = "GangReleased"
    """Until the rest of it has ended."""


WaitReason = Reason | Hold
