"""The order half of a session: jobs, queues and the cluster's totals.

Order (in the coordinator, and in ``replay``) maintains these records; plugins read them. Amounts
are dicts from slot to whole numbers, because a job or queue touches few slots; nothing here is per
task. How totals follow from jobs is in :mod:`shard_worker.session_model.queue_totals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.model.model import Job, Queue
from shared.model.objects import ClusterObjects
from shared.units.slots import BASE

Amounts = dict[int, int]
"""slot -> amount; a missing slot is 0."""


def add(into: Amounts, requests: Iterable[tuple[int, int]], times: int) -> None:
    """Add ``times`` (may be negative) a request to a total."""
    for slot, amount in requests:
        into[slot] = into.get(slot, 0) + amount * times


class JobFigures(NamedTuple):
    """A job's part in the totals that decide the admission of further jobs; empty without
    minResources."""

    inqueue: Amounts
    """What it was let in with and does not hold yet."""
    kept: Amounts
    """What it holds, up to its minResources; Volcano's allocated less elastic."""
    promised: Amounts
    """As ``inqueue``, but whole while its PodGroup is Inqueue: what overcommit counts."""


@dataclass(slots=True)
class JobInfo:
    """One job as Order sees it. ``held``, ``waiting`` and ``best_effort`` are per group."""

    job: Job
    qid: int
    held: list[int]
    """Members allocated, binding, bound, running, releasing or succeeded, per group."""
    waiting: list[int]
    """Members pipelined (nominated), per group."""
    best_effort: list[int]
    """Pending members that ask for nothing, per group; the gang plugin counts them as there."""
    pending: int = 0
    """Pending members that ask for something (what allocate places)."""
    failed: int = 0
    """Members failed, releasing by deletion or unknown: they cannot count for the minimum."""
    allocated: Amounts = field(default_factory=dict)
    requested: Amounts = field(default_factory=dict)
    """Everything its pending members ask for together (allocated not included)."""
    phase: str = ""
    """Of its PodGroup: "", Pending, Inqueue, Running, Unknown, Completed."""
    using: int = 0
    """Members allocated, binding, bound or running."""
    nominated: Amounts = field(default_factory=dict)
    """What its pipelined members ask for together; kept in sessions over a world only."""
    gated: Amounts = field(default_factory=dict)
    """What its members with scheduling gates ask for together."""
    figures: JobFigures | None = None
    """What the totals above it count for it now; None = nothing."""


@dataclass(slots=True)
class Below:
    """Totals of all queues below one, whatever their depth."""

    allocated: Amounts = field(default_factory=dict)
    inqueue: Amounts = field(default_factory=dict)
    kept: Amounts = field(default_factory=dict)
    reserved: Amounts = field(default_factory=dict)
    claimed: Amounts = field(default_factory=dict)


@dataclass(slots=True)
class QueueInfo:
    """One queue: totals of its jobs. ``allocated`` includes open turns (charged when emitted)."""

    queue: Queue
    allocated: Amounts = field(default_factory=dict)
    requested: Amounts = field(default_factory=dict)
    """allocated + pending of its jobs: what the queue would use if it could."""
    releasing: Amounts = field(default_factory=dict)
    """What its tasks that are leaving hold still: not in ``allocated``, as in Volcano, but the
    ledger counts it against the capability until they have left."""
    jobs: int = 0
    inqueue: Amounts = field(default_factory=dict)
    """What its jobs were let in with and do not hold yet."""
    kept: Amounts = field(default_factory=dict)
    """What each of its jobs holds up to its minResources, together: the rest is elastic."""
    reserved: Amounts = field(default_factory=dict)
    """What its pending tasks ask for whose own gate the scheduler has taken away: it is theirs."""
    claimed: Amounts = field(default_factory=dict)
    """Devices that its tasks hold by claims, in the slots that quotas name them by. Kept by Order;
    a session over a world of everything counts them by itself."""
    above: tuple[QueueInfo, ...] = ()
    """Its parent, that one's parent, and so on; set by ``link``."""
    below: Below | None = None
    """None where no queue is below it."""


@dataclass(slots=True)
class ClusterInfo:
    """What Order's plugins may read. ``total`` is what all nodes have to give (allocatable)."""

    total: Amounts = field(default_factory=dict)
    queues: dict[int, QueueInfo] = field(default_factory=dict)
    jobs: dict[int, JobInfo] = field(default_factory=dict)
    free: Amounts = field(default_factory=dict)
    """What no task holds of ``total``. A session over a world has it in its view instead."""
    inqueue: Amounts = field(default_factory=dict)
    kept: Amounts = field(default_factory=dict)
    """As those of a queue, over all queues."""
    promised: Amounts = field(default_factory=dict)
    """What jobs that were let in may still come for, see :class:`JobFigures`."""
    now: float = 0.0
    """Seconds since 1970."""
    names: Sequence[str] = BASE
    """Of slots."""
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    revision: int = 0
    """Moves with every change of a total, queue or job count: plugins cache by it."""


@dataclass(slots=True)
class Progress:
    """How far a job has come in a turn: the counts for JobReady and JobPipelined.

    Index = group. ``minimum``, ``parent`` from the job; ``held`` counts members that have a place,
    ``waiting`` those pipelined. ``best_effort`` members count as present.
    """

    parent: list[int]
    minimum: list[int]
    held: list[int]
    waiting: list[int]
    best_effort: list[int]
