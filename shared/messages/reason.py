"""The closed list of pending reasons: why a job waits."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The closed list, worst first: where several apply, the first is reported."""

    DEACTIVATED = "Deactivated"
    MISCONFIGURED = "Misconfigured"
    PLUGIN_ERROR = "PluginError"
    OTHER_SCHEDULER = "OtherScheduler"
    NOT_SERVED = "NotServed"
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


class HoldReason(StrEnum):
    """Internal reasons of the coordinator for a job that lost its places; shown as
    PendingEvaluation."""

    NONE = ""
    """The job does not wait."""
    BIND_FAILED = "BindFailed"
    """A bind was refused; the tasks are placed again in a moment."""
    GANG_RELEASED = "GangReleased"
    """The gang was released: waits until its remaining tasks have ended."""


WaitReason = Reason | HoldReason
