"""The order half of a session: jobs, queues and the cluster's totals.

Order (in the coordinator, and in ``replay``) maintains these records; plugins read them. Amounts
are dicts from slot to whole numbers, because a job or queue touches few slots; nothing here is per
task. How totals follow from jobs is in :mod:`shard_worker.session_model.queue_totals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from shared.model.model import Job, Node, Queue, TaskClass
from shared.model.objects import ClusterObjects
from shared.units.slots import BASE
from shared.units.things import Vector

Amounts = dict[int, int]
"""slot -> amount; a missing slot is 0."""


def add(into: Amounts, requests: Iterable[tuple[int, int]], times: int) -> None:
    """Add ``times`` (may be negative) a request to a total."""
    for slot, amount in requests:
        into[slot] = into.get(slot, 0) + amount * times


class JobFigures(NamedTuple):
    """A job's contribution to the totals that decide the admission of further jobs; empty without
    minResources."""

    inqueue: Amounts
    """Part of its minResources that it was admitted with and does not hold yet."""
    kept: Amounts
    """Amount that it holds, up to its minResources; Volcano's allocated less elastic."""
    promised: Amounts
    """As ``inqueue``, but all of minResources while its PodGroup is Inqueue: what overcommit
    counts."""


class JobInfo(msgspec.Struct, gc=False):
    """One job as Order sees it. ``held``, ``waiting`` and ``best_effort`` are per group."""

    job: Job
    qid: int
    held: list[int]
    """Members allocated, binding, bound, running, releasing or succeeded, per group."""
    waiting: list[int]
    """Members pipelined (nominated), per group."""
    best_effort: list[int]
    """Pending best-effort members per group; the gang plugin counts them as present."""
    pending: int = 0
    """Pending members with requests (what allocate places)."""
    failed: int = 0
    """Members failed, releasing by deletion or unknown: they cannot count for the minimum."""
    allocated: Amounts = msgspec.field(default_factory=dict)
    requested: Amounts = msgspec.field(default_factory=dict)
    """Sum of the requests of its pending members."""
    phase: str = ""
    """Phase of its PodGroup: "", Pending, Inqueue, Running, Unknown, Completed."""
    using: int = 0
    """Members allocated, binding, bound or running."""
    nominated: Amounts = msgspec.field(default_factory=dict)
    """Sum of the requests of its pipelined members; kept in sessions over a world only."""
    gated: Amounts = msgspec.field(default_factory=dict)
    """Sum of the requests of its members with scheduling gates."""
    figures: JobFigures | None = None
    """The figures that the totals of cluster and queue include for the job; None if none."""
    classes: tuple[TaskClass, ...] = ()
    """The classes of its tasks, one for each role."""

    def progress(self) -> Progress:
        """The figures that JobReady reads."""
        groups = self.job.groups
        return Progress(
            parent=[group.parent for group in groups],
            minimum=[group.minimum for group in groups],
            held=list(self.held),
            waiting=list(self.waiting),
            best_effort=list(self.best_effort),
        )


@dataclass(slots=True)
class DescendantTotals:
    """Totals of all descendants of a queue."""

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
    """Amount that its leaving tasks still hold: not in ``allocated``, as in Volcano, but the ledger
    counts it against the capability until they have left."""
    jobs: int = 0
    inqueue: Amounts = field(default_factory=dict)
    """Part of its jobs' minResources that they were admitted with and do not hold yet."""
    kept: Amounts = field(default_factory=dict)
    """Sum of what each of its jobs holds up to its minResources: the rest is elastic."""
    gated: Amounts = field(default_factory=dict)
    """The part of ``requested`` of members with scheduling gates."""
    reserved: Amounts = field(default_factory=dict)
    """Requests of its pending tasks whose gate the scheduler has removed: reserved for them."""
    claimed: Amounts = field(default_factory=dict)
    """Devices that its tasks hold by claims, in the slots that quotas name them by. Maintained by
    Order; a session over a full world counts them by itself."""
    claims_requested: Amounts = field(default_factory=dict)
    """GPUs of the claims of its waiting and placed tasks, under a KAI policy."""
    above: tuple[QueueInfo, ...] = ()
    """Its ancestors, nearest first; set by ``link``."""
    below: DescendantTotals | None = None
    """None for a queue without children."""


@dataclass(slots=True)
class ClusterInfo:
    """Cluster state that Order's plugins may read. ``total`` is the sum of all nodes'
    allocatable."""

    total: Amounts = field(default_factory=dict)
    queues: dict[int, QueueInfo] = field(default_factory=dict)
    jobs: dict[int, JobInfo] = field(default_factory=dict)
    free: Amounts = field(default_factory=dict)
    """The part of ``total`` that no task holds. A session over a world has it in its view
    instead."""
    inqueue: Amounts = field(default_factory=dict)
    kept: Amounts = field(default_factory=dict)
    """As those of a queue, over all queues."""
    promised: Amounts = field(default_factory=dict)
    """Amount that admitted jobs may still request, see :class:`JobFigures`."""
    now: float = 0.0
    """Seconds since 1970."""
    names: Sequence[str] = BASE
    """Names of slots."""
    nodes: dict[int, Node] = field(default_factory=dict)
    """By row. A session over a world has them in its view instead."""
    foreign: dict[int, dict[int | str, int | Vector]] = field(default_factory=dict)
    """Row -> slot or named thing -> what pods that are not ours use there."""
    foreign_sums: Amounts = field(default_factory=dict)
    """Amounts that pods that are not ours use on all nodes."""
    nodes_revision: int = 0
    """Rises with every change of a node, or of what others use."""
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    tiers: frozenset[str] = frozenset()
    """The names that tiers of hyper nodes have."""
    revision: int = 0
    """Rises with every change of a total, queue or job count: plugins cache by it."""

    def every_job(self) -> Iterable[JobInfo]:
        """All jobs there are; :attr:`jobs` of a worker's session has those that were looked at."""
        return self.jobs.values()


@dataclass(slots=True)
class Progress:
    """The counts of a job in a turn, for JobReady and JobPipelined.

    Index = group. ``minimum``, ``parent`` from the job; ``held`` counts placed members, ``waiting``
    pipelined ones. ``best_effort`` members count as present.
    """

    parent: list[int]
    minimum: list[int]
    held: list[int]
    waiting: list[int]
    best_effort: list[int]
