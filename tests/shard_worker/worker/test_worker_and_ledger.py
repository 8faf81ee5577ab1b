"""Two workers, one ledger, everything in random order: no promise breaks and every job is placed.

Log entries arrive late, batches and replies travel while other things happen, replies get lost,
tasks finish, a worker is replaced. The ledger's scripts run on a server in memory.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shard_worker.dialects.open_session import open_session
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shard_worker.worker.instructions import CommitBatchRequest, Instruction, Outcomes
from shard_worker.worker.limits import WorkerLimits
from shard_worker.worker.worker import Worker
from shared.ledger.class_op import put_class
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeOp, PutJob, PutPartition, PutQueue
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.ledger.protocol import COORDINATOR
from shared.ledger.records import unpack_node, unpack_thing
from shared.messages.messages import (
    ALLOCATE,
    HOLDING,
    NOMINATE,
    CommitReply,
    Epoch,
    Group,
    Outcome,
    OutcomeCode,
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
from shared.units.slots import CPU, PODS
from shared.units.things import port_name
from tests.examples import examples, first_of
from tests.shard_worker.placement.support import cls, node, put_node

PORT = port_name("TCP", 80)
CLASSES = {
    0: cls(1),
    1: cls(2),
    2: TaskClass(requests=((CPU, 500), (PODS, 1)), things=((PORT, (1,)),)),
}
ROWS = 10


@dataclass
class Job:
    """Job of the test's stand-in for Order."""

    jid: int
    cid: int
    size: int
    minimum: int
    priority: int
    placed: dict[int, int] = field(default_factory=dict)
    done: int = 0
    nominated: dict[int, int] = field(default_factory=dict)
    open: bool = False

    def turn(self, tail: int) -> Turn:
        pending = [tix for tix in range(self.size) if tix not in self.placed]
        return Turn(
            jid=self.jid,
            job_version=1,
            qid=0,
            priority=self.priority,
            groups=[Group(-1, self.minimum, len(self.placed))],
            runs=[TaskRun(self.cid, 0, "worker", pending)],
            total=self.size,
            tail=tail,
            nominated=dict(self.nominated),
        )


@dataclass
class WorkerShard:
    worker: Worker
    view: View
    log_id: str
    reply: CommitReply | None = None


class WorkersWorld:
    """Everything around the workers, driven by one source of randomness."""

    def __init__(
        self, seed: int, mode: Mode, *, shards: int = 2, classes: Mapping[int, TaskClass] = CLASSES
    ) -> None:
        self.classes = classes
        self.numbers = range(shards)
        self.draw = random.Random(seed)
        self.mode = mode
        self.ledger = MemoryLedger(random.Random(seed))
        self.epoch = at_once(self.ledger.claim(COORDINATOR))
        self.run_id = at_once(self.ledger.bless(self.epoch))
        self.sequence = 0
        self.counts: Counter[str] = Counter()
        self.levels: Counter[int] = Counter()
        self.jobs = {jid: self._job(jid) for jid in range(25)}
        self._store_all()
        self.shards = {shard: self._start(shard) for shard in self.numbers}
        self.running: list[tuple[int, int, int]] = []
        self.leaving: list[tuple[int, int, int]] = []

    def _job(self, jid: int) -> Job:
        size = self.draw.choice([1, 1, 2, 3, 5, 8])
        minimum = self.draw.choice([size, size, max(1, size // 2)])
        return Job(jid, self.draw.choice([0, 0, 1, 2]), size, minimum, self.draw.choice([0, 0, 5]))

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    def _store_all(self) -> None:
        parts = {n: list(range(n, ROWS, len(self.numbers))) for n in self.numbers}
        ops: list[IntakeOp] = [put_class(cid, c) for cid, c in self.classes.items()]
        ops += [put_node(node(row, cores=4)) for row in range(ROWS)]
        ops.append(PutQueue(0, -1, None, encode_queue(Queue(qid=0, name="default"))))
        ops.append(PutPartition(1, parts))
        ops += [PutJob(job.jid, 0, 1, [Group(-1, job.minimum)], b"") for job in self.jobs.values()]
        batch = IntakeBatch(COORDINATOR, self.epoch, self._next(), self.run_id, ops)
        assert at_once(self.ledger.store(batch)).verdict is Verdict.COMMITTED

    def _start(self, shard: int) -> WorkerShard:
        """A worker of this shard, and a new epoch for it."""
        epoch: Epoch = at_once(self.ledger.claim(str(shard), leader=self.epoch))
        view = View(shard=shard)
        snapshot = at_once(self.ledger.snapshot(workload=False))
        view.load(snapshot)
        worker = Worker(
            session=open_session(DEFAULT_POLICY),
            view=view,
            mode=self.mode,
            shard=shard,
            seed=shard,
            limits=WorkerLimits(batch_operations=12),
        )
        assert worker.begin(epoch, self.run_id) == []
        return WorkerShard(worker, view, snapshot.log_id)

    # --- steps --------------------------------------------------------------------------------

    def give_turns(self, shard: WorkerShard) -> None:
        waiting = [j for j in self.jobs.values() if not j.open and len(j.placed) < j.size]
        self.draw.shuffle(waiting)
        turns = []
        for job in waiting[: self.draw.randint(1, 4)]:
            job.open = True
            turns.append(job.turn(self.draw.choice([0, 1, 6])))
        self.take(shard, shard.worker.on_turns(turns, now=1.0))

    def commit(self, shard: WorkerShard) -> None:
        """The batch reaches the ledger; now and then twice (its reply was lost)."""
        batch = shard.worker.pending_batch()
        if batch is not None and (shard.reply is None or self.draw.random() < 0.2):
            again = shard.reply is not None
            shard.reply = at_once(self.ledger.commit(batch))
            assert shard.reply.replayed is again
            self.check()

    def answer(self, shard: WorkerShard) -> None:
        if shard.reply is not None:
            reply, shard.reply = shard.reply, None
            self.take(shard, shard.worker.on_reply(reply))

    def follow(self, shard: WorkerShard) -> None:
        entries = at_once(self.ledger.read_log(shard.log_id, count=self.draw.randint(1, 9)))
        if entries:
            shard.worker.on_log(entries)
            shard.log_id = entries[-1].id

    def cluster(self) -> None:
        """Some running tasks begin to leave, some that left are gone."""
        gone, self.leaving = self.leaving, []
        self._record(TaskState.SUCCEEDED, gone)
        for jid, _, _ in gone:
            self.jobs[jid].done += 1
        self.draw.shuffle(self.running)
        count = self.draw.randint(0, 4)
        self.leaving, self.running = self.running[:count], self.running[count:]
        self._record(TaskState.RELEASING, self.leaving)

    def _record(self, state: TaskState, tasks: list[tuple[int, int, int]]) -> None:
        items = [StatusItem(state, jid, [tix], [row]) for jid, tix, row in tasks]
        batch = StatusBatch(COORDINATOR, self.epoch, self._next(), self.run_id, items)
        reply = at_once(self.ledger.record(batch))
        assert all(reply.applied)

    def replace_worker(self, number: int) -> None:
        """The worker dies with its turns; what it committed unheard is read from the ledger."""
        old = self.shards[number]
        batch = old.worker.pending_batch()
        self.shards[number] = self._start(number)
        if batch is not None:
            late = at_once(self.ledger.commit(batch))
            assert late.verdict is Verdict.EPOCH
        truth = at_once(self.ledger.read_tasks(list(self.jobs)))
        waits = at_once(self.ledger.snapshot()).nominations
        elsewhere = {t.jid for s in self.shards.values() for a in s.worker._flying for t in a.turns}
        elsewhere |= {
            t.jid for s in self.shards.values() for a in s.worker._waiting for t in a.turns
        }
        for job in self.jobs.values():
            if job.jid in elsewhere:
                continue
            job.open = False
            held = waits.get(job.jid)
            job.nominated = {}
            for run in held.runs if held else []:
                job.nominated.update(zip(run.tasks, run.rows, strict=True))
            for tix, task in truth[job.jid][1].items():
                if tix not in job.placed:
                    job.placed[tix] = task.row
                    self.running.append((job.jid, tix, task.row))

    def take(self, shard: WorkerShard, instructions: list[Instruction]) -> None:
        shard.worker.validate()
        for instruction in instructions:
            match instruction:
                case Outcomes(outcomes=outcomes):
                    for outcome in outcomes:
                        self._outcome(outcome)
                case CommitBatchRequest(batch=batch):
                    assert shard.worker.pending_batch() is batch

    def _outcome(self, outcome: Outcome) -> None:
        job = self.jobs[outcome.jid]
        job.open = False
        self.counts[outcome.code.name] += 1
        self.counts["true"] += outcome.conflicts_true
        self.counts["read"] += outcome.conflicts_read
        self.counts["committed"] += outcome.committed
        self.counts["rechecked"] += outcome.rechecked
        self.counts["displaced"] += len(outcome.displaced)
        for jid in outcome.displaced:
            self.jobs[jid].nominated = {}
        if outcome.code in (OutcomeCode.PLACED, OutcomeCode.NOMINATED):
            job.nominated = {}
        for placement in outcome.placements:
            for tix, row, level in zip(
                placement.tasks, placement.rows, placement.levels, strict=True
            ):
                self.levels[level] += 1
                if placement.kind == NOMINATE:
                    job.nominated[tix] = row
                    continue
                assert placement.kind == ALLOCATE
                assert level <= 2
                assert tix not in job.placed, "placed twice"
                job.placed[tix] = row
                self.running.append((job.jid, tix, row))

    # --- promises -----------------------------------------------------------------------------

    def check(self) -> None:
        """Promises 2 and 3 on the ledger as it stands."""
        snapshot = at_once(self.ledger.snapshot())
        for record in snapshot.nodes.records:
            _, _, slots = unpack_node(record)
            for at in range(0, len(slots), 5):
                allocatable, used, observed, releasing, nominated = slots[at : at + 5]
                assert used + observed <= allocatable
                assert used + observed - releasing + nominated <= allocatable
        self._check_ports(snapshot)
        for job in snapshot.jobs.values():
            assert all(g.held == 0 or g.held >= g.minimum for g in job.groups)

    def _check_ports(self, snapshot: Snapshot) -> None:
        """The naive model: a port of a node is had by one task, and that is what its record says;
        what is promised of it is promised to one."""
        had = Counter(
            (task.row, name)
            for tasks in snapshot.tasks.values()
            for task in tasks.values()
            if task.state in HOLDING
            for name, _ in self.classes[task.cid].things
        )
        promised = Counter(
            (row, name)
            for held in snapshot.nominations.values()
            for run in held.runs
            for row in run.rows
            for name, _ in self.classes[run.cid].things
        )
        assert max([0, *had.values(), *promised.values()]) <= 1
        for row, name, record in snapshot.nodes.things:
            _, (_, used, _, _, nominated) = unpack_thing(record)
            assert (used, nominated) == (had.pop((row, name), 0), promised.pop((row, name), 0))
        assert not had
        assert not promised

    def finished(self) -> bool:
        return all(len(job.placed) == job.size and not job.open for job in self.jobs.values())

    def agree(self) -> None:
        """With nothing open and the log read, every view equals the ledger's own records."""
        fresh = View(shard=0)
        fresh.load(at_once(self.ledger.snapshot()))
        for shard in self.shards.values():
            shard.worker.on_log(at_once(self.ledger.read_log(shard.log_id, count=10**6)))
            assert shard.worker.open_turns == 0
            slots = max(shard.view.columns.slots, fresh.columns.slots)
            shard.view.columns.grow(slots=slots)
            fresh.columns.grow(slots=slots)
            assert shard.view.columns.image() == fresh.columns.image()
            assert shard.view.things.image() == fresh.things.image()
            assert shard.view.nominations.keys() == fresh.nominations.keys()


def run(seed: int, mode: Mode, **more: Any) -> WorkersWorld:
    world = WorkersWorld(seed, mode, **more)
    draw = world.draw
    for step in range(6000):
        shard = world.shards[draw.choice(world.numbers)]
        steps: list[tuple[float, Any]] = [
            (0.3, world.give_turns),
            (0.3, world.commit),
            (0.25, world.answer),
            (0.1, world.follow),
        ]
        (chosen,) = draw.choices([s for _, s in steps], [w for w, _ in steps])
        chosen(shard)
        if draw.random() < 0.05:
            world.cluster()
        if draw.random() < 0.004:
            world.replace_worker(draw.choice(world.numbers))
        if step % 50 == 0 and world.finished():
            return world
    raise AssertionError(
        f"not placed: {[j for j in world.jobs.values() if len(j.placed) < j.size]}"
    )


@pytest.mark.parametrize("seed", first_of(range(8), 2))
@pytest.mark.parametrize("mode", [Mode.SOFT, Mode.NONE])
def test_every_job_is_placed_once_and_no_promise_breaks(seed: int, mode: Mode) -> None:
    world = run(seed, mode)
    world.agree()
    assert world.counts["committed"] > 0


PORTED = {
    0: cls(0.5, things=((PORT, (1,)),)),
    1: cls(1, things=((port_name("TCP", 81), (1,)), (port_name("UDP", 80), (1,)))),
    2: cls(0.5, things=((PORT, (1,)), (port_name("TCP", 81), (1,)))),
}
"""Few names, so that nearly every operation is about a port that somebody else wants."""


@settings(max_examples=examples(12), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shards=st.integers(1, 4),
    mode=st.sampled_from([Mode.SOFT, Mode.NONE]),
)
@example(seed=23, shards=4, mode=Mode.NONE)  # a reply came after the log had freed its ports
def test_a_port_is_taken_once_on_a_node_with_any_number_of_shards(
    seed: int, shards: int, mode: Mode
) -> None:
    world = run(seed, mode, shards=shards, classes=PORTED)
    world.agree()
    assert not at_once(world.ledger.snapshot()).nominations


@pytest.mark.all
def test_the_interesting_things_do_happen() -> None:
    """Else the runs above would prove little."""
    counts: Counter[str] = Counter()
    levels: Counter[int] = Counter()
    for seed in range(8):
        world = run(seed, Mode.SOFT)
        counts += world.counts
        levels += world.levels
    for name in ("true", "rechecked", "NOMINATED", "PLACED", "INFEASIBLE", "displaced"):
        assert counts[name] > 0, name
    assert all(levels[level] > 0 for level in (1, 2, 3, 4))
