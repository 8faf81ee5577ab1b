"""Real workers, a real ledger and everyone who may write to it, one step at a time.

Each step says what it does and holds it against what the ledger tells before and after: the model
knows who owns what and whether the server's run is blessed, and nothing else.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import redis

from shard_worker.dialects.open_session import open_session
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shard_worker.worker.instructions import CommitBatchRequest, Instruction
from shard_worker.worker.limits import WorkerLimits
from shard_worker.worker.worker import Worker
from shared.codec.packed import replace
from shared.ledger.class_op import put_class
from shared.ledger.entries.intake_batch import (
    DropJob,
    IntakeBatch,
    IntakeOp,
    PutJob,
    PutPartition,
    PutQueue,
)
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.entries.stored import TaskRecord
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.keys import key
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import (
    ACCEPTED,
    GUARD_GUARANTEE,
    NOMINATE,
    CommitBatch,
    CommitReply,
    Epoch,
    Group,
    Run,
    StatusBatch,
    StatusItem,
    TaskRun,
    TaskState,
    Turn,
    Verdict,
)
from shared.model.model import Queue, TaskClass
from shared.policy.volcano import DEFAULT_POLICY
from shared.records.specs import encode_queue
from shared.units.slots import CPU, MEMORY, PODS
from shared.units.things import port_name
from tests.conftest import flush
from tests.shard_worker.placement.support import cls, node, put_node
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
from tests.shared.ledger.support import LEAF, ROOT, some_victims
from tests.shared.ledger.test_property import JOBS, TASKS, Batch, LedgerPair, plain_snapshot, send

SHARDS = ("0", "1")
STRANGER = "2"
"""A writer whose statements are drawn, not planned."""
WRITERS = (*SHARDS, STRANGER)
ROWS = 4
LEASE = 1000.0
PORT = port_name("TCP", 80)
CLASSES = {
    1: cls(1),
    2: TaskClass(requests=((CPU, 4000), (MEMORY, 2**32), (PODS, 1))),
    3: TaskClass(requests=((CPU, 1000), (PODS, 1)), things=((PORT, (1,)),)),
}
PUT_CLASSES = [put_class(cid, c) for cid, c in CLASSES.items()]
REQUESTS = {put.cid: put.requests for put in PUT_CLASSES}
THINGS = {put.cid: put.things for put in PUT_CLASSES}


@dataclass
class Shard:
    """A worker in its process. One that was deposed may still have something to send."""

    writer: str
    worker: Worker
    view: View
    log_id: str
    reply: CommitReply | None = None


@dataclass
class Ownership:
    """Model of write permission."""

    epochs: dict[str, Epoch] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)
    blessed: str = ""
    run: str = "?"
    """The run of the server; "?" where it was restarted and nobody asked."""

    def verdict(self, batch: Batch) -> Verdict:
        """On a batch that was never sent before."""
        if self.run != self.blessed or batch.run_id != self.run:
            return Verdict.RUN
        if self.epochs.get(batch.writer) != batch.epoch or batch.writer in self.expired:
            return Verdict.EPOCH
        return Verdict.COMMITTED


class LedgerWorld:
    """``drawn`` makes statements, reports and changes at random, out of what the ledger holds."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self.ledger = RedisLedger(server.url, clock=lambda: NOW)
        self.own = Ownership()
        self.shards: dict[str, Shard] = {}
        self.zombies: list[Shard] = []
        self.answers: list[tuple[Batch, Any]] = []
        """Batches that were judged, with their first answer, of epochs that still count."""
        self.live = Live()
        self.drawn = LedgerPair(self.ledger, MemoryLedger(), random.Random(0), live=self.live)
        self.read = "0"
        self.evicted = self.reborn = 0

    # --- ownership ----------------------------------------------------------------------------

    async def begin(self) -> None:
        flush(self.server)
        await self.ledger.open()
        await self.lead()
        nodes = [put_node(node(row)) for row in range(ROWS)]
        ops: list[IntakeOp] = [
            *PUT_CLASSES,
            PutQueue(ROOT, -1, [(CPU, 28_000)], encode_queue(Queue(qid=ROOT, name="root"))),
            PutQueue(LEAF, ROOT, None, encode_queue(Queue(qid=LEAF, name="leaf", parent=ROOT))),
            *nodes,
            PutPartition(1, {0: [0, 1], 1: [2, 3]}),
            *(self.job(jid, 1 + jid % 3) for jid in range(JOBS)),
        ]
        assert await self.step(self.intake(ops)) is not None
        await self.start_workers()

    def job(self, jid: int, minimum: int, *, version: int = 1) -> PutJob:
        return PutJob(jid, LEAF, version, [Group(-1, minimum)], b"")

    async def lead(self) -> None:
        """Another coordinator takes the leadership, and every writer."""
        if COORDINATOR in self.own.epochs:
            await self.ledger.release(COORDINATOR, self.own.epochs[COORDINATOR])
        await self.claim(COORDINATOR)
        for writer in WRITERS:
            await self.claim(writer)
        await self.bless()

    async def claim(self, writer: str) -> None:
        leader = None if writer == COORDINATOR else self.own.epochs[COORDINATOR]
        epoch = await self.ledger.claim(writer, leader=leader, lease=LEASE)
        self.own.epochs[writer] = self.drawn.epochs[writer] = epoch
        self.own.expired.discard(writer)
        self.drawn.sequences[writer] = 0
        self.answers = [report for report in self.answers if report[0].writer != writer]
        if (old := self.shards.pop(writer, None)) is not None:
            self.zombies = [*self.zombies[-3:], old]

    async def bless(self) -> None:
        self.own.blessed = self.own.run = await self.ledger.bless(self.own.epochs[COORDINATOR])
        self.drawn.real_run = self.own.run

    async def start_workers(self) -> None:
        """For shards without one; each goes by the run that counts now."""
        for number, writer in enumerate(SHARDS):
            if writer in self.shards:
                continue
            snapshot = await self.ledger.snapshot(workload=False)
            view = View(shard=number)
            view.load(snapshot)
            worker = Worker(
                session=open_session(DEFAULT_POLICY),
                view=view,
                mode=Mode.SOFT,
                shard=number,
                seed=number,
                limits=WorkerLimits(batch_operations=6),
            )
            assert worker.begin(self.own.epochs[writer], self.own.run) == []
            self.shards[writer] = Shard(writer, worker, view, snapshot.log_id)

    def lapse(self, writer: str) -> None:
        """Its lease has its end in the past, as if the clock had gone on."""
        with redis.Redis.from_url(self.server.url, protocol=2) as client:
            name = f"{writer}/lease"
            end, length = map(int, client.hget(key("epoch"), name).split())
            client.hset(key("epoch"), name, b"%d %d" % (end - 2 * length, length))
        self.own.expired.add(writer)

    async def restart(self) -> None:
        """The server is killed; nothing that it acknowledged is missing (promise 6)."""
        before = await self.ledger.snapshot()
        self.server.kill()
        self.server.start()
        self.own.run = "?"
        await self.reconnect()
        assert await self.ledger.snapshot() == before

    async def reconnect(self) -> None:
        """Every connection that was open fails once."""
        for _ in range(20):
            try:
                await self.ledger.read_log("0", count=1)
                await self.ledger.snapshot()
                return
            except LedgerUnavailable:
                await asyncio.sleep(0)
        raise AssertionError("the server does not answer")

    # --- batches ------------------------------------------------------------------------------

    def intake(self, ops: list[IntakeOp]) -> IntakeBatch:
        return self.drawn.intake(ops)

    async def step(self, batch: Batch) -> Any:
        """Send a batch and check everything that any answer promises. None: it was malformed."""
        before = self.drawn.now = await self.ledger.snapshot()
        expected = self.own.verdict(batch)
        reply = await send(self.ledger, batch)
        after = await self.ledger.snapshot()
        if reply is None or expected is not Verdict.COMMITTED:
            assert reply is None or reply.verdict is expected, (batch, reply)
            assert reply is not None or expected is Verdict.COMMITTED, "judged without a right to"
            assert after == before
            return reply
        if not reply.replayed:
            assert reply.verdict is Verdict.COMMITTED
            self.answers.append((batch, reply))
        self.check(batch, before, after)
        self.follow_log(await self.ledger.read_log(self.read, count=10_000))
        return reply

    def check(self, batch: Batch, before: Snapshot, after: Snapshot) -> None:
        check_records(after, add_up(after, REQUESTS, THINGS))
        if isinstance(batch, CommitBatch):
            check_fit(before, after, {}, THINGS)
            check_limits(before, after)
            # A policy without gang may leave a job in part, and its statements say so.
            check_gangs(before, after, [batch])
            check_guarantees(before, after, unguarded([batch], GUARD_GUARANTEE))

    def follow_log(self, entries: list[Any]) -> None:
        if entries:
            self.drawn.follow(entries)
            self.read = entries[-1].id

    async def again(self, number: int) -> None:
        """A batch that was judged comes once more: the same answer, and nothing changes."""
        if not self.answers:
            return
        batch, first = self.answers[number % len(self.answers)]
        before = plain_snapshot(await self.ledger.snapshot())
        reply = await send(self.ledger, batch)
        expected = self.own.verdict(batch)
        if expected is not Verdict.COMMITTED:
            assert reply.verdict is expected
        elif reply.verdict is not Verdict.OLD:
            assert reply.replayed
            # Rows as they stand now; what became of named things is told by the log alone.
            assert set(reply.fresh.rows) == set(first.fresh.rows)
            assert replace(reply, replayed=False, fresh=first.fresh) == first
        assert plain_snapshot(await self.ledger.snapshot()) == before

    async def change(self, rng: random.Random) -> None:
        """Something about nodes, jobs or the quota changes, whatever is under way."""
        row, jid = rng.randrange(ROWS), rng.randrange(JOBS)
        put = put_node(node(row, cores=rng.choice((0, 4, 8)), spec=rng.choice((1, 1, 2))))
        limit = [(CPU, rng.choice((5_000, 28_000)))]
        version = rng.choice((1, 2))
        ops: list[IntakeOp] = [
            put,
            self.job(jid, rng.choice((1, 2, 3)), version=version),
            DropJob(jid),
            PutQueue(ROOT, -1, limit, encode_queue(Queue(qid=ROOT, name="root"))),
        ]
        await self.step(self.intake([rng.choices(ops, (4, 3, 1, 2))[0]]))

    async def report(self, rng: random.Random) -> None:
        self.drawn.rng, self.drawn.now = rng, await self.ledger.snapshot()
        await self.step(self.drawn.status())

    async def strange(self, rng: random.Random) -> None:
        """Statements that no worker would plan."""
        self.drawn.rng, self.drawn.now = rng, await self.ledger.snapshot()
        await self.step(self.drawn.commit(STRANGER))

    async def evict(self, rng: random.Random) -> None:
        """Start the binding tasks, then evict some for a job, as preemption does."""
        await self._tell(lambda task: task.state == TaskState.BINDING, TaskState.RUNNING)
        self.drawn.rng, now = rng, await self.ledger.snapshot()
        self.drawn.now = now
        if not (runs := some_victims(rng, now)):
            return
        rows = [row for run in runs for row in run.rows]
        mine = replace(
            self.drawn.statement(),
            core=[Run(NOMINATE, runs[0].cid, 0, [0], rows[:1], [0], [1], [3])],
            tail=[],
            evictions=runs,
        )
        batch = self.drawn.commit(STRANGER)
        reply = await self.step(replace(batch, statements=[mine]))
        self.evicted += any(answer.verdict in ACCEPTED for answer in reply.answers)

    async def evicted_end(self) -> None:
        """Report the end of every evicted task, which is then pending again."""
        self.reborn += await self._tell(lambda task: task.by >= 0, TaskState.PENDING)

    async def _tell(self, those: Callable[[TaskRecord], bool], state: TaskState) -> int:
        """Report the same of all tasks of a kind; of how many that was taken."""
        results = [
            StatusItem(state, jid, [tix], [task.row])
            for jid, tasks in (await self.ledger.snapshot()).tasks.items()
            for tix, task in tasks.items()
            if those(task)
        ]
        reply = await self.step(StatusBatch(*self.drawn.header(COORDINATOR), results))
        if reply.verdict is not Verdict.COMMITTED:
            return 0
        assert reply.applied == [item.tasks for item in results]
        return len(results)

    # --- workers ------------------------------------------------------------------------------

    async def plan(self, shard: Shard, rng: random.Random) -> None:
        """Turns for some jobs, on the view as it is: it may be old."""
        if shard.worker.open_turns:
            return
        snapshot = await self.ledger.snapshot()
        jids = rng.sample(sorted(snapshot.jobs), min(3, len(snapshot.jobs)))
        turns = [turn for jid in jids if (turn := self._turn(snapshot, jid, rng)) is not None]
        shard.worker.on_turns(turns, now=NOW)

    def _turn(self, snapshot: Snapshot, jid: int, rng: random.Random) -> Turn | None:
        job = snapshot.jobs[jid]
        there = snapshot.tasks.get(jid, {})
        pending = [tix for tix in range(TASKS) if tix not in there or not there[tix].state]
        if job.gone or not pending or job.qid != LEAF or len(job.groups) > 1:
            return None
        return Turn(
            jid=jid,
            job_version=job.spec_version,
            qid=job.qid,
            priority=rng.choice((0, 1)),
            groups=job.groups,
            runs=[TaskRun(rng.choice((1, 2, 3)), 0, "worker", pending)],
            total=TASKS,
            tail=rng.choice((0, 1, 3)),
        )

    async def send(self, shard: Shard) -> None:
        """The batch that it waits for an answer to reaches the ledger, maybe once more."""
        batch = shard.worker.pending_batch()
        if batch is None:
            return
        reply: CommitReply = await self.step(batch)
        if shard.reply is None:
            shard.reply = reply

    def hear(self, shard: Shard) -> None:
        """Apply the reply: refused or rolled back statements are gone from the view (promise 7)."""
        if shard.reply is None:
            return
        instructions: list[Instruction] = shard.worker.on_reply(shard.reply)
        shard.reply = None
        shard.worker.validate()
        fenced = not any(isinstance(i, CommitBatchRequest) for i in instructions)
        assert fenced or shard.worker.pending_batch() is not None

    async def catch_up(self, shard: Shard) -> None:
        entries = await self.ledger.read_log(shard.log_id, count=10_000)
        if entries:
            shard.worker.on_log(entries)
            shard.log_id = entries[-1].id
        if not shard.worker.open_turns:
            await self._equal_to_a_new_one(shard)

    async def _equal_to_a_new_one(self, shard: Shard) -> None:
        fresh = View(shard=shard.view.shard)
        fresh.load(await self.ledger.snapshot(workload=False))
        slots = max(shard.view.columns.slots, fresh.columns.slots)
        for view in (shard.view, fresh):
            view.columns.grow(slots=slots)
        assert shard.view.columns.image() == fresh.columns.image()
        assert shard.view.nodes == fresh.nodes
        assert _held(shard.view) == _held(fresh)

    async def end(self) -> None:
        """End any history with a leader and a blessed run, under which everybody goes on."""
        await self.lead()
        for zombie in self.zombies:
            await self.send(zombie)
        await self.start_workers()
        for shard in self.shards.values():
            await self.plan(shard, random.Random(1))
            await self.send(shard)
            self.hear(shard)
            await self.catch_up(shard)

    async def close(self) -> None:
        await self.ledger.close()


def _held(view: View) -> dict[int, Any]:
    """Nominations as far as a worker goes by them: it does not know since when they are."""
    return {
        jid: (held.priority, [(run.cid, run.group, run.tasks, run.rows) for run in held.runs])
        for jid, held in view.nominations.items()
    }
