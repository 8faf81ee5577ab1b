"""Workers of two shards decide at once, each by what it was told: the ledger sorts them out.

On a server in memory and on a real one.
"""

from __future__ import annotations

import pytest

from shard_worker.dialects.open_session import open_session
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shard_worker.worker.instructions import CommitBatchRequest, Outcomes
from shard_worker.worker.worker import Worker
from shared.codec.packed import replace
from shared.ledger.class_op import put_class
from shared.ledger.entries.intake_batch import PutJob, PutPartition, PutQueue
from shared.ledger.protocol import Ledger
from shared.messages.messages import (
    Epoch,
    Group,
    Outcome,
    OutcomeCode,
    StatusItem,
    TaskRun,
    TaskState,
    Turn,
)
from shared.model.model import Job
from tests.shard_worker.placement.support import cls, node, put_node
from tests.shard_worker.turns.sessions import EVERYTHING, Books
from tests.shared.ledger.support import Desk

CLASSES = {0: cls(1)}
NODES = 2
S = TaskState


class ContendingStage:
    """A job that fills two nodes of 4 cores, two jobs of higher priority, a worker per shard."""

    def __init__(self, ledger: Ledger, mode: Mode) -> None:
        self.ledger = ledger
        self.mode = mode
        self.desk = Desk(ledger)
        self.books = books = Books(CLASSES)
        self.low = books.job(0, [0, 0, 0, 0, 1, 1, 1, 1], minimum=3)
        self.high = [books.job(0, [-1] * 3, priority=10), books.job(0, [-1] * 3, priority=10)]
        books.total = {0: 4000 * NODES}

    async def open(self) -> None:
        desk = await self.desk.open("0", "1")
        jobs = self.books.jobs.values()
        await desk.store(
            *[put_class(cid, c) for cid, c in CLASSES.items()],
            *[put_node(node(row, cores=4)) for row in range(NODES)],
            PutQueue(0, -1, None, b"default"),
            PutPartition(1, {0: [0], 1: [1]}),
            *[PutJob(j.jid, 0, 1, [Group(-1, j.groups[0].minimum)], b"j") for j in jobs],
        )
        self.workers = [await self.worker(shard) for shard in (0, 1)]
        placed = await self.serve(0, self.flat(self.low, 8))
        assert placed.code is OutcomeCode.PLACED
        tasks = [t for p in placed.placements for t in p.tasks]
        rows = [r for p in placed.placements for r in p.rows]
        await desk.record(StatusItem(S.BOUND, self.low.jid, tasks, rows))
        await desk.record(StatusItem(S.RUNNING, self.low.jid, tasks, rows))
        self.books.rows[self.low.jid] = [dict(zip(tasks, rows, strict=True))[t] for t in range(8)]
        self.workers = [await self.worker(shard) for shard in (0, 1)]

    def flat(self, job: Job, tasks: int) -> Turn:
        """A turn of the fast path for so many tasks."""
        turn = self.books.turn(job, "allocate")
        return replace(turn, world=b"", runs=[TaskRun(0, 0, "task", list(range(tasks)))], tail=8)

    async def worker(self, shard: int) -> Worker:
        view = View(shard=shard)
        view.load(await self.ledger.snapshot(workload=False))
        new_worker = Worker(
            session=open_session(EVERYTHING), view=view, mode=self.mode, shard=shard
        )
        epoch: Epoch = await self.ledger.claim(str(shard), leader=self.desk.epochs["coordinator"])
        new_worker.begin(epoch, self.desk.run_id)
        return new_worker

    def place(self, shard: int, turn: Turn) -> list[Outcome]:
        """Decide, without the ledger's having been asked."""
        results: list[Outcome] = []
        for instruction in self.workers[shard].on_turns([turn], now=1.0):
            if isinstance(instruction, Outcomes):
                results += instruction.outcomes
        return results

    async def commit(self, shard: int) -> Outcome:
        """Ask the ledger until the turn has an outcome."""
        worker = self.workers[shard]
        while (batch := worker.pending_batch()) is not None:
            for instruction in worker.on_reply(await self.ledger.commit(batch)):
                match instruction:
                    case Outcomes():
                        (outcome,) = instruction.outcomes
                        worker.validate()
                        return outcome
                    case CommitBatchRequest():
                        pass
        raise AssertionError("no outcome")

    async def serve(self, shard: int, turn: Turn) -> Outcome:
        result = self.place(shard, turn)
        return result[0] if result else await self.commit(shard)

    def preempt(self, job: Job) -> Turn:
        return self.books.turn(job, "preempt", [self.low])


@pytest.fixture
async def stage(ledger: Ledger) -> ContendingStage:
    contending_stage = ContendingStage(ledger, Mode.NONE)
    await contending_stage.open()
    return contending_stage


async def test_two_that_preempt_at_once_never_take_the_same_victim(stage: ContendingStage) -> None:
    one, two = stage.high
    assert not stage.place(0, stage.preempt(one))
    assert not stage.place(1, stage.preempt(two))
    first, second = await stage.commit(0), await stage.commit(1)
    assert first.code is OutcomeCode.NOMINATED
    assert second.code is OutcomeCode.CONFLICT
    assert not second.evictions
    tasks = (await stage.ledger.snapshot()).tasks[stage.low.jid]
    leaving = {t for t, task in tasks.items() if task.state == S.RELEASING}
    assert leaving == {t for run in first.evictions for t in run.tasks}
    assert len(leaving) == 3
    assert all(tasks[t].by == one.jid for t in leaving)


async def test_after_the_first_eviction_the_second_preemptor_finds_no_surplus_victim(
    stage: ContendingStage,
) -> None:
    one, two = stage.high
    first = await stage.serve(0, stage.preempt(one))
    for run in first.evictions:
        for tix in run.tasks:
            stage.books.states[stage.low.jid][tix] = S.RELEASING
    stage.workers[1] = await stage.worker(1)
    second = await stage.serve(1, stage.preempt(two))
    assert second.code is OutcomeCode.INFEASIBLE  # 5 run, 3 have to stay


@pytest.mark.parametrize("key", ["budget/default/low", "term/1"])
async def test_a_stale_count_shared_by_victims_is_a_read_conflict(
    stage: ContendingStage, key: str
) -> None:
    """The victims differ, but the second statement goes by an old count of what they share."""
    books, low = stage.books, stage.low.jid
    books.keys[low] = [key]
    two = books.job(0, [-1, -1], priority=10)
    await stage.desk.store(PutJob(two.jid, 0, 1, [Group(-1, 2)], b"j"))
    first = await stage.serve(0, stage.preempt(stage.high[0]))
    assert first.moved == {key: 1}
    for run in first.evictions:
        for tix in run.tasks:
            books.states[low][tix] = S.RELEASING
    stage.workers[1] = await stage.worker(1)
    assert (await stage.serve(1, stage.preempt(two))).code is OutcomeCode.CONFLICT
    assert (await stage.ledger.snapshot()).domains == {key: 1}
    books.versions = {key: 1}
    again = await stage.serve(1, stage.preempt(two))
    assert again.code is OutcomeCode.NOMINATED
    assert (await stage.ledger.snapshot()).domains == {key: 2}
