"""Observers of the core: nodes of tasks, failed tries, order of calls."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.cluster.overdue import OverduePod
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher, SendTurns
from coordinator.dispatch.instructions import Repartition
from coordinator.intake.changes import Changes
from coordinator.jobs.state import LastTurn
from coordinator.ledger_audit.findings import Finding
from shard_worker.worker.transport import REPLY, PlaceReply
from shared.codec.packed import replace
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.messages.messages import Epoch, Group, Outcome, OutcomeCode, StatusItem, TaskState, Turn
from shared.model.model import Queue
from shared.model.topology import HyperNode
from shared.records.quarantine import Quarantine
from tests.builders.rows import ONE, job, node
from tests.coordinator.order.helpers import answer, order, placed


class Notes:
    """Writes down every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def outcome(self, shard: int, outcome: Outcome) -> None:
        self.calls.append(("outcome", shard, outcome.jid))

    def recorded(self, item: StatusItem, tasks: list[int], rows: list[int]) -> None:
        self.calls.append(("recorded", item.state, item.jid, tasks, rows))

    def evicted(self, jid: int, tasks: list[int], by_jid: int, reason: str) -> None:
        self.calls.append(("evicted", jid, tasks, by_jid, reason))

    def victim_overdue(self, pod: OverduePod, waiting: Sequence[int]) -> None:
        self.calls.append(("overdue", pod.task, *waiting))

    def job_moved(self, jid: int) -> None:
        self.calls.append(("moved", jid))

    def shard_changed(self, shard: int, what: str, message: str = "") -> None:
        self.calls.append((what, shard))

    def node_changed(self, name: str, quarantine: Quarantine | None) -> None:
        self.calls.append((name, quarantine))

    def ledger_contradicted(self, finding: Finding, message: str) -> str:
        self.calls.append(("contradicted", finding.name, message))
        return str(finding.subject)

    def take(self) -> list[tuple[object, ...]]:
        calls, self.calls = self.calls, []
        return calls


def coordinator(*, shards: int = 1, count: int = 3, nodes: int = 4) -> tuple[Coordinator, Notes]:
    core, notes = Coordinator(order(nodes=0, window=16), Dispatcher(shards)), Notes()
    offered = [node(r) for r in range(nodes)]
    core.admitted(Changes(classes={0: ONE}, nodes=offered, jobs=[job(1, count=count, minimum=1)]))
    core.observe(notes)
    core.repartition()
    core.partition_stored("1")
    for shard in range(shards):
        core.worker_up(shard, Epoch(7, "x"))
    return core, notes


def turn_of(core: Coordinator, now: float = 0.0) -> tuple[SendTurns, Turn]:
    (send,) = [i for i in core.step(now) if isinstance(i, SendTurns)]
    (turn,) = send.turns
    return send, turn


def answered(core: Coordinator, outcome: Outcome, send: SendTurns) -> None:
    core.turns_returned(send.shard, send.call, [outcome], now=5.0)
    core.validate()


# --- where tasks are ------------------------------------------------------------------------------


def test_rows_follow_outcomes_records_and_refusals() -> None:
    core, _ = coordinator()
    state = core.order.jobs[1]
    assert list(state.rows) == [-1, -1, -1]
    send, turn = turn_of(core)
    answered(core, placed(turn, count=1, row=2), send)
    assert list(state.rows) == [2, -1, -1]
    core.recorded([StatusItem(TaskState.BOUND, 1, [0], [2])], [[0]])
    core.recorded([StatusItem(TaskState.RUNNING, 1, [0], [2])], [[0]])
    core.recorded([StatusItem(TaskState.SUCCEEDED, 1, [0], [2])], [[0]])
    assert state.rows[0] == 2  # where it ended
    send, turn = turn_of(core, 1.0)
    answered(core, placed(turn, count=1, row=3), send)
    core.recorded([StatusItem(TaskState.PENDING, 1, [1], [3])], [[1]])
    assert list(state.rows) == [2, -1, -1]


def test_rows_of_a_bind_that_is_recorded_before_its_outcome() -> None:
    core, _ = coordinator()
    send, turn = turn_of(core)
    core.recorded([StatusItem(TaskState.BOUND, 1, [0], [3])], [[0]])
    assert list(core.order.jobs[1].rows) == [3, -1, -1]
    outcome = placed(turn, count=3, row=2)  # of three tasks, one is known already
    answered(core, outcome, send)
    assert core.order.jobs[1].rows[0] == 3


def test_rows_come_from_the_ledger_after_a_lost_turn() -> None:
    core, _ = coordinator()
    record = JobRecord(spec_version=0, qid=0, gone=False, groups=[Group(-1, 1)])
    core.reread({1: (record, {1: TaskRecord(TaskState.RUNNING, 3, 0, 1)})})
    assert list(core.order.jobs[1].rows) == [-1, 3, -1]


def test_a_changed_job_keeps_its_rows_and_tries() -> None:
    core, _ = coordinator(count=1)
    send, turn = turn_of(core)
    answered(core, answer(turn, OutcomeCode.INFEASIBLE, {"Insufficient cpu": 4}), send)
    state = core.order.jobs[1]
    role = state.job.roles[0]
    core.admitted(Changes(jobs=[replace(state.job, spec=1, roles=(replace(role, count=3),))]))
    again = core.order.jobs[1]
    assert again is not state
    assert list(again.rows) == [-1, -1, -1]
    assert (again.last, again.turn_results) == (state.last, state.turn_results)


# --- tries ----------------------------------------------------------------------------------------


def test_the_last_try_has_shard_reason_and_time() -> None:
    core, _ = coordinator()
    send, turn = turn_of(core)
    outcome = replace(
        answer(turn, OutcomeCode.INFEASIBLE, {"Insufficient cpu": 4}),
        failed_role="worker",
        fitting=3,
        conflicts_true=2,
        conflicts_read=1,
        session=9,
    )
    answered(core, outcome, send)
    state = core.order.jobs[1]
    assert state.last == LastTurn(
        code=OutcomeCode.INFEASIBLE,
        reasons={"Insufficient cpu": 4},
        failed_role="worker",
        fitting=3,
        conflicts_true=2,
        conflicts_read=1,
        shard=0,
        epoch="7:x",
        session=9,
        at=5.0,
    )
    tries = state.turn_results
    assert (tries.infeasible, tries.conflict_true, tries.conflict_read) == (1, 2, 1)
    assert (tries.placed, tries.nominated, tries.shards) == (0, 0, 1)
    core.order.look_again()
    send, turn = turn_of(core, 60.0)
    answered(core, placed(turn), send)
    assert core.order.jobs[1].last is None
    assert core.order.jobs[1].turn_results.placed == 1


def test_sessions_and_all_else_of_an_outcome_travel() -> None:
    outcome = Outcome(
        jid=3,
        code=OutcomeCode.CONFLICT,
        placements=[],
        reasons={"a": 1},
        failed_role="r",
        displaced=[4],
        committed=1,
        rechecked=2,
        conflicts_true=3,
        conflicts_read=4,
        session=5,
    )
    reply = PlaceReply([outcome], "1-0")
    assert REPLY.decode(REPLY.encode(reply)) == reply


# --- who is told ----------------------------------------------------------------------------------


def test_outcomes_and_records_are_told_when_order_knows_them() -> None:
    core, notes = coordinator()
    send, turn = turn_of(core)
    answered(core, placed(turn, count=1), send)
    core.recorded([StatusItem(TaskState.BOUND, 1, [0, 1], [0, 9])], [[0]])
    assert notes.take() == [
        ("outcome", 0, 1),
        ("recorded", TaskState.BOUND, 1, [0], [0]),
    ]
    core.turns_returned(0, send.call, [placed(turn)])  # the same call again is not believed
    core.recorded([StatusItem(TaskState.BOUND, 1, [0], [0])], [[]])
    assert notes.take() == []


def test_observers_are_notified_of_moves_without_a_turn() -> None:
    core, notes = coordinator()
    core.admitted(Changes(jobs=[job(2, queue="later")]))
    assert notes.take() == []
    core.admitted(Changes(queues=[Queue(qid=4, name="later")]))
    assert notes.take() == [("moved", 2)]
    core.order.give_up_nominations(1)
    assert notes.take() == [("moved", 1)]
    core.admitted(Changes(jobs_gone=[2]))
    assert notes.take() == [("moved", 2)]


def test_lost_and_recovered_shards_and_moved_nodes_are_reported() -> None:
    core, notes = coordinator(shards=2)
    assert notes.take() == []  # nobody lost anything by the first start
    core.worker_lost(1)
    assert notes.take() == [("ShardLost", 1)]
    core.worker_up(1, Epoch(8, "x"))
    assert notes.take() == [("ShardRecovered", 1)]
    core.worker_lost(0, planned=True)
    core.worker_up(0, Epoch(9, "x"))
    assert notes.take() == []
    core.admitted(Changes(nodes_gone=[row for row, s in core.dispatcher.shard_of.items() if s]))
    assert core.repartition() is not None
    assert notes.take() == []  # the first phase: nothing has another owner yet
    core.partition_stored("5")
    for beat in core.step(0.0):
        assert isinstance(beat, SendTurns)
        core.followed(beat.shard, beat.epoch, "6")
        core.turns_returned(beat.shard, beat.call, [])
    assert any(isinstance(i, Repartition) for i in core.step(0.0))
    assert notes.take() == [("ShardRebalanced", 0), ("ShardRebalanced", 1)]


def test_hyper_nodes_alone_tell_of_no_shard() -> None:
    core, notes = coordinator(shards=1)
    core.admitted(Changes(hyper_nodes=[HyperNode.of("h", 1, ("n0",))]))
    assert core.repartition() is None
    assert notes.take() == []
