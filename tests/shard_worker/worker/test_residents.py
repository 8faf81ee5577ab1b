"""Residents that a plugin sees in a worker: all tasks on the nodes, placed by whichever shard."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from shard_worker.dialects.open_session import open_session
from shard_worker.dialects.volcano import registry
from shard_worker.framework.plugin import Check, PluginOption, Scope, Session, TaskInfo, World
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shard_worker.worker.instructions import CommitBatchRequest, Outcomes
from shard_worker.worker.worker import Worker
from shared.codec.packed import replace
from shared.ledger.class_op import put_class
from shared.ledger.entries.intake_batch import DropJob, IntakeOp, PutJob, PutPartition, PutQueue
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import (
    ALLOCATE,
    EvictRun,
    Outcome,
    OutcomeCode,
    Run,
    Statement,
    StatusItem,
    TaskState,
    Verdict,
)
from shared.model.model import Job
from shared.policy.model import Policy
from shared.records.specs import encode_queue
from shared.records.specs_jobs import encode_job
from tests.shard_worker.placement.support import cls, node, put_node
from tests.shard_worker.turns.sessions import Books
from tests.shared.ledger.support import Desk

CLASSES = {0: cls(1), 1: cls(2)}
ROWS = 4
S = TaskState

Seen = dict[int, list[tuple[str, str]]]
"""Row -> pods there and their statuses, by name."""


class Spy:
    """A plugin of somebody else's: it looks at every node, and lets a task share none with a pod
    that is labelled ``alone``."""

    name = "spy"
    seen: Seen
    queues: set[tuple[str, int]]

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_live_predicate_fn(self.look, scope=Scope.NODE)

    def look(self, task: TaskInfo, world: World) -> Sequence[Check]:
        Spy.seen = {
            row: sorted((there.name, there.status.name or "") for there in world.tasks_on(row))
            for row in range(world.size)
            if world.tasks_on(row)
        }
        there = [other for row in range(world.size) for other in world.tasks_on(row)]
        Spy.queues = {
            (other.job.queue.queue.name, other.job.job.priority)
            for other in there
            if other.job.queue is not None
        }
        assert {other.key for other in there} <= {other.key for other in world.tasks()}
        alone = [
            any(dict(other.role.labels).get("alone") for other in world.tasks_on(row))
            for row in range(world.size)
        ]
        mask = world.view.exists() & ~world.view.own  # as wide as the view
        mask[:] = [not is_alone for is_alone in alone]
        return [Check("somebody is alone there", mask, curable=True)]


class _Entry:
    value = "spy:Spy"

    def load(self) -> type[Spy]:
        return Spy


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "third_party_plugins", lambda: {"spy": _Entry()})
    Spy.seen, Spy.queues = {}, set()
    yield


def policy(actions: str = "allocate") -> Policy:
    names = ("priority", "gang", "predicates", "spy")
    return Policy(tuple(actions.split(", ")), (tuple(PluginOption(name) for name in names),))


@dataclass
class ResidentsShard:
    worker: Worker
    log_id: str


@dataclass
class ResidentsStage:
    """Two shards with two nodes of 4 cores each, over one ledger."""

    under: Policy = field(default_factory=policy)
    books: Books = field(default_factory=lambda: Books(CLASSES))
    ledger: MemoryLedger = field(default_factory=lambda: MemoryLedger(random.Random(0)))
    desk: Desk = field(init=False)
    shards: dict[int, ResidentsShard] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.desk = Desk(self.ledger)
        at_once(self.desk.open("1"))
        ops: list[IntakeOp] = [put_class(cid, asks) for cid, asks in CLASSES.items()]
        ops += [put_node(node(row, cores=4)) for row in range(ROWS)]
        ops += [PutPartition(1, {0: [0, 1], 1: [2, 3]})]
        at_once(self.desk.store(*ops))
        self.books.queue("other", weight=2)
        for queue in self.books.queues.values():
            at_once(self.desk.store(PutQueue(queue.qid, -1, None, encode_queue(queue))))
        for shard in (0, 1):
            self.start(shard)

    def start(self, shard: int) -> None:
        """A worker of the shard, which reads the ledger as the one of a service does."""
        session = open_session(self.under)
        view = View(shard=shard, residents=session.reads_residents)
        log_id = at_once(view.begin(self.ledger))
        worker = Worker(session=session, view=view, mode=Mode.SOFT, shard=shard, seed=shard)
        at_once(self.desk.claim(str(shard)))
        worker.begin(self.desk.epochs[str(shard)], self.desk.run_id)
        self.shards[shard] = ResidentsShard(worker, log_id)

    def job(self, tasks: int, **more: Any) -> Job:
        job_item = self.books.job(0, [-1] * tasks, **more)
        qid = self.books.queues[job_item.queue].qid
        at_once(
            self.desk.store(
                PutJob(job_item.jid, qid, 1, list(job_item.groups), encode_job(job_item))
            )
        )
        return job_item

    def turn(self, shard: int, job: Job, action: str = "allocate") -> Outcome:
        """A turn of the job alone: what runs is not told with it."""
        at = self.shards[shard]
        entries = at_once(self.ledger.read_log(at.log_id))
        if entries:
            at.worker.on_log(entries, now=1.0)
            at.log_id = entries[-1].id
        results: list[Outcome] = []
        instructions = at.worker.on_turns([self.books.turn(job, action)], now=1.0)
        while instructions:
            report = instructions.pop(0)
            match report:
                case Outcomes():
                    results += report.outcomes
                case CommitBatchRequest():
                    instructions += at.worker.on_reply(at_once(self.ledger.commit(report.batch)))
        (outcome,) = results
        at.worker.validate()
        for placement in outcome.placements:
            if placement.kind == ALLOCATE:
                for tix, row in zip(placement.tasks, placement.rows, strict=True):
                    self.books.states[job.jid][tix] = S.BINDING
                    self.books.rows[job.jid][tix] = row
                devices = dict.fromkeys(placement.tasks, placement.devices)
                self.books.devices.setdefault(job.jid, {}).update(devices)
        return outcome

    def report(self, job: Job, state: TaskState, *tasks: int) -> None:
        rows = [self.books.rows[job.jid][tix] for tix in tasks]
        (applied,) = at_once(self.desk.record(StatusItem(state, job.jid, [*tasks], rows))).applied
        assert applied == [*tasks]

    def seen_by(self, shard: int) -> Seen:
        """Residents that the plugin sees in a turn of a small job, which is not placed."""
        Spy.seen = {}
        small = self.books.job(1, [-1], labels=(("x", str(len(self.books.jobs))),))
        self.turn(shard, small)
        return Spy.seen

    def placed(self, job: Job, state: str) -> Seen:
        results: Seen = {}
        for tix, row in enumerate(self.books.rows[job.jid]):
            results.setdefault(row, []).append((f"{job.name}-task-{tix}", state))
        return {row: sorted(there) for row, there in results.items()}


def test_tasks_placed_by_one_shard_are_seen_by_both() -> None:
    stage = ResidentsStage()
    gang = stage.job(6, queue="other", priority=7)
    assert stage.turn(1, gang).code is OutcomeCode.PLACED
    assert set(stage.books.rows[gang.jid]) & {2, 3}, "its own nodes first"
    for shard in (0, 1):
        assert stage.seen_by(shard) == stage.placed(gang, "BINDING")
        assert Spy.queues == {("other", 7)}


def test_state_changes_of_residents_are_seen_by_both_shards() -> None:
    stage = ResidentsStage()
    gang = stage.job(3)
    stage.turn(0, gang)
    stage.report(gang, S.RUNNING, 0, 1, 2)
    assert stage.seen_by(1) == stage.placed(gang, "RUNNING")
    stage.report(gang, S.RELEASING, 1)
    stage.report(gang, S.SUCCEEDED, 2)
    reports = {pod: status for there in stage.seen_by(1).values() for pod, status in there}
    assert reports == {"j0-task-0": "RUNNING", "j0-task-1": "RELEASING"}
    at_once(stage.desk.store(DropJob(gang.jid)))
    reports = {pod: status for there in stage.seen_by(0).values() for pod, status in there}
    assert set(reports.values()) == {"RELEASING"}, "a deleted job is about to leave"
    stage.report(gang, S.SUCCEEDED, 0)
    stage.report(gang, S.SUCCEEDED, 1)
    assert stage.seen_by(0) == stage.seen_by(1) == {}


def test_an_evicted_task_is_leaving_and_its_next_incarnation_is_seen() -> None:
    stage = ResidentsStage()
    gang = stage.job(1, minimum=0)
    stage.turn(0, gang)
    stage.report(gang, S.RUNNING, 0)
    winner = stage.job(1)
    rows = stage.books.rows[gang.jid]
    evicts = Statement(
        jid=winner.jid,
        job_version=1,
        qid=0,
        priority=0,
        core=[],
        tail=[],
        displaced=[],
        domains=[],
        evictions=[EvictRun(gang.jid, 1, 0, 0, [0], rows, 0)],
        reason="preempt",
    )
    reply = at_once(stage.desk.commit(evicts, writer="1"))
    assert reply.answers[0].verdict is Verdict.COMMITTED
    assert stage.seen_by(0) == stage.seen_by(1) == stage.placed(gang, "RELEASING")
    stage.report(gang, S.PENDING, 0)
    assert stage.seen_by(0) == {}
    run = Run(ALLOCATE, 0, 0, [0], [3], [10**6], [1], [1])
    again = Statement(gang.jid, 1, 0, 0, [run], [], [], [])
    assert at_once(stage.desk.commit(again, writer="1")).answers[0].verdict in (
        Verdict.COMMITTED,
        Verdict.RECHECKED,
    )
    assert stage.seen_by(0) == {3: [("j0-task-0", "BINDING")]}


def test_a_worker_that_starts_again_sees_what_the_old_one_saw() -> None:
    stage = ResidentsStage()
    gang = stage.job(5)
    stage.turn(0, gang)
    stage.report(gang, S.RUNNING, 0, 1)
    before = stage.seen_by(0)
    stage.start(0)
    assert stage.seen_by(0) == before
    stage.report(gang, S.RUNNING, 2)
    assert stage.seen_by(0) == stage.seen_by(1) != before


def test_its_verdict_holds_across_shards() -> None:
    """A placement that a rule forbids beside a resident is refused in another shard, too."""
    stage = ResidentsStage()
    loner = stage.books.job(0, [-1] * 4)
    roles = tuple(replace(role, labels=(("alone", "yes"),)) for role in loner.roles)
    loner = replace(loner, roles=roles)
    at_once(stage.desk.store(PutJob(loner.jid, 0, 1, list(loner.groups), encode_job(loner))))
    at_once(
        stage.desk.commit(
            Statement(
                loner.jid,
                1,
                0,
                0,
                [Run(ALLOCATE, 0, 0, [0, 1, 2, 3], [0, 1, 2, 3], [10**6] * 4, [1] * 4, [1] * 4)],
                [],
                [],
                [],
            )
        )
    )
    for shard in (0, 1):
        outcome = stage.turn(shard, stage.job(1))
        assert outcome.code is OutcomeCode.INFEASIBLE
        assert outcome.reasons == {"somebody is alone there": 4}


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_victims_are_found_that_no_turn_named(action: str) -> None:
    """Residents of all shards; by the rules of the action, and by nothing else."""
    stage = ResidentsStage(policy(f"allocate, {action}"))
    jobs = [stage.job(1, queue="other", minimum=0) for _ in range(2 * ROWS)]
    jobs += [stage.job(1, minimum=0) for _ in range(2 * ROWS)]
    for job in jobs:
        assert stage.turn(job.jid % 2, job).code is OutcomeCode.PLACED
        stage.report(job, S.RUNNING, 0)
    high = stage.job(3, priority=10)
    outcome = stage.turn(0, high, action)
    assert outcome.code is OutcomeCode.NOMINATED
    victims = {run.jid for run in outcome.evictions}
    queue = "default" if action == "preempt" else "other"
    assert len(victims) == 3
    assert {stage.books.jobs[jid].queue for jid in victims} == {queue}
