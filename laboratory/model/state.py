"""The state of the model, and the equivalence of states.

Two shards with a worker each, two coordinators, three nodes for one task each, two jobs: a gang of
two tasks (job 0) and a single task (job 1). States are small tuples, so that hundreds of thousands
can be compared and stored.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, TypeVar

from laboratory.model.checks import Promise

T = TypeVar("T")

SHARDS = (0, 1)
GANG, SINGLE = 0, 1
JOBS = (GANG, SINGLE)
MOVING = 1
"""The node that moves from shard 0 to shard 1; node 0 stays with shard 0, node 2 with shard 1."""

Place = tuple[int, ...]
"""Nodes of a job's tasks, in the order of tasks; () while pending."""

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
UNANSWERED = -1


class Message(NamedTuple):
    kind: int
    job: int
    shard: int
    epoch: int
    """The shard's epoch at the time of sending."""
    run: int = 0
    """REQUEST: the server's run, as the worker knows it."""
    place: Place = ()
    """REQUEST: the nodes where the worker wants to place the job."""
    answer: int = UNANSWERED
    """REQUEST: the first answer, which the ledger remembers. ANSWER: the answer."""
    old: bool = False
    """TURN: it was sent to a process that was replaced since (and may still read it after a
    pause)."""


class ModelCoordinator(NamedTuple):
    role: int = STANDBY
    paused: bool = False
    leadership: int = 0
    shards: tuple[int, int] = (0, 0)
    """The epochs that it claimed for the shards."""
    run: int = 0
    """The server's run that it recovered from or accepted."""
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
    """This run began with an old copy of the data, which lacks acknowledged entries."""
    counts: bool
    """The operator has accepted this copy."""
    leadership: int
    lease_lasts: bool
    shards: tuple[int, int]
    lasts: tuple[bool, bool]
    """Whether the leases of the shards' epochs are valid."""
    phase: int
    places: tuple[Place, Place]
    change: int
    cordoned: bool
    # Everybody else.
    cluster: tuple[Place, Place]
    """Nodes on which the cluster runs the jobs."""
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
    """Promises that this step itself breaks."""
    request: Message | None = None
    """The request that the ledger judges in this step."""


class FaultBudget(NamedTuple):
    """Number of failures of each kind."""

    crashes: int = 1
    """Kills of a coordinator, a worker or the server, each followed by a restart."""
    pauses: int = 1
    """Pauses of a coordinator or a worker, of any length."""
    cuts: int = 1
    """Lost answers of the ledger, after which the request is repeated."""
    changes: int = 1
    """User changes (a job or member deleted, a node cordoned) while a statement is in progress."""


def begin(faults: FaultBudget) -> State:
    """The initial state: a coordinator leads, both workers are up, both jobs pending, no
    messages."""
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
    """The representative of all equivalent states.

    Epochs are only compared for equality, so any numbers in the same order are equivalent. Epochs
    that neither the ledger nor a worker nor the leader holds are all equivalent (0), and of equal
    messages under them one is enough: the second can do nothing that the first did not. The two
    coordinators are interchangeable, and the order of messages does not matter.
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
    """Epoch -> its rank; 0 (none) stays 0."""
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
    """Drop answers that nobody waits for: they are as good as lost."""
    canonical_messages = set()
    for m in messages:
        if m.kind == ANSWER and not awaits(waiting, m):
            continue
        epoch = ranks[m.shard].get(m.epoch, 0)
        canonical_messages.add(m if epoch == m.epoch else m._replace(epoch=epoch))
    return tuple(sorted(canonical_messages))


def awaits(c: ModelCoordinator, m: Message) -> bool:
    """Whether this coordinator waits for an answer about this job under this epoch."""
    return c.shards[m.shard] == m.epoch and c.jobs[m.job] >> 1 == m.shard


def _plain(c: ModelCoordinator, leadership: int) -> ModelCoordinator:
    """A deposed coordinator gets no more answers, but may still send jobs that it believes
    pending."""
    if c.role == STANDBY or c.leadership == leadership:
        return c
    first, second = c.jobs
    return c._replace(
        jobs=(first if first == PENDING else GONE, second if second == PENDING else GONE)
    )


def with_item(pair: tuple[T, T], index: int, item: T) -> tuple[T, T]:
    """The pair with the item at an index replaced."""
    return (item, pair[1]) if index == 0 else (pair[0], item)


Came = dict[T, tuple[T, str] | None]
"""State -> (previous state, step); None for the first."""


def way_to(came: Came[T], state: T) -> list[str]:
    """The steps from the first state to this one."""
    labels: list[str] = []
    while (step := came[state]) is not None:
        state, label = step
        labels.append(label)
    return labels[::-1]
