"""The closed list of reasons why a job waits, and how the words of the core map onto it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from coordinator.wording import plural, some
from shard_worker.plugins.live_reasons import PASSING, is_missing
from shard_worker.task_class import ASIDE, FOREIGN, PARTLY, STALE_SPEC
from shared import skips

LONGEST = 1024
"""Characters of a message: what an event may hold."""
INSUFFICIENT = "Insufficient "
"""How a worker's reason begins where a node passes every check but lacks an amount."""


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

NEVER = frozenset(
    {
        Reason.NO_MATCHING_NODES,
        Reason.EXCEEDS_NODE_CAPACITY,
        Reason.EXCEEDS_CAPABILITY,
        Reason.LARGER_THAN_SHARD,
    }
)
"""The cluster and its queues would have to change: no task that ends makes room for it."""

_WORDS: dict[str, Reason] = {
    **{reason.value: reason for reason in Reason},
    "BindFailed": Reason.PENDING_EVALUATION,  # it was placed, and is placed again in a moment
    "GangReleased": Reason.PENDING_EVALUATION,  # until the rest of it has ended
    "NoBackfill": Reason.GATED,  # the policy has no action for tasks that ask for nothing
    "": Reason.PENDING_EVALUATION,
}


def word(core_reason: str) -> Reason:
    """The closed list's word for what the core calls it. Called for every job that waits."""
    return _WORDS[core_reason]


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job, or the rest of it, waits. Amounts by slot, in the slot's unit."""

    reason: Reason
    message: str
    evaluated_at: float = 0.0
    """When it was found, seconds since 1970; 0: it holds now, from totals, without a session."""
    shard: int = -1
    """The shard whose session found it; -1 where none did."""
    session: int = 0
    epoch: str = ""
    generation: int = 0
    """The job's specification that was looked at."""
    requested: Mapping[int, float] = field(default_factory=dict)
    available: Mapping[int, float] = field(default_factory=dict)
    short: Mapping[int, float] = field(default_factory=dict)


def of_counts(counts: Mapping[str, int]) -> Reason:
    """The word for a worker's node counts.

    A node that passes every check and only lacks room, or a place beside the others there, can
    take the task one day: while there is one, the job waits for room, however many others do not
    match.
    """
    if (skip := skip_of(counts)) is not None:
        return skip[0]
    seen = [text for text in counts if text not in (FOREIGN, STALE_SPEC, ASIDE)]
    if any(text.startswith(INSUFFICIENT) or text == PARTLY for text in seen):
        return Reason.NOT_ENOUGH_RESOURCES
    if any(is_missing(text) for text in seen):
        return Reason.MISCONFIGURED
    if any(text in PASSING for text in seen):
        return Reason.NOT_ENOUGH_RESOURCES
    if any(text.startswith("node(s)") for text in seen):
        return Reason.NO_MATCHING_NODES
    return Reason.NOT_ENOUGH_RESOURCES


def skip_of(counts: Mapping[str, int]) -> tuple[Reason, str] | None:
    """The word and sentence where a session passed the job over as a whole."""
    found = skips.read(counts, _WORDS)
    return None if found is None else (word(found[0]), found[1])


def told_counts(counts: Mapping[str, int]) -> str:
    """A worker's node counts in words, the largest first."""
    worst = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    total = plural(sum(counts.values()), "node")
    parts = some([f"{n} {text.removeprefix('node(s) ')}" for text, n in worst], 6)
    return f"{total}: {parts}"


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
