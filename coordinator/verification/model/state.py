"""The words of the model: what one state of the whole system is, and when two states are the same.

Two shards with a worker each, two coordinators, three nodes that hold one task each, two jobs: a
gang of two tasks (job 0) and a single task (job 1). Everything is small tuples, so that states can
be compared and kept by the hundred thousand.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, TypeVar

from coordinator.verification.model.checks import Promise

T = TypeVar("T")

SHARDS = (0, 1)
GANG, SINGLE = 0, 1
JOBS = (GANG, SINGLE)
MOVING = 1
"""The node that goes from shard 0 to shard 1; node 0 stays with the one, node 2 with the other."""

Place = tuple[int, ...]
"""Nodes of a job's tasks, in the order of the tasks; () where it is pending."""

# What a coordinator does.
STANDBY, ELECTED, CLAIMED, RECOVERED, LEADING = range(5)

# What a coordinator believes of a job; 0 to 3 is in flight: 2 * shard + (sent before the new
# revision of the partition was published).
PENDING, PLACED, GONE = 4, 5, 6

# Phases of the hand-over of the moving node.
BEFORE, DESIRED, IN_USE = range(3)

# What happened to the single job while its statement was on its way.
UNCHANGED, DROPPED, MEMBER_DELETED = range(3)

# A worker's process.
UP, PAUSED, DEAD = range(3)

# Kinds of messages.
TURN, REQUEST, ANSWER = range(3)

# What the ledger says of a request.
ACCEPTED, REFUSED, FENCED = range(3)
NEVER = -1


class Message(NamedTuple):
    kind: int
    job: int
    shard: int
    epoch: int
    """The shard's epoch under which it was sent."""
    run: int = 0
    """REQUEST: the run of the server that the worker was told of."""
    place: Place = ()
    """REQUEST: where the worker wants to place the job."""
    answer: int = NEVER
    """REQUEST: what the ledger's window remembers as its first answer. ANSWER: the answer."""
    old: bool = False
    """TURN: it went to a process that was replaced since (paused, it may still read it)."""


class ModelCoordinator(NamedTuple):
    role: int = STANDBY
    paused: bool = False
    leadership: int = 0
    shards: tuple[int, int] = (0, 0)
    """The epochs it claimed for the shards."""
    run: int = 0
    """The run of the server that it recovered from or blessed."""
    jobs: tuple[int, int] = (PENDING, PENDING)


class ModelProcess(NamedTuple):
    epoch: int
    run: int
    status: int = UP


class State(NamedTuple):
    # The ledger.
    run: int
    blessed: int
    rolled: bool
    """This run began with an old copy: something acknowledged is missing in it."""
    counts: bool
    """Somebody has said that this copy counts."""
    leadership: int
    lease_lasts: bool
    shards: tuple[int, int]
    lasts: tuple[bool, bool]
    """Whether the leases of the shards' epochs last."""
    phase: int
    places: tuple[Place, Place]
    change: int
    cordoned: bool
    # Everybody else.
    cluster: tuple[Place, Place]
    """Where the cluster runs the jobs."""
    coordinators: tuple[ModelCoordinator, ModelCoordinator]
    processes: tuple[ModelProcess, ModelProcess]
    messages: tuple[Message, ...]
    # What may still go wrong.
    crashes: int
    pauses: int
    cuts: int
    changes: int


class ModelStep(NamedTuple):
    label: str
    after: State
    broken: tuple[Promise, ...] = ()
    """The promises that this step breaks by itself."""
    request: Message | None = None
    """The request that the ledger judges in this step."""


class FaultBudget(NamedTuple):
    """How often what may go wrong."""

    crashes: int = 1
    """Kills of a coordinator, a worker or the server, each of which is started again."""
    pauses: int = 1
    """A coordinator or a worker stands still, and wakes at any time after."""
    cuts: int = 1
    """Answers of the ledger that are lost, so that the request comes again."""
    changes: int = 1
    """Users: a job or a member is deleted, or a node cordoned, while a statement is on its way."""


def begin(faults: FaultBudget) -> State:
    """A coordinator leads, both workers are up, both jobs are pending, nothing is on its way."""
    leader = ModelCoordinator(role=LEADING, leadership=1, shards=(1, 1))
    return State(
        run=0,
        blessed=0,
        rolled=False,
        counts=False,
        leadership=1,
        lease_lasts=True,
        shards=(1, 1),
        lasts=(True, True),
        phase=BEFORE,
        places=((), ()),
        change=UNCHANGED,
        cordoned=False,
        cluster=((), ()),
        coordinators=(ModelCoordinator(), leader),
        processes=(ModelProcess(1, 0), ModelProcess(1, 0)),
        messages=(),
        crashes=faults.crashes,
        pauses=faults.pauses,
        cuts=faults.cuts,
        changes=faults.changes,
    )


def canonical(s: State) -> State:
    """The representative of all states that differ from this one in nothing that counts.

    Epochs are compared for equality alone, so any numbers in the same order will do. Those that
    neither the ledger nor a worker nor the leader holds are all alike (0), and of equal messages
    under them one stands for all: the second can do nothing that the first did not. The two
    coordinators are alike, so their order does not count; nor does that of messages.
    """
    first, second = s.coordinators
    first, second = _plain(first, s.leadership), _plain(second, s.leadership)
    a, b = s.processes
    leaderships = _ranks(s.leadership, first.leadership, second.leadership)
    # Of the coordinators only the leader counts: what the others send is over.
    leader_epochs = (
        first.shards
        if first.leadership == s.leadership
        else second.shards
        if second.leadership == s.leadership
        else (0, 0)
    )
    ranks = (
        _ranks(s.shards[0], a.epoch, leader_epochs[0]),
        _ranks(s.shards[1], b.epoch, leader_epochs[1]),
    )
    waiting = first if first.leadership == s.leadership else second
    first, second = _renamed(first, leaderships, ranks), _renamed(second, leaderships, ranks)
    return s._replace(
        leadership=leaderships[s.leadership],
        shards=(ranks[0][s.shards[0]], ranks[1][s.shards[1]]),
        coordinators=(first, second) if first <= second else (second, first),
        processes=(_of(a, ranks[0]), _of(b, ranks[1])),
        messages=_messages(s.messages, waiting, ranks) if s.messages else (),
        # What the cluster runs counts again only when the ledger may come back without it.
        cluster=s.cluster if s.crashes or s.rolled else ((), ()),
    )


Ranks = dict[int, int]


@cache
def _ranks(*epochs: int) -> Ranks:
    """Epoch -> its rank among them; 0 (none) stays 0."""
    return {epoch: rank for rank, epoch in enumerate(sorted({0, *epochs}))}


def _renamed(
    c: ModelCoordinator, leaderships: Ranks, ranks: tuple[Ranks, Ranks]
) -> ModelCoordinator:
    leadership = leaderships[c.leadership]
    shards = (ranks[0].get(c.shards[0], 0), ranks[1].get(c.shards[1], 0))
    if leadership == c.leadership and shards == c.shards:
        return c
    return c._replace(leadership=leadership, shards=shards)


def _of(process: ModelProcess, ranks: Ranks) -> ModelProcess:
    epoch = ranks[process.epoch]
    return process if epoch == process.epoch else process._replace(epoch=epoch)


def _messages(
    messages: tuple[Message, ...], waiting: ModelCoordinator, ranks: tuple[Ranks, Ranks]
) -> tuple[Message, ...]:
    """Answers that nobody waits for are as good as lost."""
    canonical_messages = set()
    for m in messages:
        if m.kind == ANSWER and not awaits(waiting, m):
            continue
        epoch = ranks[m.shard].get(m.epoch, 0)
        canonical_messages.add(m if epoch == m.epoch else m._replace(epoch=epoch))
    return tuple(sorted(canonical_messages))


def awaits(c: ModelCoordinator, m: Message) -> bool:
    """Whether this coordinator waits for an answer to this job under this epoch."""
    return c.shards[m.shard] == m.epoch and c.jobs[m.job] >> 1 == m.shard


def _plain(c: ModelCoordinator, leadership: int) -> ModelCoordinator:
    """Who was deposed gets no more answers: it may still send what it believes pending."""
    if c.role == STANDBY or c.leadership == leadership:
        return c
    first, second = c.jobs
    return c._replace(
        jobs=(first if first == PENDING else GONE, second if second == PENDING else GONE)
    )


def with_item(pair: tuple[T, T], index: int, item: T) -> tuple[T, T]:
    """The pair with another item at an index."""
    return (item, pair[1]) if index == 0 else (pair[0], item)
