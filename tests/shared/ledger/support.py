"""A small cluster in a ledger, and short ways to ask it things."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TypeVar

from shared.ledger.entries.intake_batch import (
    IntakeBatch,
    IntakeOp,
    IntakeReply,
    PutClass,
    PutJob,
    PutNode,
    PutQueue,
)
from shared.ledger.entries.log import LogEntry
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.entries.stored import ThingAsk
from shared.ledger.protocol import Ledger
from shared.ledger.records import HEAD, WIDTH, unpack_nodes
from shared.messages.messages import (
    ALLOCATE,
    GUARD_GANG,
    GUARD_GUARANTEE,
    GUARD_REST,
    CommitBatch,
    CommitReply,
    Epoch,
    EvictRun,
    Group,
    Run,
    Statement,
    StatusBatch,
    StatusItem,
    StatusReply,
    TaskState,
)
from shared.units.things import Things

CPU, MEMORY, PODS, PORT = 0, 1, 2, 4
SMALL, BIG, PORTED, NOTHING, NAMED, SHARED = 1, 2, 3, 4, 51, 52
HOST_PORT, DEVICE = "port/TCP/80", "gpu/0"
ROOT, LEAF, OTHER = 0, 1, 2
COORDINATOR = "coordinator"

E = TypeVar("E", bound=LogEntry)

CLASSES = [
    PutClass(SMALL, [(CPU, 1000, 0), (PODS, 1, 0)], b"small"),
    PutClass(BIG, [(CPU, 4000, 0), (MEMORY, 2**32, 0), (PODS, 1, 0)], b"big"),
    PutClass(PORTED, [(CPU, 1000, 0), (PODS, 1, 0), (PORT, 1, 1)], b"ported"),
    PutClass(NOTHING, [(PODS, 1, 0)], b"nothing"),
    PutClass(NAMED, [(PODS, 1, 0)], b"named", [ThingAsk(HOST_PORT, (1,), (1,))]),
    PutClass(
        SHARED,
        [(CPU, 500, 0), (PODS, 1, 0)],
        b"shared",
        [ThingAsk(DEVICE, (300, 2), (1000, 5)), ThingAsk(HOST_PORT, (1,), (1,))],
    ),
]
"""NAMED takes a host port and no amount, SHARED a part of a device (memory, cores) and the port."""


def node(row: int, cpu: int = 8000, spec: int = 1, things: Things = ()) -> PutNode:
    return PutNode(row, [(CPU, cpu), (MEMORY, 2**34), (PODS, 10)], spec, b"node-%d" % row, things)


def job(jid: int, *groups: Group, qid: int = LEAF, version: int = 1) -> PutJob:
    return PutJob(jid, qid, version, list(groups) or [Group(-1, 1)], b"job-%d" % jid)


def cluster(nodes: int = 4, cpu: int = 8000, limit: int | None = None) -> list[IntakeOp]:
    capability = None if limit is None else [(CPU, limit)]
    return [
        *CLASSES,
        PutQueue(ROOT, -1, capability, b"root"),
        PutQueue(LEAF, ROOT, None, b"leaf"),
        PutQueue(OTHER, ROOT, None, b"other"),
        *(node(row, cpu) for row in range(nodes)),
    ]


def run(
    tasks: list[int],
    rows: list[int],
    *,
    kind: int = ALLOCATE,
    cid: int = SMALL,
    group: int = 0,
    version: int = 1,
    spec: int = 1,
) -> Run:
    n = len(tasks)
    return Run(kind, cid, group, tasks, rows, [version] * n, [spec] * n, [1] * n)


def statement(
    jid: int,
    *core: Run,
    tail: tuple[Run, ...] = (),
    version: int = 1,
    qid: int = LEAF,
    priority: int = 0,
    displaced: tuple[int, ...] = (),
    expiry: float = 0.0,
) -> Statement:
    return Statement(
        jid=jid,
        job_version=version,
        qid=qid,
        priority=priority,
        core=list(core),
        tail=list(tail),
        displaced=list(displaced),
        domains=[],
        expiry=expiry,
    )


SOME_GUARDS = (
    *(0, GUARD_GANG, GUARD_GUARANTEE, GUARD_GANG | GUARD_REST, GUARD_GANG | 2 * GUARD_REST),
    *[GUARD_GANG | GUARD_GUARANTEE] * 2,
)


def some_victims(rng: random.Random, now: Snapshot) -> list[EvictRun]:
    """Draw victims from one or two jobs, almost all of them as they really stand; some gangs whole.
    Each job's guards are drawn, now and then each run's."""
    able = (TaskState.BOUND, TaskState.RUNNING)
    runs: list[EvictRun] = []
    jids = [
        j for j, tasks in sorted(now.tasks.items()) if any(t.state in able for t in tasks.values())
    ]
    for jid in rng.sample(jids, min(len(jids), rng.choice((1, 2)))):
        there, strays = now.tasks[jid], rng.random() < 0.15
        result = [t for t in there if there[t].state in able or (strays and rng.random() < 0.3)]
        version = now.jobs[jid].spec_version + (rng.random() < 0.03)
        if rng.random() < 0.7:
            result = rng.sample(result, min(len(result), rng.choice((1, 1, 2))))
        guards = rng.choice(SOME_GUARDS)
        for tix in result:
            task = there[tix]
            row = task.row if rng.random() < 0.97 else 0
            if rng.random() < 0.1:
                guards = rng.choice(SOME_GUARDS)
            runs.append(EvictRun(jid, version, task.cid, task.group, [tix], [row], guards))
    return runs


def entry_of_kind(entry: LogEntry, kind: type[E]) -> E:
    """This entry, which must be of this kind."""
    assert isinstance(entry, kind)
    return entry


@dataclass
class Desk:
    """A ledger with its writers' epochs and sequences."""

    ledger: Ledger
    run_id: str = ""
    epochs: dict[str, Epoch] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)

    async def open(self, *writers: str) -> Desk:
        await self.ledger.open()
        for writer in (COORDINATOR, "0", *writers):
            await self.claim(writer)
        self.run_id = await self.bless()
        return self

    async def claim(self, writer: str, lease: float = 0.0) -> Epoch:
        """Every writer but the coordinator's own is claimed by the coordinator."""
        leader = None if writer == COORDINATOR else self.epochs[COORDINATOR]
        self.epochs[writer] = await self.ledger.claim(writer, leader=leader, lease=lease)
        self.sequences[writer] = 0
        return self.epochs[writer]

    async def bless(self) -> str:
        return await self.ledger.bless(self.epochs[COORDINATOR])

    def next(self, writer: str) -> int:
        self.sequences[writer] += 1
        return self.sequences[writer]

    def commit_batch(self, *statements: Statement, writer: str = "0") -> CommitBatch:
        sequence = self.next(writer)
        return CommitBatch(writer, self.epochs[writer], sequence, self.run_id, list(statements))

    async def commit(self, *statements: Statement, writer: str = "0") -> CommitReply:
        return await self.ledger.commit(self.commit_batch(*statements, writer=writer))

    async def record(self, *items: StatusItem, expired: tuple[int, ...] = ()) -> StatusReply:
        w = COORDINATOR
        batch = StatusBatch(w, self.epochs[w], self.next(w), self.run_id, [*items], [*expired])
        return await self.ledger.record(batch)

    async def store(self, *ops: IntakeOp) -> IntakeReply:
        w = COORDINATOR
        batch = IntakeBatch(w, self.epochs[w], self.next(w), self.run_id, [*ops])
        return await self.ledger.store(batch)

    async def slots(self, row: int) -> dict[int, tuple[int, ...]]:
        """slot -> (allocatable, used, observed, releasing, nominated) of one node."""
        nodes = (await self.ledger.snapshot(workload=False)).nodes
        values = unpack_nodes([nodes.records[nodes.rows.index(row)]])[0].tolist()
        starts = range(HEAD, len(values), WIDTH)
        return {i: tuple(values[start : start + WIDTH]) for i, start in enumerate(starts)}

    async def version(self, row: int) -> int:
        nodes = (await self.ledger.snapshot(workload=False)).nodes
        return int(unpack_nodes([nodes.records[nodes.rows.index(row)]])[0][0])
