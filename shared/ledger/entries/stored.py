"""Records of tasks, jobs and queues, single fields, and the entries of the bind stream.

Import these from :mod:`shared.ledger.protocol`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.messages.messages import Group
from shared.units.things import Things, Vector


@dataclass(frozen=True, slots=True)
class ThingAsk:
    """The amount of a named thing that a task of a class takes. Both vectors have equal length."""

    name: str
    amounts: Vector
    offers: Vector
    """Implied capacity of a node that does not declare it."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """Tasks of one job that are being evicted. The three lists run in parallel."""

    jid: int
    by: int
    """The job whose statement evicted them."""
    reason: str
    tasks: list[int]
    rows: list[int]
    incarnations: list[int]
    """The evicted incarnation of each (see :attr:`TaskRecord.incarnation`)."""
    to: list[int] = field(default_factory=list)
    """The rows that are promised to them instead; empty where they only go."""


@dataclass(frozen=True, slots=True)
class BindEntry:
    """The binds and evictions of one commit batch, for the cluster to carry out."""

    id: str
    binds: list[tuple[int, int, list[int], list[int]]]
    """Allocations: (jid, cid, tasks, rows)."""
    incarnations: dict[tuple[int, int], int] = field(default_factory=dict)
    """(jid, tix) -> incarnation, of tasks that were evicted before."""
    evicts: list[Evicted] = field(default_factory=list)
    devices: dict[tuple[int, int], Things] = field(default_factory=dict)
    """(jid, tix) -> what it takes of devices of its node, of bound tasks that take any."""


@dataclass(frozen=True, slots=True)
class Write:
    """One field of a hash that a new leader writes before it leads; ``value`` None deletes it."""

    key: str
    name: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    state: int
    """PENDING only where the task was evicted before: otherwise a pending task has no record."""
    row: int
    cid: int
    version: int
    group: int = 0
    incarnation: int = 0
    """Number of the task's evicted incarnations that have ended."""
    by: int = -1
    """The job it is being evicted for; -1 where it is not being evicted."""
    why: str = ""
    devices: Things = ()
    """Devices of its node that it takes; after its end, those that it had."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    spec_version: int
    qid: int
    gone: bool
    groups: list[Group]
    top: int = 0
    """One more than the highest task index that ever had a record."""


@dataclass(frozen=True, slots=True)
class QueueRecord:
    parent: int
    used: dict[int, int]
    """Sum over all tasks that hold nodes, leaving ones included."""
    capability: dict[int, int]
    guarantee: dict[int, int] = field(default_factory=dict)
    leaving: dict[int, int] = field(default_factory=dict)
    """The part of ``used`` that releasing tasks hold."""
