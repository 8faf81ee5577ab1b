"""Random statements, reports and changes from several writers at once: the scripts on the real
server keep the promises, and one in memory gives the same answers, log and state at every step."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import (
    DropJob,
    DropNode,
    DropQueue,
    IntakeBatch,
    IntakeOp,
    Observe,
    PurgeJob,
    PutObject,
    PutPartition,
    PutQueue,
)
from shared.ledger.entries.log import CommitEntry, EpochEntry, IntakeEntry, LogEntry, StatusEntry
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.ledger.errors import LedgerArgument
from shared.ledger.gang_minimum import stored_minimum
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.protocol import Ledger
from shared.ledger.records import unpack_node
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import (
    ALLOCATE,
    ENDED,
    GUARD_GUARANTEE,
    NOMINATE,
    CommitBatch,
    DomainOp,
    Epoch,
    Group,
    Rows,
    Run,
    Statement,
    StatusBatch,
    StatusItem,
    TaskState,
    Verdict,
)
from shared.units.things import Things
from tests.conftest import flush
from tests.examples import examples
from tests.shared.ledger.conftest import NOW
from tests.shared.ledger.promises import (
    Live,
    add_up,
    check_fit,
    check_gangs,
    check_guarantees,
    check_limits,
    check_records,
    unguarded,
)
from tests.shared.ledger.support import (
    BIG,
    CLASSES,
    COORDINATOR,
    CPU,
    DEVICE,
    HOST_PORT,
    LEAF,
    MEMORY,
    NAMED,
    NOTHING,
    OTHER,
    PODS,
    PORTED,
    ROOT,
    SHARED,
    SMALL,
    cluster,
    job,
    node,
    some_victims,
)

WRITERS = ("0", "1", "2")
JOBS, TASKS, ROWS = 5, 7, 4
REQUESTS = {c.cid: c.requests for c in CLASSES}
THINGS = {c.cid: c.things for c in CLASSES}
IMPLIED = {slot: implied for c in CLASSES for slot, _, implied in c.requests if implied}
PLACED = (SMALL, BIG, PORTED, SMALL, BIG, PORTED, NOTHING, NAMED, SHARED, SHARED)
DEVICES = ("gpu/1", "gpu/2")
ALL_DEVICES: Things = tuple((name, (1000, 3)) for name in DEVICES)
NO_DEVICES: Things = tuple((name, (0, 0)) for name in DEVICES)
Batch = CommitBatch | StatusBatch | IntakeBatch


async def send(ledger: Ledger, batch: Batch) -> Any:
    """The reply, None where the batch was rejected as malformed."""
    if isinstance(batch, CommitBatch):
        return await ledger.commit(batch)
    if isinstance(batch, StatusBatch):
        return await ledger.record(batch)
    try:
        return await ledger.store(batch)
    except LedgerArgument:
        return None


def plain_rows(rows: Rows) -> dict[object, bytes]:
    """Records by row, of things by row and name."""
    result: dict[object, bytes] = dict(zip(rows.rows, rows.records, strict=True))
    result.update(((row, name), record) for row, name, record in rows.things)
    assert len(result) == len(rows.rows) + len(rows.things), "nothing is told twice"
    return result


def plain(entry: LogEntry) -> tuple[LogEntry, dict[object, bytes]]:
    """Parts of an entry that must be equal in both logs: all but the id and the order of rows."""
    if isinstance(entry, EpochEntry):
        return replace(entry, id=""), {}
    return replace(entry, id="", fresh=Rows([], [])), plain_rows(entry.fresh)


def plain_snapshot(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, log_id="")


@dataclass
class LedgerPair:
    """The real ledger and the one in memory, asked the same things."""

    real: RedisLedger
    memory: MemoryLedger
    rng: random.Random
    live: Live = field(default_factory=Live)
    real_run: str = ""
    memory_run: str = ""
    epochs: dict[str, Epoch] = field(default_factory=dict)
    old_epochs: list[tuple[str, Epoch]] = field(default_factory=list)
    sequences: dict[str, int] = field(default_factory=dict)
    sent: list[Batch] = field(default_factory=list)
    read: tuple[str, str] = ("0", "0")
    now: Snapshot | None = None

    async def open(self) -> None:
        for writer in (COORDINATOR, *WRITERS):
            await self.claim(writer)
        leader = self.epochs[COORDINATOR]
        self.real_run = await self.real.bless(leader)
        self.memory_run = await self.memory.bless(leader)
        await self.at_once([self.intake([*cluster(ROWS, 8000, 30_000)])])
        await self.at_once([self.intake([node(row, things=ALL_DEVICES) for row in range(ROWS)])])
        await self.at_once([self.intake([self.some_job(jid) for jid in range(JOBS)])])

    async def claim(self, writer: str) -> None:
        if writer in self.epochs:
            self.old_epochs.append((writer, self.epochs[writer]))
        leader = None if writer == COORDINATOR else self.epochs[COORDINATOR]
        real = await self.real.claim(writer, leader=leader)
        memory = await self.memory.claim(writer, leader=leader)
        assert real == memory
        self.epochs[writer] = real
        self.sequences[writer] = 0
        self.sent = [batch for batch in self.sent if batch.writer != writer]

    # --- random content -----------------------------------------------------------------------

    def header(self, writer: str) -> tuple[str, Epoch, int, str]:
        self.sequences[writer] += self.rng.choice((1, 1, 1, 2, 5))
        return writer, self.epochs[writer], self.sequences[writer], self.real_run

    def intake(self, ops: list[IntakeOp]) -> IntakeBatch:
        return IntakeBatch(*self.header(COORDINATOR), ops, self.documents())

    def documents(self) -> list[tuple[str, bytes | None]]:
        r = self.rng
        names = r.sample(range(4), r.choice((0, 0, 1, 3)))
        return [(f"Pod/ns/{n}", r.choice((None, b"one", b"\xff two"))) for n in names]

    def some_job(self, jid: int) -> Any:
        """A new or changed job. Members that nobody holds may go: nothing comes below 0."""
        r = self.rng
        record = self.now.jobs.get(jid) if self.now else None
        if record is not None and not any(g.held for g in record.groups) and r.random() < 0.2:
            return job(jid, Group(-1, 1, -2), Group(0, 0, -1), qid=LEAF)
        groups = r.choice(
            (
                [Group(-1, 1)],
                [Group(-1, 3)],
                [Group(-1, 2), Group(0, 2), Group(0, 1)],
                [Group(-1, 0), Group(0, 3)],
                [Group(-1, stored_minimum(2, 1)), Group(0, 2), Group(0, 1)],
            )
        )
        return job(jid, *groups, qid=r.choice((LEAF, LEAF, OTHER, -1)), version=r.choice((1, 1, 2)))

    def run(self, groups: int) -> Run:
        r = self.rng
        assert self.now is not None
        n = r.choice((1, 1, 2, 3, 5))
        rows = [r.randrange(ROWS + (r.random() < 0.02)) for _ in range(n)]
        records = {
            row: unpack_node(record)
            for row, record in zip(self.now.nodes.rows, self.now.nodes.records, strict=True)
        }
        versions = [records[row][0] - (r.random() < 0.1) if row in records else 1 for row in rows]
        specs = [records[row][1] + (r.random() < 0.01) if row in records else 1 for row in rows]
        return Run(
            kind=r.choice((ALLOCATE, ALLOCATE, NOMINATE)),
            cid=r.choice((SMALL, SMALL, BIG, PORTED, 9) if r.random() < 0.1 else PLACED),
            group=r.randrange(groups + (r.random() < 0.02)),
            tasks=[r.randrange(TASKS) for _ in range(n)] if r.random() < 0.2 else self.fresh(n),
            rows=rows,
            versions=versions,
            specs=specs,
            levels=[r.randint(1, 4) for _ in range(n)],
            devices=self.devices() if r.random() < 0.4 else (),
        )

    def devices(self) -> Things:
        """Parts of one or two devices, now and then of one that no node has."""
        names = self.rng.sample((*DEVICES, "gpu/none"), self.rng.choice((1, 1, 2)))
        return tuple((name, (self.rng.choice((1, 200, 600)), 1)) for name in sorted(names))

    def fresh(self, n: int) -> list[int]:
        return self.rng.sample(range(TASKS), n)

    def statement(self) -> Statement:
        r = self.rng
        assert self.now is not None
        jid = r.choice(sorted(self.now.jobs) or [0])
        record = self.now.jobs.get(jid, JobRecord(1, LEAF, False, [Group(-1, 1)]))
        others = [other for other in self.now.nominations if other != jid]
        condition = r.choice(("eq0", "ge1", "le", ""))
        domain = DomainOp(f"term/{r.randrange(3)}", r.choice((1, -1)), condition, 1)
        return Statement(
            jid=jid,
            job_version=record.spec_version + (r.random() < 0.03),
            qid=record.qid,
            priority=r.randrange(-1, 3),
            core=[self.run(len(record.groups)) for _ in range(r.choice((0, 1, 1, 2)))],
            tail=[self.run(len(record.groups)) for _ in range(r.choice((0, 0, 1)))],
            displaced=r.sample(others, min(len(others), r.choice((0, 0, 1, 2)))),
            domains=[domain] if r.random() < 0.2 else [],
            expiry=r.choice((0.0, 1.5e9, 1.6e9 + 0.1)),
            evictions=some_victims(r, self.now) if r.random() < 0.3 else [],
            reason=r.choice(("", "preempt: priority")),
            in_part=r.random() < 0.15,
        )

    def commit(self, writer: str) -> CommitBatch:
        statements = [self.statement() for _ in range(self.rng.choice((1, 2, 4)))]
        return CommitBatch(*self.header(writer), statements)

    def item(self) -> StatusItem:
        r = self.rng
        assert self.now is not None
        jid = r.randrange(JOBS)
        records = self.now.tasks.get(jid, {})
        tasks = self.fresh(r.choice((1, 2, 4)))
        if r.random() < 0.15:
            return self.adoption(jid, tasks)
        rows = [records[t].row if t in records and r.random() < 0.95 else 0 for t in tasks]
        if r.random() < 0.2:
            return self.restart(jid, records)
        state = r.choice([state for state in TaskState if state is not TaskState.BINDING])
        if state is TaskState.FAILED and r.random() < 0.5:
            return StatusItem(
                state, jid, tasks, rows, r.choice((SMALL, NOTHING, 99)), r.randrange(3)
            )
        return StatusItem(state, jid, tasks, rows)

    def restart(self, jid: int, records: dict[int, TaskRecord]) -> StatusItem:
        """Mostly tasks that have ended, now and then named by another incarnation."""
        r = self.rng
        ended = [tix for tix, task in records.items() if task.state in ENDED or r.random() < 0.1]
        tasks = r.sample(ended, min(len(ended), r.choice((1, 2, 4)))) or [0]
        incarnations = [
            records[t].incarnation + (r.random() < 0.1) if t in records else 0 for t in tasks
        ]
        rows = [0] * len(tasks)
        return StatusItem(TaskState.PENDING, jid, tasks, rows, restarts=tuple(incarnations))

    def starts(self) -> list[StatusItem]:
        """Report every binding task as running, so that there are victims of several jobs."""
        assert self.now is not None
        return [
            StatusItem(TaskState.RUNNING, jid, [tix], [task.row])
            for jid, tasks in self.now.tasks.items()
            for tix, task in tasks.items()
            if task.state == TaskState.BINDING
        ]

    def adoption(self, jid: int, tasks: list[int]) -> StatusItem:
        """The cluster has them somewhere, now and then where nothing is known of."""
        r = self.rng
        states = (TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING)
        rows = [r.randrange(ROWS + (r.random() < 0.1)) for _ in tasks]
        cid, group = r.choice((SMALL, BIG, PORTED, NOTHING, NAMED, SHARED, 99)), r.randrange(3)
        devices = self.devices() if r.random() < 0.4 else ()
        return StatusItem(r.choice(states), jid, tasks, rows, cid, group, devices)

    def status(self) -> StatusBatch:
        r = self.rng
        items = (
            self.starts() if r.random() < 0.4 else [self.item() for _ in range(r.choice((1, 3)))]
        )
        expired = [r.randrange(JOBS)] if r.random() < 0.3 else []
        return StatusBatch(*self.header(COORDINATOR), items, expired)

    def change(self) -> IntakeBatch:
        r = self.rng
        row = r.randrange(ROWS)
        ops: list[IntakeOp] = [
            node(row, r.choice((0, 4000, 8000)), r.choice((1, 1, 2)), self.declared()),
            Observe(row, [(CPU, r.choice((0, 3000)))]),
            Observe(row, [], [(HOST_PORT, (r.choice((0, 1)),)), (DEVICE, (r.choice((0, 400)), 1))]),
            Observe(row, [], [(DEVICE, (0, 0))]),
            PutQueue(LEAF, r.choice((ROOT, OTHER)), r.choice((None, [(CPU, 9000)])), b"leaf"),
            PutQueue(OTHER, ROOT, None, b"other", r.choice(([], [(CPU, 2000), (PODS, 1)]))),
            PutQueue(ROOT, -1, [(CPU, r.choice((9000, 30_000))), (MEMORY, 2**40)], b"root"),
            PutQueue(LEAF, ROOT, None, b"leaf", [(MEMORY, 2**33 + 1)]),
            self.some_job(r.randrange(JOBS)),
            self.some_job(r.randrange(JOBS)),
            PutObject("class/high", r.choice((b"1", None))),
            PutPartition(r.randrange(9), {0: [0, 1], 1: []}),
        ]
        if r.random() < 0.05:
            ops += [DropNode(row, NO_DEVICES), DropJob(r.randrange(JOBS))]
        if r.random() < 0.15:
            return self.intake(self.forgetting())
        return self.intake([op for op in r.sample(ops, r.choice((1, 2))) if self.may_come(op)])

    def declared(self) -> Things:
        return self.rng.choice(((), NO_DEVICES, ALL_DEVICES, ALL_DEVICES[1:]))

    def may_come(self, op: IntakeOp) -> bool:
        """The number of a queue is given once. Where one comes back all the same, nobody may hold
        anything in it: what its jobs were found to have meanwhile was charged to no queue."""
        assert self.now is not None
        if not isinstance(op, PutQueue) or op.qid in self.now.queues:
            return True
        inside = [jid for jid, job in self.now.jobs.items() if job.qid == op.qid]
        return not any(self.now.tasks.get(jid) for jid in inside)

    def forgetting(self) -> list[IntakeOp]:
        """Jobs and queues that may still be needed, or be there again in the same batch."""
        r = self.rng
        jid = r.randrange(JOBS)
        tries: list[list[IntakeOp]] = [
            [PurgeJob(jid)],
            [DropJob(jid), PurgeJob(jid)],
            [DropJob(jid), PurgeJob(jid), self.some_job(jid)],
            [self.some_job(jid), DropJob(jid), PurgeJob(jid), PurgeJob(jid)],
            [DropQueue(r.choice((LEAF, OTHER, ROOT)))],
            [DropQueue(OTHER), PutQueue(OTHER, ROOT, None, b"other")],
            [PutQueue(9, OTHER, None, b"new"), DropQueue(9), DropQueue(OTHER)],
        ]
        return r.choice(tries)

    # --- steps --------------------------------------------------------------------------------

    async def step(self) -> None:
        self.now = await self.real.snapshot()
        kind = self.rng.random()
        if kind < 0.55:
            batches: list[Batch] = [self.commit(w) for w in WRITERS[: self.rng.randint(1, 3)]]
            await self.at_once(batches)
            after = await self.real.snapshot()
            check_fit(self.now, after, IMPLIED, THINGS)
            check_limits(self.now, after)
            check_gangs(self.now, after, batches)
            check_guarantees(self.now, after, unguarded(batches, GUARD_GUARANTEE))
        elif kind < 0.75:
            await self.at_once([self.status()])
        elif kind < 0.88:
            await self.at_once([self.change()])
        elif kind < 0.91:
            await self.claim(self.rng.choice(WRITERS))
        else:
            await self.disturb()
        await self.check()

    async def disturb(self) -> None:
        """Batches that must change nothing: sent before, or by a writer that lost its epoch."""
        before = plain_snapshot(await self.real.snapshot())
        if self.sent and self.rng.random() < 0.7:
            batch = self.rng.choice(self.sent[-5:])
            reply = await self.both(batch)
            assert reply.replayed or reply.verdict is Verdict.OLD
        elif self.old_epochs:
            writer, epoch = self.rng.choice(self.old_epochs)
            batch = replace(self.commit(writer), epoch=epoch)
            assert (await self.both(batch)).verdict is Verdict.EPOCH
        assert plain_snapshot(await self.real.snapshot()) == before

    async def at_once(self, batches: list[Batch]) -> None:
        """All at the same time on the server; then in memory, in the order the log tells."""
        replies = await asyncio.gather(*(send(self.real, batch) for batch in batches))
        entries = await self.real.read_log(self.read[0])
        order = {e.writer: i for i, e in enumerate(entries)}
        ranked = sorted(
            zip(batches, replies, strict=True), key=lambda pair: order.get(pair[0].writer, 99)
        )
        for batch, reply in ranked:
            memory = await send(self.memory, replace(batch, run_id=self.memory_run))
            self.compare(reply, memory)
            if reply is not None:
                self.sent.append(batch)

    async def both(self, batch: Batch) -> Any:
        real = await send(self.real, batch)
        self.compare(real, await send(self.memory, replace(batch, run_id=self.memory_run)))
        return real

    @staticmethod
    def compare(real: Any, memory: Any) -> None:
        assert (real is None) == (memory is None), "rejected by one of them alone"
        if real is None:
            return
        assert plain_rows(real.fresh) == plain_rows(memory.fresh)
        empty = Rows([], [])
        assert replace(real, fresh=empty) == replace(memory, fresh=empty)

    async def check(self) -> None:
        real, memory = (
            await self.real.read_log(self.read[0]),
            await self.memory.read_log(self.read[1]),
        )
        assert [plain(entry) for entry in real] == [plain(entry) for entry in memory]
        if real:
            self.read = (real[-1].id, memory[-1].id)
        self.follow(real)
        binds = await self.real.read_binds("b"), await self.memory.read_binds("b")
        assert [replace(e, id="") for e in binds[0]] == [replace(e, id="") for e in binds[1]]
        snapshot = await self.real.snapshot()
        assert plain_snapshot(snapshot) == plain_snapshot(await self.memory.snapshot())
        check_records(snapshot, add_up(snapshot, REQUESTS, THINGS))
        expected = list(range(JOBS))
        assert await self.real.read_tasks(expected) == await self.memory.read_tasks(expected)

    def follow(self, entries: list[LogEntry]) -> None:
        gone = (TaskState.PENDING,)
        for entry in entries:
            if isinstance(entry, CommitEntry):
                for accepted in entry.accepted:
                    for run in (*accepted.core, *accepted.tail):
                        if run.kind == ALLOCATE:
                            self.live.bind(accepted.jid, run.tasks)
            elif isinstance(entry, StatusEntry):
                for item in entry.items:
                    if item.adopted:
                        self.live.bound[item.jid].update(item.tasks)
                    elif item.state in gone:
                        self.live.unbind(item.jid, item.tasks)
            elif isinstance(entry, IntakeEntry):
                for op in entry.ops:
                    if isinstance(op, PurgeJob):
                        self.live.bound.pop(op.jid, None)


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 25))
def test_promises_hold_and_a_server_in_memory_agrees(
    embedded_server: EmbeddedServer, seed: int, steps: int
) -> None:
    async def example() -> None:
        flush(embedded_server)
        nonces = random.Random(seed)
        others = random.Random(seed)
        memory = MemoryLedger(others, clock=lambda: NOW)
        real = RedisLedger(
            embedded_server.url,
            clock=lambda: NOW,
            cluster="",
            nonce=lambda: f"{nonces.getrandbits(64):016x}",
        )
        try:
            pair = LedgerPair(real, memory, random.Random(seed))
            await real.open()  # draws an id for the cluster
            nonces.setstate(others.getstate())
            await pair.open()
            for _ in range(steps):
                await pair.step()
        finally:
            await real.close()

    asyncio.run(example())
