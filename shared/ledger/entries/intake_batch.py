"""Accepted objects as one batch of operations for the ledger to store."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from shared.ledger.entries.stored import ThingAsk
from shared.messages.messages import Epoch, Group, Rows, Verdict
from shared.units.things import Things, Vector


@dataclass(frozen=True, slots=True)
class PutClass:
    cid: int
    requests: list[tuple[int, int, int]]
    """(slot, amount, implied capacity of a node that does not declare the slot)."""
    spec: bytes
    things: list[ThingAsk] = field(default_factory=list)
    """Named things of its node that each task takes; no name twice."""


@dataclass(frozen=True, slots=True)
class DropClass:
    """Forget a task class without tasks; its number is never reused."""

    cid: int


@dataclass(frozen=True, slots=True)
class PutNode:
    """Create or change a node. Usage and nominations are kept."""

    row: int
    allocatable: list[tuple[int, int]]
    spec_version: int
    spec: bytes
    things: Things = ()
    """How much the node has of the things named here; those that it had and has no more are named
    with 0."""


@dataclass(frozen=True, slots=True)
class DropNode:
    """The node was deleted: its record stays, nothing is allocatable, its spec version rises."""

    row: int
    things: Things = ()
    """Its declared things, with 0."""


@dataclass(frozen=True, slots=True)
class Observe:
    """Usage of a node by foreign pods and daemons, as absolute amounts."""

    row: int
    used: list[tuple[int, int]]
    things: list[tuple[str, Vector]] = field(default_factory=list)
    """Foreign usage of the things named here; that of other things is unchanged."""


@dataclass(frozen=True, slots=True)
class PutQueue:
    qid: int
    parent: int
    capability: list[tuple[int, int]] | None
    spec: bytes
    guarantee: list[tuple[int, int]] = field(default_factory=list)
    """Amounts that evictions under GUARD_GUARANTEE leave to the queue, by slot."""


@dataclass(frozen=True, slots=True)
class DropQueue:
    """The queue was deleted. Nothing may be charged to it, and no queue may be below it."""

    qid: int


class PutJob(msgspec.Struct, frozen=True, gc=False):
    """Create or change a job. ``held`` of each group is the change of its member count by new (+)
    and deleted (-) best-effort members; the count never falls below 0."""

    jid: int
    qid: int
    spec_version: int
    groups: list[Group]
    spec: bytes


@dataclass(frozen=True, slots=True)
class DropJob:
    """The job was deleted: its record stays until its last task has left, nothing more
    is placed."""

    jid: int


@dataclass(frozen=True, slots=True)
class PurgeJob:
    """Remove a deleted job and its tasks, none of which may hold a node. No effect where the job is
    unknown."""

    jid: int


@dataclass(frozen=True, slots=True)
class PutObject:
    """Store an object that the ledger does not interpret: priority classes, hyper nodes, the
    policy. None deletes."""

    key: str
    spec: bytes | None


@dataclass(frozen=True, slots=True)
class Move:
    """Rows that are moving from one shard to another: neither may treat them as its own."""

    giver: int
    taker: int
    rows: list[int]


@dataclass(frozen=True, slots=True)
class PutPartition:
    """The rows that each shard owns from ``revision`` on. No row is in two shards, or both owned
    and moving."""

    revision: int
    shards: dict[int, list[int]]
    moving: list[Move] = field(default_factory=list)
    mode: str = ""
    """How workers treat nodes of other shards: none, soft or hard; "" where not set."""


IntakeOp = (
    PutClass
    | DropClass
    | PutNode
    | DropNode
    | Observe
    | PutQueue
    | DropQueue
    | PutJob
    | DropJob
    | PurgeJob
    | PutObject
    | PutPartition
)


@dataclass(frozen=True, slots=True)
class IntakeBatch:
    writer: str
    epoch: Epoch
    sequence: int
    run_id: str
    ops: list[IntakeOp]
    documents: list[tuple[str, bytes | None]] = field(default_factory=list)
    """Objects as submitted, stored in the same call as the operations. None deletes. The log has
    only their keys."""


@dataclass(frozen=True, slots=True)
class IntakeReply:
    verdict: Verdict
    fresh: Rows
    replayed: bool = False
