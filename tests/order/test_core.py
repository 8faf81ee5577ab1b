"""The coordinator's state machine: calls, lost workers, the ledger's truth about lost turns."""

from __future__ import annotations

from coordinator.core import Changes, Coordinator, Reread
from coordinator.dispatch import Dispatcher, SendTurns
from coordinator.jobs import Standing
from shared.ledger.protocol import JobRecord, TaskRecord
from shared.messages import Epoch, Group, StatusItem, TaskState
from shared.model import Node
from shared.slots import CPU, PODS
from tests.order.helpers import ONE, job, order, placed

EPOCH = Epoch(1, "x")


def coordinator(shards: int = 2, jobs: int = 4) -> Coordinator:
    core = Coordinator(order(nodes=0, window=16), Dispatcher(shards))
    nodes = [
        Node(row=r, name=f"n{r}", allocatable=((CPU, 4000), (PODS, 110))) for r in range(shards)
    ]
    core.admitted(Changes(classes={0: ONE}, nodes=nodes, jobs=[job(j) for j in range(jobs)]))
    core.repartition()
    for shard in range(shards):
        core.worker_up(shard, EPOCH)
    return core


def sends(core: Coordinator, now: float = 0.0) -> list[SendTurns]:
    return [i for i in core.step(now) if isinstance(i, SendTurns)]


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
    assert [t.jid for again in sends(core) for t in again.turns] == [turn.jid for turn in rest]
    core.validate()


def test_a_lost_workers_turns_are_read_anew_and_placed_elsewhere() -> None:
    core = coordinator()
    first, second = sends(core)
    core.worker_lost(first.shard)
    lost = [turn.jid for turn in first.turns]
    assert rereads(core) == lost
    committed, *pending = lost
    core.reread({committed: truth(state=TaskState.BINDING)} | {jid: truth() for jid in pending})
    assert core.order.jobs[committed].standing is Standing.SETTLED
    (again,) = sends(core)
    assert again.shard == second.shard
    assert [turn.jid for turn in again.turns] == pending
    core.validate()


def test_the_last_word_of_a_lost_worker_changes_nothing() -> None:
    core = coordinator(shards=1)
    (send,) = sends(core)
    core.worker_lost(0)
    core.turns_returned(0, send.call, [placed(turn) for turn in send.turns])
    assert core.tally.total().outcomes.total() == 0
    core.validate()


def test_idle_sums_follow_binds_that_are_told_before_and_after_their_outcome() -> None:
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
