"""The context of a turn that needs a session: jobs and queue totals beside the worker's own view.

A turn without a session needs none. A turn that considers victims or neighbours carries the jobs
that matter, whole, and the totals of all queues; the worker already has nodes, classes and objects.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from shared.codec.packed import Codec, Count, Index, Packed
from shared.messages.messages import TaskState

TOTALS = ("allocated", "requested", "releasing", "inqueue", "kept", "reserved", "claimed")

VICTIMS = "victims/"
"""Prefix of the keys in :attr:`TurnContext.versions` of every turn that may evict under a policy
that divides the cluster among queues: one for each tree of queues that it may take from, or is
judged by, as it was; followed by the qid of the tree's root."""

Amounts = dict[Count, int]

_STATES = bytes(TaskState)
_ROW = 4
"""Bytes of a row in :attr:`JobTurnContext.rows`."""


class QueueContext(Packed, frozen=True):
    """A queue and its own totals, as in :class:`shard_worker.session_model.workload.QueueInfo`."""

    spec: bytes
    jobs: Count
    totals: Annotated[list[Amounts], msgspec.Meta(min_length=len(TOTALS), max_length=len(TOTALS))]
    """In the order of :data:`TOTALS`."""


class JobContext(Packed, frozen=True):
    """A job with its present state. ``states`` and ``rows`` by tix: a byte and a C int a task.
    A row is valid only in a state that holds a node.

    ``keys``: the keys of :attr:`TurnContext.versions` that changes of its tasks increment.
    """

    spec: bytes
    states: bytes
    rows: bytes
    keys: list[str]
    phase: str
    """Present phase of its PodGroup."""
    nominated: dict[Count, Count]
    """tix -> row, for nominated tasks."""
    started: dict[Count, float]
    """tix -> start time in seconds since 1970, where known."""
    devices: dict[Count, tuple[tuple[str, tuple[Count, ...]], ...]]
    """tix -> what it takes of devices of its node, of tasks that take any."""

    def __post_init__(self) -> None:
        if self.states.translate(None, _STATES):
            raise ValueError("a byte that is no state of a task")
        if len(self.rows) != _ROW * len(self.states):
            raise ValueError("its states and rows differ in number")


class TurnContext(Packed, frozen=True):
    """``jobs``: the turn's own job first, if the turn has one."""

    total: Amounts
    """Sum of all nodes' allocatable."""
    free: Amounts
    """The part of it that no task holds."""
    promised: Amounts
    """Further requests that admitted jobs may still make."""
    queues: list[QueueContext]
    jobs: list[JobContext]
    versions: dict[str, Count] = msgspec.field(default_factory=dict)
    """Key of a cross-node constraint (a budget, a term between tasks, a volume, a claim) -> its
    version when this was written: part of the read set of a statement that it matters to."""
    spared: list[Index] = msgspec.field(default_factory=list)
    """Jobs that were left out because of the size limit, and may not be evicted: a key counts
    them."""
    shares: dict[str, tuple[int, int, int]] = msgspec.field(default_factory=dict)
    """Queue -> its fair share of cores, memory and GPUs, for a turn that may evict under a policy
    that divides the cluster."""
    starts: dict[Index, float] = msgspec.field(default_factory=dict)
    """Job -> when it started, seconds since 1970, of those that a policy may still protect."""
    usage: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict)
    """Node name -> percent in use of its cpu and memory, -1 where unknown; only for policies with a
    plugin that reads usage."""


TURN_CONTEXT = Codec(b"turn context", TurnContext)
