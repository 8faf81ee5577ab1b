"""Turns that are not flat: what a session did over the view and a turn context, as a statement."""

from __future__ import annotations

import gc
from collections import Counter

import numpy as np
import pytest

from shard_worker.dialects.open_session import open_session
from shard_worker.dialects.volcano.registry import PLUGINS
from shard_worker.framework.session import Session
from shard_worker.session_model.job import SessionJob, SubJob, TaskInfo
from shard_worker.session_model.world import World
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shard_worker.worker.instructions import CommitBatchRequest, Outcomes
from shard_worker.worker.limits import WorkerLimits
from shard_worker.worker.worker import Worker
from shared.messages.messages import (
    ALLOCATE,
    GUARD_GANG,
    GUARD_GUARANTEE,
    GUARD_REST,
    NOBODY,
    NOMINATE,
    Answer,
    CommitReply,
    DomainOp,
    EvictRun,
    Level,
    Outcome,
    OutcomeCode,
    Rows,
    Statement,
    TaskState,
    Turn,
    Verdict,
)
from shared.model.model import Queue, TaskClass
from shared.policy.dialect import parse_policy
from shared.policy.model import Policy
from shared.units.slots import CPU, PODS
from tests.shard_worker.placement.support import EPOCH, cls, cpus, record, view_of
from tests.shard_worker.turns.sessions import EVERYTHING, B, Books

CLASSES = {0: cls(1), 1: cls(4), 2: TaskClass(requests=((PODS, 1),))}


class SessionStage:
    """A worker of shard 0 over nodes of 4 cores that hold what the books say."""

    def __init__(
        self,
        books: Books,
        *,
        nodes: int = 2,
        mode: Mode = Mode.NONE,
        policy: Policy = EVERYTHING,
    ) -> None:
        self.books = books
        books.total = {CPU: 4000 * nodes}
        used: list[dict[int, int]] = [{} for _ in range(nodes)]
        for row, cid in books.used():
            for slot, amount in CLASSES[cid].requests:
                used[row][slot] = used[row].get(slot, 0) + amount
        records = [record(allocatable=cpus(4), used=part) for part in used]
        own = range(nodes) if mode is Mode.NONE else range(nodes // 2)
        self.view: View = view_of(records, own=own, classes=CLASSES)
        self.worker = Worker(
            session=open_session(policy), view=self.view, mode=mode, shard=0, limits=WorkerLimits()
        )
        self.worker.begin(EPOCH, "run")

    def image(self) -> list[np.ndarray]:
        return [column.copy() for kind in self.view.columns.views for column in kind]

    def turn(self, turn: Turn) -> tuple[list[Statement], list[Outcome]]:
        statements: list[Statement] = []
        outcomes: list[Outcome] = []
        for instruction in self.worker.on_turns([turn], now=5.0):
            match instruction:
                case CommitBatchRequest():
                    statements += instruction.batch.statements
                case Outcomes():
                    outcomes += instruction.outcomes
        return statements, outcomes

    def answer(self, *verdicts: Verdict) -> list[Outcome]:
        answers = [Answer(verdict, 0, []) for verdict in verdicts]
        reply = CommitReply(Verdict.COMMITTED, answers, Rows([], []))
        results: list[Outcome] = []
        for instruction in self.worker.on_reply(reply):
            if isinstance(instruction, Outcomes):
                results += instruction.outcomes
        self.worker.validate()
        return results


def full(books: Books, *, priority: int = 0, minimum: int = 1, queue: str = "default") -> None:
    """One job that fills two nodes of 4 cores."""
    books.job(0, [0, 0, 0, 0, 1, 1, 1, 1], minimum=minimum, priority=priority, queue=queue)


def test_preempt_evicts_and_nominates_in_one_statement() -> None:
    books = Books(CLASSES)
    full(books)
    high = books.job(0, [-1, -1], priority=10)
    stage = SessionStage(books)
    before = stage.image()
    (statement,), outcomes = stage.turn(books.turn(high, "preempt", [books.jobs[0]]))
    assert not outcomes
    assert statement.jid == high.jid
    assert [len(run.tasks) for run in statement.evictions] == [2]
    assert statement.evictions[0].jid == 0
    assert guards_of(statement) == {0: GUARD_GANG}  # within a queue nothing is guaranteed
    assert statement.reason.startswith("preempt")
    (run,) = statement.core
    assert (run.kind, run.tasks) == (NOMINATE, [0, 1])
    assert run.rows == statement.evictions[0].rows
    assert set(run.levels) == {Level.FUTURE_OWN}
    assert statement.expiry > 5.0
    (outcome,) = stage.answer(Verdict.COMMITTED)
    assert outcome.code is OutcomeCode.NOMINATED
    assert outcome.evictions == statement.evictions
    assert outcome.reason == statement.reason
    assert all(np.array_equal(a, b) for a, b in zip(before, stage.image(), strict=True))


def test_a_turn_that_comes_to_nothing_leaves_the_view_as_it_was() -> None:
    books = Books(CLASSES)
    full(books, priority=20)
    low = books.job(0, [-1], priority=10)
    stage = SessionStage(books)
    before = stage.image()
    statements, (outcome,) = stage.turn(books.turn(low, "preempt", [books.jobs[0]]))
    assert not statements
    assert outcome.code is OutcomeCode.INFEASIBLE
    assert outcome.reasons
    assert all(np.array_equal(a, b) for a, b in zip(before, stage.image(), strict=True))
    stage.worker.validate()


def test_a_gang_keeps_its_minimum() -> None:
    books = Books(CLASSES)
    full(books, minimum=7)
    high = books.job(0, [-1, -1], priority=10)
    stage = SessionStage(books)
    statements, (outcome,) = stage.turn(books.turn(high, "preempt", [books.jobs[0]]))
    assert not statements
    assert outcome.code is OutcomeCode.INFEASIBLE


def test_reclaim_takes_from_the_queue_with_more_than_its_share() -> None:
    books = Books(CLASSES)
    books.queue("other")
    full(books)
    mine = books.job(0, [-1, -1, -1], queue="other")
    stage = SessionStage(books)
    (statement,), _ = stage.turn(books.turn(mine, "reclaim", [books.jobs[0]]))
    assert statement.qid == 1
    assert sum(len(run.tasks) for run in statement.evictions) == 3
    assert guards_of(statement) == {0: GUARD_GANG | GUARD_GUARANTEE}
    assert statement.reason.startswith("reclaim")


def test_no_guard_where_the_rules_let_a_part_of_a_gang_go() -> None:
    """Conformance alone lets go in the second tier whom gang keeps in the first."""
    books = Books(CLASSES)
    full(books, minimum=8)
    high = books.job(0, [-1, -1], priority=10)
    named = [[{"name": "gang"}], [{"name": "conformance"}, {"name": "predicates"}]]
    tiers = [{"plugins": plugins} for plugins in named]
    policy = parse_policy({"actions": "preempt", "tiers": tiers})
    stage = SessionStage(books, policy=policy)
    (statement,), _ = stage.turn(books.turn(high, "preempt", [books.jobs[0]]))
    assert statement.evictions
    assert guards_of(statement) == {0: 0}


def test_each_victim_has_the_guard_of_its_own_gang() -> None:
    """Gang lets go of a job of one; the gang of two on the other node goes by the second tier."""
    books = Books(CLASSES)
    whole = books.job(1, [0])
    part = books.job(1, [1, 2])
    high = books.job(1, [-1, -1], priority=10)
    stage = SessionStage(books, nodes=4, mode=Mode.HARD, policy=in_two_tiers("preempt", "gang"))
    (statement,), _ = stage.turn(books.turn(high, "preempt", [whole, part]))
    assert guards_of(statement) == {whole.jid: GUARD_GANG, part.jid: 0}


def test_each_victim_has_the_guard_of_its_own_queue() -> None:
    """Proportion spares both queues; conformance, in the second tier, takes from one that has no
    guarantee and from another what is guaranteed to it."""
    books = Books(CLASSES, queues={"default": Queue(0, "default", weight=100)})
    books.queue("rich")
    books.queue("poor", guarantee=((CPU, 8000),))
    whole = books.job(1, [0], queue="rich")
    part = books.job(1, [1, 2], minimum=1, queue="poor")
    mine = books.job(1, [-1, -1])
    stage = SessionStage(
        books, nodes=4, mode=Mode.HARD, policy=in_two_tiers("reclaim", "gang", "proportion")
    )
    (statement,), _ = stage.turn(books.turn(mine, "reclaim", [whole, part]))
    assert guards_of(statement) == {whole.jid: GUARD_GANG | GUARD_GUARANTEE, part.jid: GUARD_GANG}


def in_two_tiers(action: str, *first: str) -> Policy:
    """These rules decide where they let anybody go, else conformance alone does."""
    named = first, ("conformance", "predicates")
    tiers = [{"plugins": [{"name": name} for name in names]} for names in named]
    return parse_policy({"actions": action, "tiers": tiers})


def guards_of(statement: Statement) -> dict[int, int]:
    """Job -> what its victims are guarded by."""
    return {run.jid: run.guards for run in statement.evictions}


@pytest.mark.parametrize("verdict", [Verdict.TASK, Verdict.JOB, Verdict.GANG, Verdict.DOMAIN])
def test_a_stale_turn_context_ends_as_a_read_conflict(verdict: Verdict) -> None:
    books = Books(CLASSES)
    full(books)
    high = books.job(0, [-1], priority=10)
    stage = SessionStage(books)
    stage.turn(books.turn(high, "preempt", [books.jobs[0]]))
    (outcome,) = stage.answer(verdict)
    assert outcome.code is OutcomeCode.CONFLICT
    assert outcome.conflicts_read == 1
    assert not outcome.evictions


def test_a_lost_race_for_a_node_is_tried_again_on_the_fresh_view() -> None:
    books = Books(CLASSES)
    full(books)
    high = books.job(0, [-1], priority=10)
    stage = SessionStage(books)
    stage.turn(books.turn(high, "preempt", [books.jobs[0]]))
    for _ in range(3):
        assert stage.answer(Verdict.NOMINATION) == []
        assert stage.worker.pending_batch() is not None
    (outcome,) = stage.answer(Verdict.NOMINATION)
    assert outcome.code is OutcomeCode.CONFLICT
    assert outcome.conflicts_true == 4


def test_the_read_set_has_the_keys_of_every_job_touched() -> None:
    books = Books(CLASSES, versions={"budget/a": 3, "term/b": 5, "budget/c": 9})
    full(books)
    other = books.job(0, [])
    high = books.job(0, [-1], priority=10)
    books.keys = {0: ["budget/a"], other.jid: ["budget/c"], high.jid: ["term/b"]}
    stage = SessionStage(books)
    (statement,), _ = stage.turn(books.turn(high, "preempt", [books.jobs[0], other]))
    assert statement.domains == [
        DomainOp("budget/a", 1, "le", 3),
        DomainOp("term/b", 1, "le", 5),
    ]
    (outcome,) = stage.answer(Verdict.COMMITTED)
    assert outcome.moved == {"budget/a": 1, "term/b": 1}


def test_backfill_binds_tasks_that_ask_for_nothing() -> None:
    books = Books(CLASSES)
    full(books)
    job = books.job(2, [-1, -1, -1], minimum=1)
    stage = SessionStage(books)
    (statement,), _ = stage.turn(books.turn(job, "backfill"))
    assert [run.kind for run in statement.core] == [ALLOCATE]
    assert sum(len(run.tasks) for run in statement.core) == 1
    assert sum(len(run.tasks) for run in statement.tail) == 2


def test_a_session_places_a_flat_gang_as_the_fast_path_does() -> None:
    books = Books(CLASSES)
    job = books.job(1, [-1, -1])
    stage = SessionStage(books)
    (statement,), _ = stage.turn(books.turn(job, "allocate"))
    (run,) = statement.core
    assert (run.kind, run.tasks, sorted(run.rows)) == (ALLOCATE, [0, 1], [0, 1])
    (outcome,) = stage.answer(Verdict.COMMITTED)
    assert outcome.code is OutcomeCode.PLACED


def test_in_soft_mode_victims_of_the_own_shard_go_first() -> None:
    books = Books(CLASSES)
    full(books)
    high = books.job(0, [-1] * 6, priority=10)
    stage = SessionStage(books, mode=Mode.SOFT)
    (statement,), _ = stage.turn(books.turn(high, "preempt", [books.jobs[0]]))
    (run,) = statement.core
    assert run.rows == [0, 0, 0, 0, 1, 1]
    assert run.levels == [Level.FUTURE_OWN] * 4 + [Level.FUTURE_OTHER] * 2


def test_in_hard_mode_only_the_own_shard_has_victims() -> None:
    books = Books(CLASSES)
    full(books)
    fits = books.job(0, [-1] * 4, priority=10)
    wide = books.job(0, [-1] * 5, priority=10)
    stage = SessionStage(books, mode=Mode.HARD)
    statements, (outcome,) = stage.turn(books.turn(wide, "preempt", [books.jobs[0]]))
    assert not statements
    assert outcome.code is OutcomeCode.INFEASIBLE
    (statement,), _ = stage.turn(books.turn(fits, "preempt", [books.jobs[0]]))
    assert {row for run in statement.core for row in run.rows} == {0}


def test_a_job_of_an_unknown_class_is_stale() -> None:
    books = Books({**CLASSES, 9: cls(1)})
    job = books.job(9, [-1])
    _, (outcome,) = SessionStage(books).turn(books.turn(job, "allocate"))
    assert outcome.code is OutcomeCode.STALE


def test_a_shuffle_without_rules_that_want_it_comes_to_nothing() -> None:
    books = Books(CLASSES)
    full(books)
    statements, (outcome,) = SessionStage(books).turn(books.turn(None, "shuffle", [books.jobs[0]]))
    assert not statements
    assert (outcome.jid, outcome.code) == (NOBODY, OutcomeCode.INFEASIBLE)


def test_bound_tasks_are_victims_of_preempt_too() -> None:
    books = Books(CLASSES)
    books.job(0, [0, 0, 0, 0], minimum=1, state=B)
    high = books.job(0, [-1], priority=10)
    (statement,), _ = SessionStage(books, nodes=1).turn(
        books.turn(high, "preempt", [books.jobs[0]])
    )
    tasks = statement.evictions[0].tasks
    assert statement.evictions == [EvictRun(0, 1, 0, 0, tasks, [0], GUARD_GANG)]


@pytest.mark.parametrize(
    ("ended", "rest"),
    [
        ((TaskState.SUCCEEDED, TaskState.SUCCEEDED), 2),
        ((TaskState.RELEASING, TaskState.SUCCEEDED), 2),
        ((TaskState.FAILED, TaskState.LOST), 0),
    ],
    ids=["ended", "ending", "failed"],
)
def test_evicting_a_gang_leaves_its_ended_members(
    ended: tuple[TaskState, TaskState], rest: int
) -> None:
    """Seed 81570: the guard was not asked for, and a member that was placed meanwhile stayed."""
    books = Books(CLASSES)
    low = books.job(0, [0, 0, 0, 0, 0], priority=1)
    books.states[low.jid][3:] = ended
    high = books.job(0, [-1, -1, -1], priority=10)
    stage = SessionStage(books, nodes=1)
    (statement,), _ = stage.turn(books.turn(high, "gangpreempt", [low]))
    assert [sorted(run.tasks) for run in statement.evictions] == [[0, 1, 2]]
    assert guards_of(statement) == {0: GUARD_GANG + rest * GUARD_REST}


def test_a_whole_gang_makes_way_for_a_whole_gang() -> None:
    """One of its four tasks would have been enough: none is left to wait for the others."""
    books = Books(CLASSES)
    low = books.job(0, [0, 0, 1, 1], priority=1)
    books.job(0, [0, 0, 1, 1], priority=20)
    high = books.job(0, [-1, -1, -1], priority=10)
    stage = SessionStage(books)
    before = stage.image()
    (statement,), _ = stage.turn(books.turn(high, "gangpreempt", [low, books.jobs[1]]))
    assert [(run.jid, sorted(run.tasks)) for run in statement.evictions] == [(0, [0, 1, 2, 3])]
    assert guards_of(statement) == {0: GUARD_GANG}
    assert statement.reason == "gangpreempt (priority, gang, conformance): for default/j2"
    assert sum(len(run.tasks) for run in statement.core + statement.tail) == 3
    stage.answer(Verdict.COMMITTED)
    assert all(np.array_equal(a, b) for a, b in zip(before, stage.image(), strict=True))


# --- what is left of a turn -------------------------------------------------------------------


def session_objects() -> Counter[str]:
    parts = (Session, World, SessionJob, SubJob, TaskInfo)
    return Counter(type(thing).__name__ for thing in gc.get_objects() if isinstance(thing, parts))


@pytest.mark.parametrize("action", ["allocate", "preempt", "shuffle"])
def test_a_turn_leaves_nothing_to_the_garbage_collector(action: str) -> None:
    """World, jobs and tasks go with their last reference once the next turn has its own, whatever
    plugins there are: to find them was more than half of what the collector did."""
    plugins = [{"name": name} for name in PLUGINS if name not in ("extender", "proportion")]
    books = Books(CLASSES)
    low = books.job(0, [0, 0, 1, 1], priority=1)
    high = books.job(0, [-1, -1, -1, 0], priority=10)
    stage = SessionStage(
        books, policy=parse_policy({"actions": action, "tiers": [{"plugins": plugins}]})
    )
    turn = books.turn(None if action == "shuffle" else high, action, [low])
    stage.turn(turn)
    gc.collect()
    gc.disable()
    try:
        before = session_objects()
        stage.turn(turn)
        assert session_objects() == before
    finally:
        gc.enable()
