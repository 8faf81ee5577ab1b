"""The worker as a state machine: batches, replies, repairs, fences. Replies are made by hand."""

from __future__ import annotations

import pytest

from shard_worker.framework.session import Session
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shard_worker.worker.instructions import CommitBatchRequest, Instruction, Outcomes
from shard_worker.worker.limits import WorkerLimits
from shard_worker.worker.worker import Worker
from shared.codec.packed import replace
from shared.ledger.entries.log import CommitEntry, Committed
from shared.messages.messages import (
    ALLOCATE,
    NOMINATE,
    Answer,
    CommitBatch,
    CommitReply,
    Outcome,
    OutcomeCode,
    Rows,
    TaskRun,
    Turn,
    Verdict,
)
from shared.units.slots import CPU, PODS
from tests.shard_worker.placement.support import (
    EPOCH,
    cls,
    cpus,
    nominate,
    record,
    session_of,
    turn,
    view_of,
)

NOW = 1000.0


def worker_of(
    view: View, *, session: Session | None = None, limits: WorkerLimits | None = None
) -> Worker:
    worker = Worker(
        session=session or session_of(), view=view, mode=Mode.SOFT, shard=0, seed=3, limits=limits
    )
    assert worker.begin(EPOCH, "run") == []
    return worker


def nodes(count: int, cores: int = 4) -> View:
    return view_of([record(allocatable=cpus(cores))] * count)


def commit_batch(instructions: list[Instruction]) -> CommitBatch:
    """The batch that the worker wants sent."""
    (batch,) = [i.batch for i in instructions if isinstance(i, CommitBatchRequest)]
    return batch


def outcomes_of(instructions: list[Instruction]) -> list[Outcome]:
    return [o for i in instructions if isinstance(i, Outcomes) for o in i.outcomes]


def used(count: int, *, version: int = 2, cores: int = 4, waits: int = 0) -> bytes:
    """A record with so many one-core tasks on it."""
    requests = {CPU: count * 1000, PODS: count}
    ahead = {CPU: waits * 1000, PODS: waits}
    return record(version=version, allocatable=cpus(cores), used=requests, nominated=ahead)


def accept(batch: CommitBatch, fresh: dict[int, bytes], *tails: list[Verdict]) -> CommitReply:
    """Everything is accepted, tails as given."""
    answers = [
        Answer(Verdict.COMMITTED, 0, tails[i] if i < len(tails) else [])
        for i in range(len(batch.statements))
    ]
    return CommitReply(Verdict.COMMITTED, answers, Rows(list(fresh), list(fresh.values())))


def refuse(verdict: Verdict, fresh: dict[int, bytes] | None = None) -> CommitReply:
    """The only statement of a batch is refused."""
    rows = fresh or {}
    answers = [Answer(verdict, 0, [])]
    return CommitReply(Verdict.COMMITTED, answers, Rows(list(rows), list(rows.values())))


def test_a_turn_becomes_a_batch_and_its_reply_an_outcome() -> None:
    view = nodes(1)
    worker = worker_of(view)
    batch = commit_batch(worker.on_turns([turn(2)], now=NOW))
    assert (batch.writer, batch.epoch, batch.run_id, batch.sequence) == ("0", EPOCH, "run", 1)
    (statement,) = batch.statements
    (run,) = statement.core
    assert (run.kind, run.tasks, run.rows, run.versions, run.specs) == (
        ALLOCATE,
        [0, 1],
        [0, 0],
        [1, 1],
        [1, 1],
    )
    assert (statement.expiry, statement.tail, statement.displaced) == (0.0, [], [])
    worker.validate()
    (outcome,) = outcomes_of(worker.on_reply(accept(batch, {0: used(2)})))
    assert outcome.code is OutcomeCode.PLACED
    assert [(p.cid, p.kind, p.tasks, p.rows) for p in outcome.placements] == [
        (0, 0, [0, 1], [0, 0])
    ]
    assert (outcome.committed, outcome.rechecked, outcome.conflicts_true) == (1, 0, 0)
    assert view.column("used", CPU).tolist() == [2000]
    worker.validate()


def test_one_batch_at_a_time_with_growing_sequence() -> None:
    worker = worker_of(nodes(8))
    first = commit_batch(worker.on_turns([turn(1, jid=1)], now=NOW))
    assert worker.on_turns([turn(1, jid=2), turn(1, jid=3)], now=NOW) == []
    assert worker.pending_batch() is first
    second = commit_batch(worker.on_reply(accept(first, {})))
    assert [s.jid for s in second.statements] == [2, 3]
    assert second.sequence > first.sequence
    assert outcomes_of(worker.on_reply(accept(second, {}))) != []
    assert worker.pending_batch() is None
    assert worker.on_reply(accept(second, {})) == [], "a reply that nobody waits for"


def test_open_statements_count_for_the_next_turn() -> None:
    worker = worker_of(nodes(1, cores=2))
    worker.on_turns([turn(2, jid=1)], now=NOW)
    (outcome,) = outcomes_of(worker.on_turns([turn(1, jid=2)], now=NOW))
    assert outcome.code is OutcomeCode.INFEASIBLE
    assert outcome.reasons == {"Insufficient cpu": 1}
    assert outcome.failed_role == "worker"


def test_batches_are_bounded_and_a_large_statement_goes_alone() -> None:
    limits = WorkerLimits(batch_operations=10)
    worker = worker_of(nodes(30), limits=limits)
    sizes = [4, 5, 3, 25, 1, 1]
    turns = [turn(size, jid=jid) for jid, size in enumerate(sizes)]
    instructions = worker.on_turns(turns, now=NOW)
    sent: list[list[int]] = []
    while worker.pending_batch() is not None:
        worker.validate()
        batch = commit_batch(instructions)
        sent.append([s.jid for s in batch.statements])
        instructions = worker.on_reply(accept(batch, {}))
    assert sent == [[0, 1], [2], [3], [4, 5]]


def test_a_true_conflict_is_repaired_on_the_fresh_rows() -> None:
    view = nodes(2)
    worker = worker_of(view)
    batch = commit_batch(worker.on_turns([turn(1)], now=NOW))
    (row,) = batch.statements[0].core[0].rows
    again = commit_batch(worker.on_reply(refuse(Verdict.FIT, {row: used(4, version=7)})))
    assert again.sequence == 2
    assert again.statements[0].core[0].rows == [1 - row]
    (outcome,) = outcomes_of(worker.on_reply(accept(again, {1 - row: used(1)})))
    assert (outcome.code, outcome.conflicts_true, outcome.committed) == (OutcomeCode.PLACED, 1, 1)
    worker.validate()


def test_repaired_statements_go_first_and_keep_their_order() -> None:
    worker = worker_of(nodes(8))
    first = commit_batch(worker.on_turns([turn(1, jid=1), turn(1, jid=2)], now=NOW))
    worker.on_turns([turn(1, jid=3)], now=NOW)
    answers = [Answer(Verdict.FIT, 0, []), Answer(Verdict.NODE, 0, [])]
    second = commit_batch(worker.on_reply(CommitReply(Verdict.COMMITTED, answers, Rows([], []))))
    assert [s.jid for s in second.statements] == [1, 2, 3]
    assert len(first.statements) == 2


def test_refused_statements_are_repaired_in_their_order() -> None:
    worker = worker_of(nodes(2, cores=1))
    worker.on_turns([turn(1, jid=1), turn(1, jid=2)], now=NOW)
    answers = [Answer(Verdict.FIT, 0, []), Answer(Verdict.FIT, 0, [])]
    fresh = Rows([0], [used(1, cores=1)])
    instructions = worker.on_reply(CommitReply(Verdict.COMMITTED, answers, fresh))
    assert [s.jid for s in commit_batch(instructions).statements] == [1]
    assert [(o.jid, o.code) for o in outcomes_of(instructions)] == [(2, OutcomeCode.INFEASIBLE)]


def test_a_conflict_that_repeats_goes_back_to_order() -> None:
    view = nodes(1)
    worker = worker_of(view, limits=WorkerLimits(repairs=3))
    instructions = worker.on_turns([turn(1)], now=NOW)
    for _ in range(4):
        commit_batch(instructions)
        instructions = worker.on_reply(refuse(Verdict.NOMINATION))
    (outcome,) = outcomes_of(instructions)
    assert (outcome.code, outcome.conflicts_true) == (OutcomeCode.CONFLICT, 4)
    assert outcome.placements == []
    assert outcome.reasons == {"the ledger refused: nomination": 4}
    worker.validate()


def test_a_repair_that_finds_nothing_is_infeasible() -> None:
    worker = worker_of(nodes(1))
    worker.on_turns([turn(1)], now=NOW)
    (outcome,) = outcomes_of(worker.on_reply(refuse(Verdict.FIT, {0: used(4)})))
    assert (outcome.code, outcome.conflicts_true) == (OutcomeCode.INFEASIBLE, 1)
    assert outcome.reasons == {"Insufficient cpu": 1}


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict.JOB, OutcomeCode.STALE),
        (Verdict.TASK, OutcomeCode.STALE),
        (Verdict.QUEUE, OutcomeCode.CONFLICT),
    ],
)
def test_refusals_that_no_other_node_cures(verdict: Verdict, code: OutcomeCode) -> None:
    worker = worker_of(nodes(2))
    worker.on_turns([turn(1)], now=NOW)
    (outcome,) = outcomes_of(worker.on_reply(refuse(verdict)))
    assert outcome.code is code
    assert outcome.conflicts_true + outcome.conflicts_read == 1
    worker.validate()


@pytest.mark.parametrize("verdict", [Verdict.NODE, Verdict.GANG, Verdict.DOMAIN, Verdict.RANK])
def test_other_refusals_are_tried_again(verdict: Verdict) -> None:
    worker = worker_of(nodes(2))
    worker.on_turns([turn(1)], now=NOW)
    again = worker.on_reply(refuse(verdict))
    assert commit_batch(again).statements[0].jid == 1
    read = verdict is not Verdict.RANK
    (outcome,) = outcomes_of(worker.on_reply(accept(commit_batch(again), {})))
    assert (outcome.conflicts_read, outcome.conflicts_true) == (int(read), int(not read))


@pytest.mark.parametrize("verdict", [Verdict.EPOCH, Verdict.RUN, Verdict.OLD])
def test_a_refused_batch_fences_every_turn(verdict: Verdict) -> None:
    view = nodes(4)
    before = view.columns.image()
    worker = worker_of(view)
    worker.on_turns([turn(2, jid=1)], now=NOW)
    worker.on_turns([turn(2, jid=2)], now=NOW)
    instructions = worker.on_reply(CommitReply(verdict, [], Rows([], [])))
    assert [(o.jid, o.code) for o in outcomes_of(instructions)] == [
        (1, OutcomeCode.FENCED),
        (2, OutcomeCode.FENCED),
    ]
    assert worker.pending_batch() is None
    assert view.columns.image() == before
    worker.validate()


def test_a_new_epoch_fences_open_statements() -> None:
    worker = worker_of(nodes(1))
    worker.on_turns([turn(1)], now=NOW)
    (outcome,) = outcomes_of(worker.begin(replace(EPOCH, counter=2), "other"))
    assert outcome.code is OutcomeCode.FENCED
    batch = commit_batch(worker.on_turns([turn(1)], now=NOW))
    assert (batch.epoch.counter, batch.run_id, batch.sequence) == (2, "other", 1)


def test_refused_tail_operations_are_left_out() -> None:
    worker = worker_of(nodes(1, cores=8))
    batch = commit_batch(worker.on_turns([turn(6, minimum=2, tail=4)], now=NOW))
    (run,) = batch.statements[0].tail
    assert run.tasks == [2, 3, 4, 5]
    tail = [Verdict.COMMITTED, Verdict.FIT, Verdict.RECHECKED, Verdict.QUEUE]
    (outcome,) = outcomes_of(worker.on_reply(accept(batch, {0: used(4, cores=8)}, tail)))
    assert [p.tasks for p in outcome.placements] == [[0, 1], [2, 4]]
    assert (outcome.committed, outcome.rechecked, outcome.conflicts_true) == (1, 1, 2)


def test_a_turn_for_an_unknown_class_is_stale() -> None:
    worker = worker_of(nodes(1))
    (outcome,) = outcomes_of(worker.on_turns([turn(1, cid=44)], now=NOW))
    assert outcome.code is OutcomeCode.STALE
    (outcome,) = outcomes_of(worker.on_turns([replace(turn(1), runs=[])], now=NOW))
    assert outcome.code is OutcomeCode.STALE


def test_own_entries_of_the_log_may_come_before_the_reply() -> None:
    view = nodes(1)
    worker = worker_of(view)
    batch = commit_batch(worker.on_turns([turn(2)], now=NOW))
    fresh = Rows([0], [used(2)])
    result = Committed(1, Verdict.COMMITTED, 0, batch.statements[0].core, [], [])
    worker.on_log([CommitEntry("5-0", "0", EPOCH, 1, [result], [], fresh)])
    worker.on_log([CommitEntry("6-0", "1", EPOCH, 1, [], [], Rows([0], [used(3, version=3)]))])
    worker.on_reply(accept(batch, {0: used(2)}))
    assert view.column("used", CPU).tolist() == [3000]
    worker.validate()


# --- nominations ------------------------------------------------------------------------------

LEAVING = record(allocatable=cpus(2), used={CPU: 2000}, releasing={CPU: 2000})


def test_a_nomination_outlasts_a_slow_turn_and_the_one_that_renews_it() -> None:
    worker = worker_of(view_of([LEAVING]), limits=WorkerLimits(nomination_seconds=7.0))
    batch = commit_batch(worker.on_turns([turn(2)], now=NOW, elapsed=lambda: 20.0))
    assert batch.statements[0].expiry == NOW + 20.0 + 20.0 + 7.0


def test_a_pipelined_gang_is_nominated_and_placed_later() -> None:
    view = view_of([LEAVING])
    worker = worker_of(view, limits=WorkerLimits(nomination_seconds=7.0))
    batch = commit_batch(worker.on_turns([turn(2)], now=NOW))
    (statement,) = batch.statements
    assert [run.kind for run in statement.core] == [NOMINATE]
    assert statement.expiry == NOW + 7.0
    held = record(
        version=2,
        allocatable=cpus(2),
        used={CPU: 2000},
        releasing={CPU: 2000},
        nominated={CPU: 2000, PODS: 2},
    )
    (outcome,) = outcomes_of(worker.on_reply(accept(batch, {0: held})))
    assert outcome.code is OutcomeCode.NOMINATED
    assert [(p.kind, p.levels) for p in outcome.placements] == [(NOMINATE, [3, 3])]
    assert view.nominations[1].runs == statement.core
    (other,) = outcomes_of(worker.on_turns([turn(1, jid=2)], now=NOW))
    assert other.code is OutcomeCode.INFEASIBLE, "the future is promised to job 1"
    freed = record(version=3, allocatable=cpus(2), nominated={CPU: 2000, PODS: 2})
    view.set_rows(Rows([0], [freed]))
    batch = commit_batch(worker.on_turns([turn(2, nominated={0: 0, 1: 0})], now=NOW))
    assert [run.kind for run in batch.statements[0].core] == [ALLOCATE]
    (outcome,) = outcomes_of(worker.on_reply(accept(batch, {0: used(2, version=4, cores=2)})))
    assert outcome.code is OutcomeCode.PLACED
    assert 1 not in view.nominations
    worker.validate()


def test_displaced_jobs_are_named_and_forgotten() -> None:
    view = view_of([record(allocatable=cpus(1), nominated={CPU: 1000, PODS: 1})])
    nominate(view, 9, [0], priority=1)
    worker = worker_of(view)
    batch = commit_batch(worker.on_turns([turn(1, priority=2)], now=NOW))
    assert batch.statements[0].displaced == [9]
    (outcome,) = outcomes_of(worker.on_reply(accept(batch, {0: used(1, cores=1)})))
    assert outcome.displaced == [9]
    assert view.nominations == {}
    worker.validate()


def test_a_refused_statement_leaves_nominations_alone() -> None:
    view = view_of([record(allocatable=cpus(1), nominated={CPU: 1000, PODS: 1})])
    nominate(view, 9, [0], priority=1)
    worker = worker_of(view, limits=WorkerLimits(repairs=0))
    worker.on_turns([turn(1, priority=2)], now=NOW)
    (outcome,) = outcomes_of(worker.on_reply(refuse(Verdict.RANK)))
    assert (outcome.code, outcome.displaced) == (OutcomeCode.CONFLICT, [])
    assert list(view.nominations) == [9]
    assert view.column("nominated", CPU).tolist() == [1000]


def test_a_statement_of_two_classes_keeps_its_runs_apart() -> None:
    view = view_of([record(allocatable=cpus(8))], classes={0: cls(1), 1: cls(2)})
    worker = worker_of(view)
    mixed: Turn = replace(
        turn(3), runs=[TaskRun(0, 0, "a", [0, 1]), TaskRun(1, 0, "b", [2])], total=3
    )
    batch = commit_batch(worker.on_turns([mixed], now=NOW))
    assert [(run.cid, run.tasks) for run in batch.statements[0].core] == [(0, [0, 1]), (1, [2])]
