"""Nodes that change hands under a worker: what it treats as its own, and what it had planned.

Against the ledger's scripts on a server in memory."""

from __future__ import annotations

import random

import pytest

from shard_worker.dialects.open_session import open_session
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shard_worker.worker.instructions import CommitBatchRequest, Instruction, Outcomes
from shard_worker.worker.worker import Worker
from shared.ledger.class_op import put_class
from shared.ledger.entries.intake_batch import (
    IntakeBatch,
    IntakeOp,
    Move,
    PutJob,
    PutPartition,
    PutQueue,
)
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.ledger.protocol import COORDINATOR
from shared.messages.messages import (
    ALLOCATE,
    CommitBatch,
    Group,
    Outcome,
    OutcomeCode,
    TaskRun,
    Turn,
    Verdict,
)
from shared.model.model import Queue
from shared.policy.volcano import DEFAULT_POLICY
from shared.records.specs import encode_queue
from tests.shard_worker.placement.support import cls, node, put_node

CORES = 4
BEFORE = PutPartition(1, {0: [0], 1: [1]})
TOLD = PutPartition(2, {0: [0], 1: []}, [Move(giver=1, taker=0, rows=[1])])
DONE = PutPartition(3, {0: [0, 1], 1: []})


class BorderWorld:
    """Two nodes and two shards; node 1 is on its way from shard 1 to shard 0."""

    def __init__(self, mode: Mode) -> None:
        self.ledger = MemoryLedger(random.Random(1))
        self.epoch = at_once(self.ledger.claim(COORDINATOR))
        self.run_id = at_once(self.ledger.bless(self.epoch))
        self._sequence = 0
        self.store(
            put_class(0, cls(1)),
            *(put_node(node(row, cores=CORES)) for row in (0, 1)),
            PutQueue(0, -1, None, encode_queue(Queue(qid=0, name="default"))),
            *(PutJob(jid, 0, 1, [Group(-1, 1)], b"") for jid in range(9)),
            BEFORE,
        )
        self.read = dict.fromkeys((0, 1), "0")
        self.workers = {shard: self._worker(shard, mode) for shard in (0, 1)}

    def store(self, *ops: IntakeOp) -> None:
        self._sequence += 1
        batch = IntakeBatch(COORDINATOR, self.epoch, self._sequence, self.run_id, list(ops))
        assert at_once(self.ledger.store(batch)).verdict is Verdict.COMMITTED

    def _worker(self, shard: int, mode: Mode) -> Worker:
        view = View(shard=shard)
        snapshot = at_once(self.ledger.snapshot(workload=False))
        view.load(snapshot)
        self.read[shard] = snapshot.log_id
        worker = Worker(session=open_session(DEFAULT_POLICY), view=view, mode=mode, shard=shard)
        worker.begin(at_once(self.ledger.claim(str(shard), leader=self.epoch)), self.run_id)
        return worker

    def follow(self, shard: int) -> None:
        entries = at_once(self.ledger.read_log(self.read[shard]))
        if entries:
            self.workers[shard].on_log(entries)
            self.read[shard] = entries[-1].id

    def plan(self, shard: int, jid: int, tasks: int = 1) -> list[Instruction]:
        turn = Turn(
            jid=jid,
            job_version=1,
            qid=0,
            priority=0,
            groups=[Group(-1, tasks)],
            runs=[TaskRun(0, 0, "worker", list(range(tasks)))],
            total=tasks,
        )
        return self.workers[shard].on_turns([turn], now=1.0)

    def finish(self, shard: int, planned: list[Instruction]) -> Outcome:
        """Commit what was planned; what came of it, with repairs."""
        outcomes: list[Outcome] = []
        while planned:
            batch: CommitBatch | None = None
            for instruction in planned:
                match instruction:
                    case CommitBatchRequest():
                        batch = instruction.batch
                    case Outcomes():
                        outcomes += instruction.outcomes
            if batch is None:
                break
            planned = self.workers[shard].on_reply(at_once(self.ledger.commit(batch)))
        self.workers[shard].validate()
        (outcome,) = outcomes
        return outcome

    def place(self, shard: int, jid: int, tasks: int = 1) -> Outcome:
        self.follow(shard)
        return self.finish(shard, self.plan(shard, jid, tasks))


def places(outcome: Outcome) -> set[tuple[int, int]]:
    """(row, level) of all that was allocated."""
    return {
        (row, level)
        for p in outcome.placements
        if p.kind == ALLOCATE
        for row, level in zip(p.rows, p.levels, strict=True)
    }


def own(world: BorderWorld) -> list[list[bool]]:
    for shard in (0, 1):
        world.follow(shard)
    return [world.workers[shard].view.own.tolist() for shard in (0, 1)]


def test_a_node_being_handed_over_is_owned_by_no_shard() -> None:
    world = BorderWorld(Mode.SOFT)
    assert own(world) == [[True, False], [False, True]]
    world.store(TOLD)
    assert own(world) == [[True, False], [False, False]]
    world.store(DONE)
    assert own(world) == [[True, True], [False, False]]


def test_in_hard_mode_nothing_new_is_placed_on_moving_nodes() -> None:
    world = BorderWorld(Mode.HARD)
    assert places(world.place(1, 1)) == {(1, 1)}
    world.store(TOLD)
    assert world.place(1, 2).code is OutcomeCode.INFEASIBLE
    assert world.place(0, 3, CORES + 1).code is OutcomeCode.INFEASIBLE
    world.store(DONE)
    assert places(world.place(0, 3, CORES + 1)) == {(0, 1), (1, 1)}


def test_in_soft_mode_a_moved_node_belongs_to_another_shard_for_everybody() -> None:
    world = BorderWorld(Mode.SOFT)
    world.store(TOLD)
    assert places(world.place(1, 1)) <= {(0, 2), (1, 2)}
    assert places(world.place(0, 2, CORES + 2)) == {(0, 1), (1, 2)}


@pytest.mark.parametrize("planner", [0, 1])
@pytest.mark.parametrize("phases", [[TOLD], [TOLD, DONE]])
def test_a_planned_statement_commits_after_its_node_changes_shard(
    planner: int, phases: list[PutPartition]
) -> None:
    """In soft mode shard 0 plans on another shard's node while it comes to be its own, shard 1 on
    its own while it goes: the ledger asks whether it fits, not whose it is."""
    world = BorderWorld(Mode.SOFT)
    world.place(0, 0, CORES)  # node 0 is full
    world.follow(planner)
    planned = world.plan(planner, 1, 2)
    world.store(*phases)
    outcome = world.finish(planner, planned)
    assert outcome.code is OutcomeCode.PLACED
    assert places(outcome) == {(1, 2 if planner == 0 else 1)}
    for shard in (0, 1):
        world.follow(shard)
        assert world.workers[shard].view.column("used", 0).tolist()[1] == 2000


def test_both_plan_on_the_node_that_changes_hands_and_it_is_not_filled_twice() -> None:
    world = BorderWorld(Mode.SOFT)
    world.place(0, 0, CORES)
    world.follow(1)
    giver = world.plan(1, 1, 3)
    world.store(TOLD)
    world.follow(0)
    taker = world.plan(0, 2, 3)
    world.store(DONE)
    assert world.finish(1, giver).code is OutcomeCode.PLACED
    lost = world.finish(0, taker)
    assert lost.code is not OutcomeCode.PLACED
    assert lost.conflicts_true == 1


def test_a_revision_that_was_overtaken_changes_nothing() -> None:
    world = BorderWorld(Mode.SOFT)
    world.store(DONE)
    world.store(TOLD)
    assert own(world) == [[True, True], [False, False]]
