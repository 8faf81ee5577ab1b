"""The coordinator's state machine: calls, lost workers, the ledger's truth about lost turns."""

from __future__ import annotations

import pytest

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher, SendTurns
from coordinator.dispatch.instructions import ReleaseNominations, Reread
from coordinator.intake.changes import Changes
from coordinator.jobs.state import SchedulingStatus
from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import PutPartition
from shared.ledger.entries.snapshot import Nomination
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.ledger.errors import Deposed
from shared.messages.messages import Epoch, Group, OutcomeCode, StatusItem, TaskState
from shared.model.model import Queue
from shared.units.slots import CPU
from tests.builders.rows import ONE, job, node
from tests.coordinator.order.helpers import POLICY, answer, order, placed

EPOCH = Epoch(1, "x")


def coordinator(shards: int = 2, jobs: int = 4, *, walls: bool = False) -> Coordinator:
    core = Coordinator(order(nodes=0, window=16, walls=walls), Dispatcher(shards))
    nodes = [node(r) for r in range(shards)]
    core.admitted(Changes(classes={0: ONE}, nodes=nodes, jobs=[job(j) for j in range(jobs)]))
    core.repartition()
    for shard in range(shards):
        core.worker_up(shard, EPOCH)
    return core


def sends(core: Coordinator, now: float = 0.0) -> list[SendTurns]:
    return [i for i in core.step(now) if isinstance(i, SendTurns)]


def test_a_step_with_very_many_queues_opens_some_turns_and_says_that_more_are_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each pick looks at every queue: turns and queues together bound what one callback does."""
    monkeypatch.setattr("coordinator.core.coordinator.MOST_LOOKS", 30)
    core = Coordinator(order(nodes=0, window=16), Dispatcher(1))
    queues = [Queue(qid, f"q{qid}") for qid in range(1, 11)]
    jobs = [job(jid, queue=f"q{jid + 1}") for jid in range(10)]
    nodes = [node(row) for row in range(3)]
    core.admitted(Changes(classes={0: ONE}, nodes=nodes, queues=queues, jobs=jobs))
    core.repartition()
    core.worker_up(0, EPOCH)
    opened = []
    for _ in range(4):
        core.step(0.0)
        opened.append((core.order.open, core.unfinished))
    assert opened == [(3, True), (6, True), (9, True), (10, False)]


def test_a_step_opens_few_turns_that_carry_the_totals_of_very_many_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """250 backfill turns with 1,000 queues each once held the event loop for 0.7 s."""
    monkeypatch.setattr("coordinator.core.coordinator.MOST_LOOKS", 140)
    core = Coordinator(
        order(nodes=0, window=16, policy=POLICY | {"actions": "allocate, backfill"}), Dispatcher(1)
    )
    queues = [Queue(qid, f"q{qid}") for qid in range(1, 11)]
    jobs = [job(jid, queue="q1") for jid in range(7)]
    nothing = replace(ONE, requests=())
    core.admitted(Changes(classes={0: nothing}, nodes=[node(0)], queues=queues, jobs=jobs))
    core.repartition()
    core.worker_up(0, EPOCH)
    opened = []
    for _ in range(3):
        core.step(0.0)
        opened.append((core.order.open, core.unfinished))
    assert opened == [(3, True), (6, True), (7, False)]


def rereads(core: Coordinator, now: float = 0.0) -> list[int]:
    return [jid for i in core.step(now) if isinstance(i, Reread) for jid in i.jids]


def truth(*, state: TaskState | None = None) -> tuple[JobRecord, dict[int, TaskRecord]]:
    record = JobRecord(spec_version=0, qid=0, gone=False, groups=[Group(-1, 1)])
    return record, {} if state is None else {0: TaskRecord(state=state, row=0, cid=0, version=1)}


def test_a_reply_without_an_outcome_for_a_turn_does_not_forget_the_job() -> None:
    core = coordinator(shards=1)
    (send,) = sends(core)
    first, *rest = send.turns
    core.turns_returned(0, send.call, [placed(first)])
    core.validate()
    assert rereads(core) == [turn.jid for turn in rest]
    core.reread({turn.jid: truth() for turn in rest})
    assert (
        sends(core) == []
    )  # until the ledger has forgotten what the lost turns may have nominated
    core.order.nominations_released([turn.jid for turn in rest])
    assert [t.jid for again in sends(core) for t in again.turns] == [turn.jid for turn in rest]
    core.validate()


def test_reading_tasks_admitted_by_another_leader_raises_deposed() -> None:
    """Seed 131504: paused while another took over, it woke to read what that one had placed."""
    core = coordinator(shards=1)
    (send,) = sends(core)
    core.worker_lost(send.shard)
    jid = rereads(core)[0]
    record, _ = truth()
    beyond = len(core.order.jobs[jid].states)
    bound = TaskRecord(state=TaskState.BOUND, row=0, cid=0, version=1)
    with pytest.raises(Deposed, match=f"has let in task {beyond} of"):
        core.reread({jid: (record, {0: bound, beyond: bound})})


def test_a_lost_workers_turns_are_read_anew_and_placed_elsewhere() -> None:
    core = coordinator()
    first, second = sends(core)
    core.worker_lost(first.shard)
    lost = [turn.jid for turn in first.turns]
    assert rereads(core) == lost
    committed, *pending = lost
    core.reread({committed: truth(state=TaskState.BINDING)} | {jid: truth() for jid in pending})
    assert core.order.jobs[committed].status is SchedulingStatus.SETTLED
    core.order.nominations_released(lost)
    assert sends(core) == [], "the other worker is busy"
    core.turns_returned(second.shard, second.call, [placed(turn) for turn in second.turns])
    (again,) = sends(core)
    assert again.shard == second.shard
    assert [turn.jid for turn in again.turns] == pending
    core.validate()


def test_fenced_turns_are_read_again_only_after_the_epoch_is_void() -> None:
    """A batch that was refused because a lease ran out may come a second time, after the lease was
    renewed: what is read before the epoch is void does not count."""
    core = coordinator(shards=1)
    (send,) = sends(core)
    fenced = [answer(turn, OutcomeCode.FENCED) for turn in send.turns]
    core.turns_returned(0, send.call, fenced)
    assert rereads(core) == []
    core.validate()
    core.worker_lost(0)
    assert rereads(core) == [turn.jid for turn in send.turns]
    core.reread({turn.jid: truth(state=TaskState.BINDING) for turn in send.turns})
    assert all(core.order.jobs[t.jid].status is SchedulingStatus.SETTLED for t in send.turns)
    core.validate()


def test_the_last_word_of_a_lost_worker_changes_nothing() -> None:
    core = coordinator(shards=1)
    (send,) = sends(core)
    core.worker_lost(0)
    core.turns_returned(0, send.call, [placed(turn) for turn in send.turns])
    assert core.tally.total().outcomes.total() == 0
    core.validate()


# --- an answer that is taken up in parts -----------------------------------------------------


def test_in_parts_comes_to_the_same_as_at_once() -> None:
    core = coordinator(shards=1)
    (send,) = sends(core)
    outcomes = [placed(turn) for turn in send.turns]
    core.turns_returned(0, send.call, outcomes[:1], more=True)
    assert core.dispatcher.shards[0].open_turns == 3
    core.validate()
    core.turns_returned(0, send.call, outcomes[1:3], more=True)
    core.turns_returned(0, send.call, outcomes[3:])
    assert not core.dispatcher.shards[0].calls
    assert core.tally.total().outcomes[OutcomeCode.PLACED] == 4
    assert core.dispatcher.shards[0].outstanding == 0
    core.validate()


def test_a_worker_lost_between_two_parts_is_lost_with_the_turns_of_the_second() -> None:
    core = coordinator(shards=1)
    (send,) = sends(core)
    first, *others = send.turns
    core.turns_returned(0, send.call, [placed(first)], more=True)
    core.worker_lost(0)
    assert rereads(core) == [turn.jid for turn in others]
    core.turns_returned(0, send.call, [placed(turn) for turn in others])
    assert core.tally.total().outcomes.total() == 1
    assert core.order.jobs[first.jid].status is SchedulingStatus.SETTLED
    core.reread({turn.jid: truth(state=TaskState.BINDING) for turn in others})
    core.validate()


def test_a_turn_missing_from_every_part_is_read_again_after_the_last() -> None:
    core = coordinator(shards=1)
    (send,) = sends(core)
    silent, *others = send.turns
    core.turns_returned(0, send.call, [placed(others[0])], more=True)
    assert rereads(core) == []
    core.turns_returned(0, send.call, [placed(turn) for turn in others[1:]])
    assert rereads(core) == [silent.jid]
    core.reread({silent.jid: truth(state=TaskState.BINDING)})
    core.validate()


def test_idle_sums_follow_binds_reported_before_and_after_their_outcome() -> None:
    core = coordinator(shards=1, jobs=2)
    (send,) = sends(core)
    one, two = send.turns
    idle = core.dispatcher.shards[0].idle
    core.recorded([StatusItem(TaskState.BOUND, one.jid, [0], [0])], [[0]])
    assert idle[CPU] == 3000
    core.turns_returned(0, send.call, [placed(one), placed(two)])
    assert idle[CPU] == 2000
    core.recorded([StatusItem(TaskState.SUCCEEDED, one.jid, [0], [0])], [[0]])
    assert idle[CPU] == 3000
    core.validate()


# --- hard mode: every shard sees other nodes -------------------------------------------------


def infeasible(core: Coordinator, send: SendTurns) -> None:
    core.turns_returned(
        send.shard, send.call, [answer(t, OutcomeCode.INFEASIBLE, {"x": 1}) for t in send.turns]
    )


def test_behind_walls_a_job_is_tried_in_every_shard_once_before_it_waits() -> None:
    core = coordinator(shards=3, jobs=1, walls=True)
    calls = []
    for _ in range(3):
        (send,) = sends(core)
        calls.append(send.shard)
        infeasible(core, send)
    assert sorted(calls) == [0, 1, 2]
    assert sends(core, now=100.0) == []
    core.validate()


def test_behind_walls_a_shard_that_comes_late_is_asked_too() -> None:
    core = coordinator(shards=2, jobs=1, walls=True)
    core.worker_lost(1)
    (send,) = sends(core)
    assert send.shard == 0
    infeasible(core, send)
    assert sends(core, now=100.0) == []
    core.worker_up(1, EPOCH)
    shards = []
    for now in (200.0, 300.0):
        for send in sends(core, now=now):
            shards.append(send.shard)
            infeasible(core, send)
    assert 1 in shards


def test_a_stored_partition_wakes_jobs_that_no_shard_could_place() -> None:
    core = coordinator(shards=1, jobs=1, walls=True)
    (send,) = sends(core)
    infeasible(core, send)
    assert sends(core, now=100.0) == []
    core.partition_stored("0")
    assert [s.shard for s in sends(core, now=200.0)] == [0]


# --- recovery and what the ledger still holds -------------------------------------------------


def test_a_partition_for_more_shards_than_there_are_now_is_made_anew() -> None:
    core = coordinator(shards=2, jobs=0)
    core.restore_partition(PutPartition(revision=7, shards={0: [0], 3: [1]}))
    instruction = core.repartition()
    assert instruction is not None
    assert sorted(row for rows in instruction.put.shards.values() for row in rows) == [0, 1]
    assert set(instruction.put.shards) == {0, 1}


def test_unneeded_nominations_are_released_before_the_next_turn() -> None:
    core = coordinator(shards=1, jobs=1)
    core.worker_lost(0)
    held = Nomination(jid=0, priority=0, since=1.0, expiry=50.0, runs=[])
    core.stray_nominations({0: held, 99: held}, now=10.0)
    lapses = [i.jids for i in core.step(10.0) if isinstance(i, ReleaseNominations)]
    assert lapses == [[0, 99]]
    core.worker_up(0, EPOCH)
    assert sends(core, now=10.0) == []
    core.order.nominations_released([0, 99])
    assert [t.jid for s in sends(core, now=11.0) for t in s.turns] == [0]
