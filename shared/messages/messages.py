"""The messages between coordinator, shard workers and ledger.

Every message is frozen and has plain integers, strings and lists, so that it travels as msgpack
without custom types. Turns and outcomes say by their fields' types what is read of them
(:mod:`shared.codec.packed`); what the ledger's scripts read has its form in
:mod:`shared.ledger.codec`.
Tasks are addressed by ``(jid, tix)``: the number of the job and the index of the task in it.
Nodes are addressed by ``row``: a dense index that is never given to another node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

import msgspec

from shared.codec.packed import Count, Index, Packed
from shared.messages.trace import TraceStep
from shared.units.things import Things

ALLOCATE = 0
"""Operation kind: the task takes idle capacity of the node and will be bound."""
NOMINATE = 1
"""Operation kind: the task is pipelined; it holds future capacity of the node, nothing is bound."""

NOBODY = -1
"""Stands in for a job's number in turns without a job (a shuffle), and in their outcomes."""

GUARD_GANG = 1
"""Bit of a run's guards: of its group, and of those above it, none or at least the minimum stay."""
GUARD_GUARANTEE = 2
"""Bit of a run's guards: its job's queue and all above it keep what is guaranteed."""
GUARD_REST = 4
"""Factor in a run's guards for the number of members that GUARD_GANG lets stay below the minimum.
They have ended, and still count for their gang (docs/decisions/0034)."""
GUARD_WHOLE = 1 << 30
"""Bit of a run's guards: of its group, and of those above it, nobody but the rest stays."""


class Level(IntEnum):
    """The four levels of the gradient, in the order in which they are tried."""

    IDLE_OWN = 1
    IDLE_OTHER = 2
    FUTURE_OWN = 3
    FUTURE_OTHER = 4


class TaskState(IntEnum):
    """The state of one task as the ledger stores it. An absent record means PENDING."""

    PENDING = 0
    BINDING = 1
    BOUND = 2
    RUNNING = 3
    RELEASING = 4
    SUCCEEDED = 5
    FAILED = 6
    """It ran and ended badly, or was deleted: what follows is for the policies of its job."""
    LOST = 7
    """It vanished from the cluster, from outside: its gang is repaired, or the rest released."""


HOLDING = (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING)
"""States in which a task occupies its node."""

UNSUCCESSFUL = (TaskState.FAILED, TaskState.LOST)
"""Ended, and no member of its gang any more. The two are told apart so that whoever leads next sees
from the records alone which gangs are to be repaired (docs/decisions/0040)."""

ENDED = (TaskState.SUCCEEDED, *UNSUCCESSFUL)
"""States in which nothing more happens to a task."""


class Verdict(IntEnum):
    """The ledger's judgement of a statement, of one of its tail operations, or of a batch."""

    COMMITTED = 0
    RECHECKED = 1  # a node version had moved, the statement still fits: committed
    FIT = 2  # request > idle of a node
    NOMINATION = 3  # request > idle + releasing - nominated of a node
    QUEUE = 4  # a queue or one of its ancestors would exceed its capability
    RANK = 5  # a nomination to displace is of equal or higher priority
    JOB = 6  # the job is gone or its specification moved
    NODE = 7  # the node is gone or its schedulability moved
    TASK = 8  # the task is not pending
    GANG = 9  # a group would come to stand between 0 and its minimum
    DOMAIN = 10  # a domain counter does not meet its condition
    CORE = 11  # tail only: the core of this statement was refused
    EPOCH = 12  # batch: the writer's epoch is not the current one
    RUN = 13  # batch: this run of the server has not been blessed by the leader
    OLD = 14  # batch: the sequence number left the writer's window


ACCEPTED = frozenset({Verdict.COMMITTED, Verdict.RECHECKED})
TRUE_CONFLICTS = frozenset({Verdict.FIT, Verdict.NOMINATION, Verdict.QUEUE, Verdict.RANK})


class Epoch(Packed, frozen=True):
    """One ownership of a shard (or of the leadership); compared for equality only."""

    counter: Count
    nonce: Annotated[str, msgspec.Meta(pattern=r"\A[!-9;-~]{1,64}\Z")]

    def __str__(self) -> str:
        return f"{self.counter}:{self.nonce}"

    @classmethod
    def parse(cls, text: str) -> Epoch:
        counter, _, nonce = text.partition(":")
        return cls(int(counter), nonce)


class Group(Packed, frozen=True):
    """A gang inside a job. Group 0 is the job (``parent`` -1); roles with a minimum follow."""

    parent: int
    minimum: int
    held: int = 0


class TaskRun(Packed, frozen=True):
    """Tasks of one class and one group in task order: the unit in which a turn names tasks."""

    cid: int
    group: int
    role: str
    tasks: list[Index]
    rank: Count = 0
    """Runs come in the order of their ranks; those of one rank are placed member by member."""
    first: Count = 0
    """The role's first task: ``task - first`` is a member's index."""


class Turn(Packed, frozen=True, kw_only=True):
    """A job and which of its tasks to place now, sent by Order to the job's home shard.

    ``tail`` bounds how many elastic tasks may follow once the job is ready; Volcano's queue turn
    is ``tail=1``. ``total`` is the number of tasks of the job and ``pending`` those still
    pending in it (both needed to decide whether a gang can still reach its minimum).
    """

    jid: Annotated[int, msgspec.Meta(ge=NOBODY)]
    job_version: Count
    qid: Count
    priority: int
    groups: list[Group]
    runs: list[TaskRun]
    tail: Count = 1
    attempt: Count = 0
    nominated: dict[Count, Count] = msgspec.field(default_factory=dict)
    """tix -> row of the tasks that hold a nomination (tried first, on that node)."""
    action: str = "allocate"
    """The action of the policy whose work this is. A shuffle is about no job (NOBODY)."""
    world: bytes = b""
    """Its context (:mod:`shared.messages.turn_context`); empty for a flat turn."""
    traced: bool = False
    """Whether somebody wants to see its steps: the outcome brings them."""
    lends: bool = False
    """Whether its queue may exceed its share, as no queue within its share had a job to try."""
    total: Count  # last and without a default: an array that lacks a field is refused

    def __post_init__(self) -> None:
        if self.jid == NOBODY and not self.world:
            raise ValueError("a turn about no job needs a turn context")


class Run(msgspec.Struct, frozen=True, gc=False):
    """Operations of one statement that share class, kind and group. The lists run in parallel."""

    kind: int
    cid: int
    group: int
    tasks: list[int]
    rows: list[int]
    versions: list[int]
    """Node version each operation saw: classifies a commit as clean or rechecked."""
    specs: list[int]
    """Node specification version each operation relied on: part of the read set."""
    levels: list[int]
    devices: Things = ()
    """Devices of its node that each of its tasks takes, as the writer chose them. Disjoint from the
    devices that the class names."""


@dataclass(frozen=True, slots=True)
class DomainOp:
    """A counter of a cross-node rule: ``key`` is ``term/domain``; checked before ``delta`` is
    added.

    ``condition`` is one of ``"eq0"``, ``"ge1"``, ``"le"`` (counter <= ``bound``) or ``""``.
    """

    key: str
    delta: int
    condition: str = ""
    bound: int = 0


class EvictRun(Packed, frozen=True):
    """Victims of one class and one group of a job; ``tasks`` and ``rows`` run in parallel.

    ``job_version`` is part of the read set: priority, preemptability and budgets are as when the
    worker judged the victims. Refused with TASK where a victim is not bound or running there, or is
    of another class or group; with JOB where its job changed or was deleted.
    """

    jid: Count
    job_version: Count
    cid: Count
    group: Count
    tasks: list[Index]
    rows: list[Index]
    guards: Count
    """Groups to keep whole after all of the statement's evictions: GUARD_GANG, GUARD_GUARANTEE,
    GUARD_WHOLE, plus GUARD_REST times the rest. Each run has its own: a gang that is in part
    already, and would be refused for ever, takes nothing from the check of the others."""
    to: list[Index] = msgspec.field(default_factory=list)
    """Where the tasks move: rows that are promised to them in the same statement, parallel to
    ``tasks``; empty where they only go. Their job must have no promise yet."""
    specs: list[Count] = msgspec.field(default_factory=list)
    """Specification versions of those nodes, as a run of placements has them."""
    priority: int = 0
    """Priority of the tasks' job, for the promises."""
    devices: Things = ()
    """Devices of the new node that are promised to each of the tasks."""

    def __post_init__(self) -> None:
        if len(self.tasks) != len(self.rows):
            raise ValueError("its lists of tasks and rows differ in length")
        if not len(self.to) == len(self.specs) == (len(self.tasks) if self.to else 0):
            raise ValueError("its lists of tasks, new rows and their specs differ in length")

    @property
    def rest(self) -> int:
        """How many members may stay of a group that has less than its minimum."""
        return self.guards % GUARD_WHOLE // GUARD_REST

    @property
    def promise(self) -> Run:
        """Its tasks' promises, as a run of nominations."""
        levels = [int(Level.FUTURE_OTHER)] * len(self.to)
        tasks, to = list(self.tasks), list(self.to)
        return Run(NOMINATE, self.cid, self.group, tasks, to, [], [], levels, devices=self.devices)


def promises_of(evictions: Iterable[EvictRun]) -> dict[int, list[EvictRun]]:
    """The runs that move, by job."""
    moves: dict[int, list[EvictRun]] = {}
    for run in evictions:
        if run.to:
            moves.setdefault(run.jid, []).append(run)
    return moves


class Statement(msgspec.Struct, frozen=True, gc=False):
    """A gang core that stands or falls together, then a tail of single operations.

    An accepted statement replaces every nomination its job held before. Its evictions belong to the
    core, and come first: what they release, its placements may be promised.
    """

    jid: int
    job_version: int
    qid: int
    priority: int
    core: list[Run]
    tail: list[Run]
    displaced: list[int]
    """Jobs of lower priority whose nominations this statement takes away."""
    domains: list[DomainOp]
    expiry: float = 0.0
    """When the nominations lapse, seconds since 1970; 0 where there are none."""
    evictions: list[EvictRun] = msgspec.field(default_factory=list)
    """Victims, none twice, perhaps of the job itself: what evicts for nobody (a shuffle) names the
    victims' own job as its ``jid``."""
    reason: str = ""
    """The action and the rule that evict: told in log, history and events."""
    in_part: bool = False
    """Whether its job may hold fewer members than its minimum: no rule of the policy (JobReady)
    keeps gangs whole."""


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """The statements of one shard in one script call; the ledger judges them one by one."""

    writer: str
    epoch: Epoch
    sequence: int
    run_id: str
    statements: list[Statement]


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The ledger's answer to one statement. ``at`` is the row, tix, qid or group that decided.

    ``tail`` holds one verdict per tail operation in order; empty where the core was refused.
    """

    verdict: Verdict
    at: int
    tail: list[Verdict]


@dataclass(frozen=True, slots=True)
class Rows:
    """Absolute packed node records (see :mod:`shared.ledger.records`) after a batch.

    A view that sets these rows, where ``version`` is newer than its own, equals the ledger there.
    """

    rows: list[int]
    records: list[bytes]
    things: list[tuple[int, str, bytes]] = field(default_factory=list)
    """(row, name, packed record) of named things that changed, or that caused a refusal. The rule
    for nodes applies; a view does not keep a record of which every amount is 0."""


@dataclass(frozen=True, slots=True)
class CommitReply:
    """``verdict`` is COMMITTED unless the whole batch was refused (EPOCH, RUN, OLD)."""

    verdict: Verdict
    answers: list[Answer]
    fresh: Rows
    """Every row that the batch touched or was refused at, as it stands after the batch."""
    replayed: bool = False


class StatusItem(msgspec.Struct, frozen=True, gc=False):
    """A change of state of tasks of one job. ``rows`` are the nodes the writer believes in.

    ``state`` PENDING means: the bind was refused for good, the task goes back to pending; or what
    was evicted has ended, and may be placed again, as another incarnation of the task; or, with
    ``restarts``, what has ended begins anew as another incarnation, by a policy of its job.

    With ``cid`` the tasks are *adopted*: the cluster has them on these rows in this state (bound,
    running or releasing), whatever the ledger believed. Only what has ended there stays so. Where
    ``state`` is FAILED, ``cid`` and ``group`` say what those are that were never placed.
    """

    state: TaskState
    jid: int
    tasks: list[int]
    rows: list[int]
    cid: int = -1
    """Class of adopted tasks, and of failed ones that the ledger has as pending; -1: not given."""
    group: int = -1
    devices: Things = ()
    """Devices that each adopted task has on its node."""
    incarnations: tuple[int, ...] = ()
    """Parallel to ``tasks``: the incarnations that the cluster spoke of; () where all are first
    ones. Not sent: the sender looks whether the next ones have begun meanwhile."""
    restarts: tuple[int, ...] = ()
    """Ended incarnations of tasks that begin anew, parallel to ``tasks``. ``state`` is PENDING. Not
    in the log: a task that had ended and is pending was restarted."""

    @property
    def adopted(self) -> bool:
        return self.cid >= 0 and self.state is not TaskState.FAILED


@dataclass(frozen=True, slots=True)
class StatusBatch:
    writer: str
    epoch: Epoch
    sequence: int
    run_id: str
    items: list[StatusItem]
    expired: list[int] = field(default_factory=list)
    """Jobs whose nominations end now (expired or cancelled)."""


@dataclass(frozen=True, slots=True)
class StatusReply:
    """``applied[i]`` lists the tasks of item i whose state changed; others were already there."""

    verdict: Verdict
    applied: list[list[int]]
    fresh: Rows
    replayed: bool = False


class Placement(Packed, frozen=True):
    """Accepted operations of one class, as an outcome reports them to Order."""

    cid: int
    kind: Count
    tasks: list[Index]
    rows: list[Index]
    levels: list[Index]
    devices: Things = ()
    """Devices of its node that each of them takes."""

    def __post_init__(self) -> None:
        if not len(self.tasks) == len(self.rows) == len(self.levels):
            raise ValueError("its lists of tasks, rows and levels differ in length")

    @classmethod
    def of(cls, run: Run) -> Placement:
        return cls(run.cid, run.kind, run.tasks, run.rows, run.levels, run.devices)


class OutcomeCode(IntEnum):
    PLACED = 0  # the core, and possibly tail tasks, are committed
    NOMINATED = 1  # the gang is pipelined: every placement is a nomination
    INFEASIBLE = 2  # nothing fits now; ``reasons`` says why
    CONFLICT = 3  # refused by the ledger more often than the worker repairs
    STALE = 4  # job unknown, moved or nothing pending: Order reads the job anew
    FENCED = 5  # the batch was refused as a whole: this worker is no longer the owner


class Outcome(Packed, frozen=True, kw_only=True):
    """The result of a turn."""

    jid: Annotated[int, msgspec.Meta(ge=NOBODY)]
    code: OutcomeCode
    placements: list[Placement]
    failed_role: str = ""
    displaced: list[Index] = msgspec.field(default_factory=list)
    fitting: Count = 0
    """Tasks of a gang without room that would find a place if the rest of it had one."""
    committed: Count = 0
    rechecked: Count = 0
    conflicts_true: Count = 0
    conflicts_read: Count = 0
    session: Count = 0
    """Number of the worker's session that decided, from 1; 0 where none did."""
    evictions: list[EvictRun] = msgspec.field(default_factory=list)
    """Evictions of the accepted statement."""
    reason: str = ""
    """Reason of the evictions, as in the statement."""
    moved: dict[str, Count] = msgspec.field(default_factory=dict)
    """Version keys that the accepted statement moved -> by how much."""
    steps: tuple[TraceStep, ...] = ()
    """Trace of a traced turn."""
    ungated: list[Index] = msgspec.field(default_factory=list)
    """Tasks of the job whose queue has room for them, and whose own scheduling gate may go."""
    unanswered: dict[str, Count] = msgspec.field(default_factory=dict)
    """Decisions made without the answer of another server: sentence -> number of questions."""
    reasons: dict[str, Count]  # last and without a default, as in a turn
    """Reason -> number of nodes, exclusive: the counts add up to the nodes looked at."""
