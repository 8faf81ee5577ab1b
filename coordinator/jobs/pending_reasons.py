"""Why a job waits, as users see it: the reason of the closed list, a sentence, the amounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.jobs.capability import QueueBound
from shard_worker.dialects.volcano.reasons import PASSING, is_missing
from shard_worker.view.node_reasons import FOREIGN, OVER_QUEUE, PARTLY, QUARANTINED, STALE_SPEC
from shared.messages import skips
from shared.messages.reason import Reason, WaitReason
from shared.units.amount_text import plural, some

LONGEST = 1024
"""Longest message, in characters: the limit of an event."""
INSUFFICIENT = "Insufficient "
"""Prefix of a worker's reason for a node that passes every check but lacks an amount."""


PERMANENT = frozenset(
    {
        Reason.NO_MATCHING_NODES,
        Reason.EXCEEDS_NODE_CAPACITY,
        Reason.EXCEEDS_CAPABILITY,
        Reason.LARGER_THAN_SHARD,
    }
)
"""Reasons that no ending task resolves: the cluster or its queues would have to change."""


KEPT_OUT = frozenset({Reason.MISCONFIGURED, Reason.OTHER_SCHEDULER, Reason.NOT_SERVED})
"""Reasons of jobs that contradict themselves, are not ours to place, or not under this policy."""
INVALID = frozenset(
    {*KEPT_OUT, Reason.NOT_ENOUGH_TASKS, Reason.PLUGIN_ERROR, Reason.ATTEMPTS_EXHAUSTED}
)
"""Reasons of jobs that JobValid refuses: they wait until the job or the policy changes."""


def word(reason: WaitReason) -> Reason:
    """The reason of the closed list. Called for every waiting job."""
    return reason if isinstance(reason, Reason) else Reason.PENDING_EVALUATION


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job, or its remaining tasks, wait. Amounts by slot, in the slot's unit."""

    reason: Reason
    message: str
    evaluated_at: float = 0.0
    """Time of the finding, seconds since 1970; 0: valid now, from totals, without a session."""
    shard: int = -1
    """The shard whose session found it; -1 for none."""
    session: int = 0
    epoch: str = ""
    generation: int = 0
    """The generation of the job's specification that was evaluated."""
    requested: Mapping[int, float] = field(default_factory=dict)
    available: Mapping[int, float] = field(default_factory=dict)
    short: Mapping[int, float] = field(default_factory=dict)
    bound: QueueBound | None = None
    """The queue that does not let the job in, and by what; None where no queue does so."""


def of_counts(counts: Mapping[str, int]) -> Reason:
    """The reason that a worker's node counts amount to.

    A node that passes every check and only lacks room, or a place beside the tasks there, can take
    the task one day: while there is one, the job waits for room, however many others do not match.
    """
    if (skip := skip_of(counts)) is not None:
        return skip[0]
    texts = [text for text in counts if text not in (FOREIGN, STALE_SPEC, QUARANTINED)]
    if any(text.startswith(INSUFFICIENT) or text == PARTLY for text in texts):
        return Reason.NOT_ENOUGH_RESOURCES
    if OVER_QUEUE in texts:
        return Reason.WAITING_FOR_QUOTA
    if any(is_missing(text) for text in texts):
        return Reason.MISCONFIGURED
    if any(text in PASSING for text in texts):
        return Reason.NOT_ENOUGH_RESOURCES
    if any(text.startswith("node(s)") for text in texts):
        return Reason.NO_MATCHING_NODES
    return Reason.NOT_ENOUGH_RESOURCES


def skip_of(counts: Mapping[str, int]) -> tuple[Reason, str] | None:
    """The reason and sentence where a session skipped the whole job."""
    return skips.read(counts)


def of_invalid(text: str) -> tuple[Reason, str]:
    """The reason and sentence of a job that JobValid refuses with this text."""
    skip = skip_of({text: 0})
    if skip is not None and skip[0] in INVALID:
        return skip
    return Reason.NOT_ENOUGH_TASKS, text.partition(": ")[2] or text


def told_counts(counts: Mapping[str, int]) -> str:
    """A worker's node counts as text, the largest first. What does not exist is not told of nodes:
    there may be none, and it is missing to all of them."""
    if counts and all(map(is_missing, counts)):
        return some(sorted(counts), 6)
    worst = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    total = plural(sum(counts.values()), "node")
    parts = some([f"{n} {text.removeprefix('node(s) ')}" for text, n in worst], 6)
    return f"{total}: {parts}"


def no_node_takes(tasks: str, counts: Mapping[str, int]) -> str:
    """The sentence of NoMatchingNodes. ``tasks``: see :func:`tasks_of`."""
    return f"no node takes {tasks}: {told_counts(counts)}"


def tasks_of(role: str, job: str) -> str:
    """The tasks that found no place, in a sentence. ``role`` is empty where no role is named."""
    return f"role {role} of {job}" if role else "its tasks"


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
