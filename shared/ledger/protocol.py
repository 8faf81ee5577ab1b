"""What the rest of the system may ask of the ledger, and what it gets back.

Three kinds of batch change it, each in one script call: ``commit`` (a shard's statements),
``record`` (what became of tasks) and ``store`` (accepted objects). Every change leaves one entry in
the log, in the order in which the changes happened; allocations and evictions also leave one in the
bind stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from shared.ledger.kept import BindEntry, Evicted, JobRecord, QueueRecord, TaskRecord
from shared.messages import (
    CommitBatch,
    CommitReply,
    Epoch,
    EvictRun,
    Group,
    Rows,
    Run,
    StatusBatch,
    StatusItem,
    StatusReply,
    Verdict,
)

if TYPE_CHECKING:
    from shared.ledger.moved import Moved

__all__ = [
    "COORDINATOR",
    "BindEntry",
    "CommitEntry",
    "Committed",
    "DropJob",
    "DropNode",
    "DropQueue",
    "EpochEntry",
    "Evicted",
    "IntakeBatch",
    "IntakeEntry",
    "IntakeOp",
    "IntakeReply",
    "JobRecord",
    "Leader",
    "Ledger",
    "LogEntry",
    "Move",
    "Nomination",
    "Observe",
    "PurgeJob",
    "PutClass",
    "PutJob",
    "PutNode",
    "PutObject",
    "PutPartition",
    "PutQueue",
    "QueueRecord",
    "Snapshot",
    "StatusEntry",
    "TaskRecord",
]

COORDINATOR = "coordinator"
"""The writer name of the coordinator; shards are written as their number."""


# --- intake -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PutClass:
    cid: int
    requests: list[tuple[int, int, int]]
    """(slot, amount, what a node offers of the slot without saying so)."""
    spec: bytes


@dataclass(frozen=True, slots=True)
class PutNode:
    """Create or change a node. Usage and nominations stay as they are."""

    row: int
    allocatable: list[tuple[int, int]]
    spec_version: int
    spec: bytes


@dataclass(frozen=True, slots=True)
class DropNode:
    """The node is gone: its record stays, nothing is allocatable, its spec version moved."""

    row: int


@dataclass(frozen=True, slots=True)
class Observe:
    """What others use on a node (foreign pods, daemons), absolute."""

    row: int
    used: list[tuple[int, int]]


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
    """The queue is gone. Nothing may be charged to it, and no queue may be below it."""

    qid: int


@dataclass(frozen=True, slots=True)
class PutJob:
    """Create or change a job. ``held`` of the groups is what to add for new best-effort members,
    less what is to be taken away for deleted ones (what is held never comes below 0)."""

    jid: int
    qid: int
    spec_version: int
    groups: list[Group]
    spec: bytes


@dataclass(frozen=True, slots=True)
class DropJob:
    """The job is gone: its record stays until its last task has left, nothing more is placed."""

    jid: int


@dataclass(frozen=True, slots=True)
class PurgeJob:
    """Forget a job that is gone, and its tasks; none of them may hold a node. No effect where the
    job is not known."""

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
    """Which rows each shard owns from ``revision`` on; none is in two shards, or moves as well."""

    revision: int
    shards: dict[int, list[int]]
    moving: list[Move] = field(default_factory=list)
    mode: str = ""
    """What a border means to the workers: none, soft or hard; "" where nobody said."""


IntakeOp = (
    PutClass
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


# --- what can be read ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Nomination:
    """Where the pipelined tasks of one job wait: one run per class, versions and specs empty."""

    jid: int
    priority: int
    since: float
    expiry: float
    runs: list[Run]


@dataclass(frozen=True, slots=True)
class Committed:
    """One accepted statement as the log tells it; ``tail`` holds accepted operations only."""

    jid: int
    verdict: Verdict
    priority: int
    core: list[Run]
    tail: list[Run]
    dropped: list[int]
    """Jobs whose nominations ended with this statement (its own earlier ones, the displaced)."""
    expiry: float = 0.0
    evictions: list[EvictRun] = field(default_factory=list)
    guards: int = 0
    reason: str = ""
    """Of the evictions: the action and the rule."""


@dataclass(frozen=True, slots=True)
class CommitEntry:
    id: str
    writer: str
    epoch: Epoch
    sequence: int
    accepted: list[Committed]
    refused: list[tuple[int, Verdict]]
    """(jid, verdict) of refused cores and, with their own verdict, refused tail operations."""
    fresh: Rows


@dataclass(frozen=True, slots=True)
class StatusEntry:
    id: str
    writer: str
    epoch: Epoch
    sequence: int
    items: list[StatusItem]
    """Only what changed something."""
    lapsed: list[int]
    fresh: Rows


@dataclass(frozen=True, slots=True)
class IntakeEntry:
    id: str
    writer: str
    epoch: Epoch
    sequence: int
    ops: list[IntakeOp]
    fresh: Rows
    dropped: list[int] = field(default_factory=list)
    """Jobs whose nominations ended with this batch: gone, or their specification moved."""
    documents: list[str] = field(default_factory=list)
    """Keys of the documents that were written or deleted: who follows reads them anew."""


@dataclass(frozen=True, slots=True)
class EpochEntry:
    id: str
    writer: str
    epoch: Epoch


LogEntry = CommitEntry | StatusEntry | IntakeEntry | EpochEntry


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything, read without stopping the writers.

    ``log_id`` was read first: applying the log after it, with the version rule of ``Rows``, makes
    the snapshot consistent.
    """

    log_id: str
    nodes: Rows
    node_specs: dict[int, bytes]
    queues: dict[int, QueueRecord] = field(default_factory=dict)
    queue_specs: dict[int, bytes] = field(default_factory=dict)
    classes: dict[int, bytes] = field(default_factory=dict)
    jobs: dict[int, JobRecord] = field(default_factory=dict)
    job_specs: dict[int, bytes] = field(default_factory=dict)
    tasks: dict[int, dict[int, TaskRecord]] = field(default_factory=dict)
    """jid -> tix -> record; a task without one is pending."""
    nominations: dict[int, Nomination] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    partition: PutPartition | None = None
    domains: dict[str, int] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    """By key, in the order of keys."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who claimed the coordinator's seat last. ``seconds_left`` 0: anyone may claim it now."""

    epoch: Epoch
    holder: str
    seconds_left: float


class Ledger(Protocol):
    """Every call may raise ``LedgerUnavailable``; after that the outcome of a write is unknown and
    the same batch must be sent again (same sequence), which is safe.

    Leases are measured by the server's clock alone. One that ran out ends its writer's right to
    write, but not its epoch: until somebody claims the writer it may be renewed, and a leader may
    claim and bless."""

    async def open(self) -> str:
        """Check identity and schema, and make what readers need; returns the cluster's id. A new
        ledger is founded on an empty server where none is expected. Errors: LedgerIdentity."""
        ...

    async def claim(
        self, writer: str, *, leader: Epoch | None = None, lease: float = 0.0, holder: str = ""
    ) -> Epoch:
        """Begin a new epoch of a writer; from now on no batch of an earlier one is accepted.

        ``leader``: the coordinator's own epoch, for every writer but ``COORDINATOR`` itself.
        ``lease``: seconds it may write without renewing, 0 = without end. ``holder``: who it is,
        for people. Errors: LeaseHeld where another still leads, Deposed where ``leader`` does not
        lead any more."""
        ...

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        """Begin the lease anew. False: the writer was claimed by another, or given back. Raises
        LedgerIdentity where the ledger was emptied or exchanged."""
        ...

    async def release(self, writer: str, epoch: Epoch) -> None:
        """End the lease and the right to write at once; nothing where the epoch is another's."""
        ...

    async def leader(self) -> Leader | None:
        """Who leads, None where nobody ever did."""
        ...

    async def bless(self, leader: Epoch, *, after: str = "0") -> str:
        """Accept this run of the server, after everything it holds was taken up; returns its run
        id. Nothing is accepted of any writer before.

        ``after``: a log id that was seen in this ledger. Errors: Deposed where ``leader`` does not
        lead any more, LedgerIdentity, LedgerBehind where the log does not have what was seen."""
        ...

    async def run_id(self) -> str:
        """The blessed run id, "" where none is."""
        ...

    async def commit(self, batch: CommitBatch) -> CommitReply: ...

    async def record(self, batch: StatusBatch) -> StatusReply: ...

    async def store(self, batch: IntakeBatch) -> IntakeReply: ...

    async def read_log(
        self,
        after: str,
        *,
        count: int = 512,
        block: float | None = None,
        rows_only: bool = False,
    ) -> list[LogEntry]:
        """Entries after an id ("0" = from the start). ``block`` seconds to wait for the first one.

        ``rows_only``: entries may leave out what changes neither nodes, classes nor nominations."""
        ...

    async def log_tail(self) -> str:
        """The id of the newest entry, "0" where the log is empty."""
        ...

    async def read_binds(
        self, consumer: str, *, count: int = 64, block: float | None = None, own: bool = False
    ) -> list[BindEntry]:
        """New entries for the binders' group; with ``own`` those delivered to this consumer (or to
        one that died) and never acknowledged."""
        ...

    async def ack_binds(self, ids: list[str]) -> None: ...

    async def snapshot(self, *, workload: bool = True) -> Snapshot:
        """``workload=False`` leaves out jobs, tasks and documents (as a shard worker wants it)."""
        ...

    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]:
        """Truth about some jobs (after a worker died with their turns)."""
        ...

    async def read_moved(self, moved: Moved) -> Snapshot:
        """What there is now of what moved. Of a snapshot it has nothing else, no ``log_id``."""
        ...

    async def read_nodes(self, rows: list[int]) -> Rows:
        """The records of these nodes as they stand; those that there is none of are left out."""
        ...

    async def read_nominations(self) -> dict[int, Nomination]:
        """Every nomination there is, by job."""
        ...

    async def read_domains(self) -> dict[str, int]:
        """Every counter of a cross-node rule, by key."""
        ...

    async def tell_reader(self, reader: str, log_id: str | None) -> None:
        """A follower has read the log up to here; None: it follows no more."""
        ...

    async def readers(self) -> dict[str, str]:
        """Up to where followers have read the log. One that died is among them until it is told of
        that it follows no more."""
        ...

    async def trim(self, *, log_before: str) -> None:
        """Forget log entries below an id that every follower has passed, and acknowledged binds."""
        ...

    async def close(self) -> None: ...
