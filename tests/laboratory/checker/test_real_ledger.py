"""The checker beside the real ledger: what the script lets pass keeps the promises, and the checker
agrees to the last event."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from redis.asyncio import Redis

from coordinator.bind.binder import read_reports
from coordinator.cluster.history.file import HistoryFile, LogFollower
from coordinator.cluster.protocol import BindAnswer, BindRequests
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.faulty import Faults, FaultyCluster
from laboratory.checker.check import check
from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import (
    DropJob,
    IntakeBatch,
    IntakeOp,
    Observe,
    PutClass,
    PutJob,
    PutNode,
    PutPartition,
    PutQueue,
)
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import (
    ACCEPTED,
    ALLOCATE,
    NOMINATE,
    CommitBatch,
    Epoch,
    Group,
    Run,
    Statement,
    StatusBatch,
    StatusItem,
    TaskState,
)
from shared.model.model import Job, Node, Queue, Role, TaskClass
from shared.records.specs import encode_class, encode_node, encode_queue
from shared.records.specs_jobs import encode_job

NODES, JOBS, ROUNDS, GPU = 5, 30, 60, 3
QUEUES = {1: "a", 2: "b"}


class CheckedWorld:
    """Random statements of two shards that know little, a cluster with faults, and the history."""

    def __init__(self, ledger: RedisLedger, history: HistoryFile, seed: int) -> None:
        self.ledger = ledger
        self.history = history
        self.random = random.Random(seed)
        faults = Faults(refuse=0.1, unknown_after=0.1, duplicate=0.2)
        self.cluster = FaultyCluster(LocalCluster(grace=1.0), faults, seed)
        self.now = time.time()
        self.after = 0
        self.run = ""
        self.epochs: dict[str, Epoch] = {}
        self.sequences: dict[str, int] = {}
        self.jobs: dict[int, Job] = {}
        self.nominated: set[int] = set()
        self.unbound: list[tuple[int, int, int]] = []  # (jid, tix, row)

    async def begin(self) -> None:
        await self.ledger.open()
        self.epochs[COORDINATOR] = leader = await self.ledger.claim(COORDINATOR)
        self.run = await self.ledger.bless(leader)
        for writer in ("0", "1"):
            self.epochs[writer] = await self.ledger.claim(writer, leader=leader)
        await self.store(
            PutClass(1, [(2, 1, 0), (GPU, 1000, 0)], _class((2, 1), (GPU, 1000))),
            PutClass(
                2, [(2, 1, 0), (GPU, 2000, 0), (5, 1, 1)], _class((2, 1), (GPU, 2000), (5, 1))
            ),
            *[_node(row, 4000) for row in range(NODES)],
            PutQueue(0, -1, [(GPU, 14000)], encode_queue(Queue(0, "root"))),
            PutQueue(1, 0, [(GPU, 9000)], encode_queue(Queue(1, "a", parent=0))),
            PutQueue(2, 0, None, encode_queue(Queue(2, "b", parent=0))),
            PutPartition(1, {0: [0, 1, 2], 1: [3, 4]}),
        )
        for jid in range(JOBS):
            await self.put_job(jid, spec=1)

    async def put_job(self, jid: int, *, spec: int) -> None:
        qid = 1 + jid // 2 % 2
        count = self.random.randint(1, 4)
        minimum = self.random.randint(1, count)
        role = Role("w", 1 + jid % 2, 0, count, duration=self.random.choice([0.5, 2.0, 5.0]))
        groups = (Group(-1, minimum),)
        queue = QUEUES[qid]
        job = Job(jid, "d", f"j{jid}", "Job", f"u{jid}", queue, 0.0, jid % 3, groups, (role,), spec)
        self.jobs[jid] = job
        await self.store(PutJob(jid, qid, spec, list(groups), encode_job(job)))

    def next(self, writer: str) -> tuple[str, Epoch, int, str]:
        self.sequences[writer] = self.sequences.get(writer, 0) + 1
        return writer, self.epochs[writer], self.sequences[writer], self.run

    async def store(self, *ops: IntakeOp) -> None:
        await self.ledger.store(IntakeBatch(*self.next(COORDINATOR), list(ops)))

    def statement(self) -> Statement:
        job = self.random.choice(list(self.jobs.values()))
        role = job.roles[0]
        tasks = self.random.sample(range(role.count), self.random.randint(1, role.count))
        kind = self.random.choice([ALLOCATE, ALLOCATE, NOMINATE])
        core = tasks[: self.random.randint(0, len(tasks))]
        lower = [j for j in self.nominated if self.jobs[j].priority < job.priority]
        return Statement(
            jid=job.jid,
            job_version=job.spec,
            qid=1 + job.jid // 2 % 2,
            priority=job.priority,
            core=[self.operations(kind, role.cid, core)] if core else [],
            tail=[self.operations(kind, role.cid, tasks[len(core) :])],
            displaced=self.random.sample(lower, len(lower) // 2),
            domains=[],
            expiry=1e12 if kind == NOMINATE else 0.0,
        )

    def operations(self, kind: int, cid: int, tasks: list[int]) -> Run:
        rows = [self.random.randrange(NODES) for _ in tasks]
        level = self.random.choice([1, 2] if kind == ALLOCATE else [3, 4])
        ones = [1] * len(tasks)
        return Run(kind, cid, 0, tasks, rows, ones, ones, [level] * len(tasks))

    async def commit(self) -> int:
        """One batch; returns how many statements were accepted."""
        statements = [self.statement() for _ in range(self.random.randint(1, 4))]
        shard = self.random.choice(["0", "1"])
        reply = await self.ledger.commit(CommitBatch(*self.next(shard), statements))
        for statement, answer in zip(statements, reply.answers, strict=True):
            if answer.verdict not in ACCEPTED:
                continue
            self.nominated |= {statement.jid}
            for run in statement.core:
                self.note(statement.jid, run, [True] * len(run.tasks))
            verdicts = [verdict in ACCEPTED for verdict in answer.tail]
            self.note(statement.jid, statement.tail[0], verdicts)
        return sum(answer.verdict in ACCEPTED for answer in reply.answers)

    def note(self, jid: int, run: Run, accepted: list[bool]) -> None:
        if run.kind == ALLOCATE:
            for tix, row, is_accepted in zip(run.tasks, run.rows, accepted, strict=True):
                if is_accepted:
                    self.unbound.append((jid, tix, row))

    async def bind(self) -> None:
        some = self.unbound[: self.random.randint(0, len(self.unbound))]
        request = BindRequests(
            tasks=[f"{jid}.{tix}" for jid, tix, _ in some],
            uids=[f"u{jid}" for jid, _, _ in some],
            pods=[""] * len(some),
            nodes=[f"n{row}" for _, _, row in some],
            durations=[self.jobs[jid].roles[0].duration for jid, _, _ in some],
        )
        self.now = max(self.now, time.time())  # nobody binds before the commit
        answers = self.cluster.bind(request, self.now).answers
        items = []
        for (jid, tix, row), answer in zip(some, answers, strict=True):
            if answer == BindAnswer.UNKNOWN:
                continue
            self.unbound.remove((jid, tix, row))
            state = TaskState.PENDING if answer == BindAnswer.REFUSED else TaskState.BOUND
            items.append(StatusItem(state, jid, [tix], [row]))
        await self.record(items)

    async def step(self, seconds: float) -> None:
        self.now += seconds
        self.cluster.advance(self.now)
        reports = self.cluster.reports(self.after)
        self.after = reports.last
        await self.record(read_reports(reports, rows={f"n{row}": row for row in range(100)}))

    async def record(self, items: list[StatusItem], expired: list[int] | None = None) -> None:
        self.history.cluster_events(self.cluster.drain())
        batch = StatusBatch(*self.next(COORDINATOR), items, expired or [])
        await self.ledger.record(batch)
        self.nominated -= set(batch.expired)

    async def disturb(self) -> None:
        """Something from outside: foreign usage, another size, a lapse, a new spec, a deletion."""
        row = self.random.randrange(NODES)
        match self.random.randrange(5):
            case 0:
                await self.store(Observe(row, [(GPU, self.random.choice([0, 1000]))]))
            case 1:
                await self.store(_node(row, self.random.choice([2000, 4000, 5000])))
            case 2:
                await self.record([], sorted(self.nominated)[:2])
            case 3:
                jid = self.random.randrange(JOBS)
                if jid in self.jobs:
                    qid, spec = self.random.choice([1, 2]), self.jobs[jid].spec + 1
                    changed = replace(self.jobs[jid], spec=spec, queue=QUEUES[qid])
                    self.jobs[jid] = changed
                    groups = list(changed.groups)
                    await self.store(PutJob(jid, qid, changed.spec, groups, encode_job(changed)))
            case _:
                jid = self.random.randrange(JOBS)
                held = {jid for jid, _, _ in self.unbound}
                if jid in self.jobs and jid not in held and len(self.jobs) > JOBS // 2:
                    del self.jobs[jid]
                    self.nominated.discard(jid)
                    await self.store(DropJob(jid))


def _class(*requests: tuple[int, int]) -> bytes:
    return encode_class(TaskClass(requests=requests))


def _node(row: int, gpus: int) -> PutNode:
    node = Node(row, f"n{row}", ((2, 10), (GPU, gpus)), spec=1)
    return PutNode(row, list(node.allocatable), 1, encode_node(node))


@pytest.mark.parametrize("seed", range(4))
async def test_random_statements(
    tmp_path: Path, embedded_server: EmbeddedServer, seed: int
) -> None:
    async with Redis.from_url(embedded_server.url) as server:
        await server.flushall()
    ledger = RedisLedger(embedded_server.url)
    history = HistoryFile(tmp_path / "h.jsonl")
    follower = LogFollower(ledger, history, unavailable=LedgerUnavailable)
    world = CheckedWorld(ledger, history, seed)
    await world.begin()
    accepted = 0
    for _ in range(ROUNDS):
        accepted += await world.commit()
        await world.bind()
        await world.step(world.random.random())
        await world.disturb()
        if world.random.random() < 0.3:  # the two sources take turns as they like
            await follower.drain()
    while world.unbound or world.cluster.next_due() is not None:
        await world.bind()
        await world.step(1.0)
    await follower.drain()
    history.close()
    await ledger.close()
    report = check(tmp_path / "h.jsonl")
    assert report.violations == ()
    summary = report.summary
    assert summary.committed == accepted
    assert summary.tasks_bound >= summary.tasks_finished > 10
    assert summary.conflicts_true > 5
    assert summary.conflicts_read > 5
    assert sum(summary.levels[2:]) > 0
