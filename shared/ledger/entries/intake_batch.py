"""What intake asks the ledger to store: accepted objects, as operations in one batch."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.ledger.entries.stored import ThingAsk
from shared.messages.messages import Epoch, Group, Rows, Verdict
from shared.units.things import Vector


@dataclass(frozen=True, slots=True)
class PutClass:
    cid: int
    requests: list[tuple[int, int, int]]
    """(slot, amount, what a node offers of the slot without saying so)."""
    spec: bytes
    things: list[ThingAsk] = field(default_factory=list)
    """Named things of its node that each task takes; no name twice."""


@dataclass(frozen=True, slots=True)
class DropClass:
    """Forget a task class that no task has; its number is never reused."""

    cid: int


@dataclass(frozen=True, slots=True)
class PutNode:
    """Create or change a node. Usage and nominations stay as they are."""

    row: int
    allocatable: list[tuple[int, int]]
    spec_version: int
    spec: bytes


@dataclass(frozen=True, slots=True)
class DropNode:
    """The node was deleted: its record stays, nothing is allocatable, its spec version rises."""

    row: int


@dataclass(frozen=True, slots=True)
class Observe:
    """What other pods and daemons use on a node, as absolute amounts."""

    row: int
    used: list[tuple[int, int]]
    things: list[tuple[str, Vector]] = field(default_factory=list)
    """What others have of the things named here; of all others it stays as it was."""


@dataclass(frozen=True, slots=True)
class PutQueue:
    qid: int
    parent: int
    capability: list[tuple[int, int]] | None
    spec: bytes
    guarantee: list[tuple[int, int]] = field(default_factory=list)
    """What evictions under GUARD_GUARANTEE leave to it, by slot."""


@dataclass(frozen=True, slots=True)
class DropQueue:
    """The queue was deleted. Nothing may be charged to it, and no queue may be below it."""

    qid: int


@dataclass(frozen=True, slots=True)
class PutJob:
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
    """Forget a deleted job and its tasks; none of them may hold a node. No effect where the job is
    not known."""

    jid: int


@dataclass(frozen=True, slots=True)
class PutObject:
    """Anything the ledger only keeps: priority classes, hyper nodes, the policy. None deletes."""

    key: str
    spec: bytes | None


@dataclass(frozen=True, slots=True)
class Move:
    """Rows on their way from one shard to another: neither may treat them as its own."""

    giver: int
    taker: int
    rows: list[int]


@dataclass(frozen=True, slots=True)
class PutPartition:
    """Which rows each shard owns from ``revision`` on. No row is in two shards, or both owned and
    moving."""

    revision: int
    shards: dict[int, list[int]]
    moving: list[Move] = field(default_factory=list)
    mode: str = ""
    """What a border means to the workers: none, soft or hard; "" where nobody said."""


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
    """Objects as written, kept in the same call as the operations. None
    deletes. Only their keys are told in the log."""


@dataclass(frozen=True, slots=True)
class IntakeReply:
    verdict: Verdict
    fresh: Rows
    replayed: bool = False
