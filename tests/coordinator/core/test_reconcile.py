"""Differences between cluster and books: found, confirmed, repaired."""

from __future__ import annotations

import pytest

from coordinator.bind.binder import BindPlan
from coordinator.cluster.protocol import BindAnswer, BindAnswers, BindRequests, Listed, Phase
from coordinator.core.coordinator import Coordinator
from coordinator.core.foreign_use import Use, counted, differences, observation, observed_of
from coordinator.core.reconcile import (
    FindingKind,
    ReconcilePass,
    Reconciler,
    ReconcileRepairs,
    read_name,
)
from coordinator.intake.changes import Changes
from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import Observe
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.records import pack_node, pack_thing
from shared.messages.messages import Rows, StatusItem, TaskState
from shared.model.named_devices import ASSIGNED_DEVICES, DEVICES, written_devices
from shared.units.slots import Slots
from tests.coordinator.core.test_core import coordinator, sends
from tests.coordinator.order.helpers import placed

S, P = TaskState, Phase


def books(*states: TaskState, row: int = 0) -> Coordinator:
    """One job per state: job j has its only task in that state, on node ``row``."""
    core = coordinator(shards=2, jobs=len(states))
    for send in sends(core):
        core.turns_returned(
            send.shard,
            send.call,
            [placed(turn, row=row) for turn in send.turns if states[turn.jid] is not S.PENDING],
        )
    for jid, state in enumerate(states):
        if state not in (S.PENDING, S.BINDING):
            core.recorded([StatusItem(state, jid, [0], [row])], [[0]])
    for jid in list(core._unread):  # turns that came back without an outcome: nothing was placed
        core.order.resolve(jid, bytearray(1))
        core.order.nominations_released([jid])
    core._unread.clear()
    return core


def listed(*rows: tuple[str, str, Phase], uid: str | None = None) -> Listed:
    return Listed(
        tasks=[name for name, _, _ in rows],
        uids=[uid or f"u{name.partition('.')[0]}" for name, _, _ in rows],
        nodes=[node for _, node, _ in rows],
        phases=[int(phase) for _, _, phase in rows],
    )


def look(core: Coordinator, listing: Listed, asked: Listed | None = None) -> ReconcilePass:
    reconcile_pass = ReconcilePass(core)
    reconcile_pass.take(listing)
    reconcile_pass.take_missing(asked or listed())
    return reconcile_pass


def twice(core: Coordinator, listing: Listed, lookup: Listed | None = None) -> ReconcileRepairs:
    reconciler = Reconciler(core)
    assert not reconciler.judge(look(core, listing, lookup)).counts  # seen once is nothing
    return reconciler.judge(look(core, listing, lookup))


def test_where_both_agree_nothing_is_to_be_done() -> None:
    core = books(S.BINDING, S.BOUND, S.RUNNING, S.RELEASING, S.PENDING, S.SUCCEEDED)
    listing = listed(
        ("0.0", "n0", P.RUNNING),  # its report is on its way
        ("1.0", "n0", P.BOUND),
        ("2.0", "n0", P.RUNNING),
        ("3.0", "n0", P.RELEASING),
    )
    assert look(core, listed(*[("1.0", "n0", P.BOUND)])).findings == {}
    looked_up = look(core, listing)
    assert [f.kind for f in looked_up.findings.values()] == [FindingKind.BEHIND]
    assert list(looked_up.missing(core.order.jobs.values())) == []


@pytest.mark.parametrize("state", [S.BINDING, S.BOUND, S.RUNNING, S.RELEASING])
def test_a_task_on_another_node_is_adopted_there(state: TaskState) -> None:
    repairs = twice(books(state), listed(("0.0", "n1", P.RUNNING)))
    assert repairs.items == [StatusItem(S.RUNNING, 0, [0], [1], 0, 0)]
    assert repairs.counts == {FindingKind.ELSEWHERE: 1}


def test_a_task_that_was_thought_pending_is_adopted() -> None:
    repairs = twice(books(S.PENDING), listed(("0.0", "n1", P.BOUND)))
    assert repairs.items == [StatusItem(S.BOUND, 0, [0], [1], 0, 0)]
    assert repairs.counts == {FindingKind.FORGOTTEN: 1}


SHARE = (("card/0", (400,)),)


def telling_devices(*states: TaskState) -> Coordinator:
    """Node n1 has a device, and whoever watches the pods says what each has of it."""
    core = books(*states)
    marks = ((DEVICES, written_devices((("card/0", (1000,)),))),)
    core.admitted(Changes(nodes=[replace(core.nodes[1], annotations=marks)]))
    reports = {ASSIGNED_DEVICES: written_devices(SHARE)}
    core.victims.devices.marks = lambda jid, tix: reports
    return core


@pytest.mark.parametrize("state", [S.PENDING, S.BOUND])
def test_a_task_is_adopted_with_its_devices(state: TaskState) -> None:
    repairs = twice(telling_devices(state), listed(("0.0", "n1", P.BOUND)))
    assert repairs.items == [StatusItem(S.BOUND, 0, [0], [1], 0, 0, SHARE)]


def test_a_task_that_a_bind_found_elsewhere_is_adopted_with_its_devices() -> None:
    core = telling_devices(S.BINDING)
    request = BindRequests(["0.0"], ["u0"], ["p"], ["n0"], [1.0])
    plan = BindPlan(ids=[], jids=[0], tasks=[0], rows=[0], requests=request)
    result = core.bind_answered(plan, BindAnswers([BindAnswer.ELSEWHERE], ["n1"]), 1.0)
    assert result.items == [StatusItem(S.BOUND, 0, [0], [1], 0, 0, SHARE)]


def test_states_that_fell_behind_are_recorded() -> None:
    repairs = twice(
        books(S.BOUND, S.RUNNING), listed(("0.0", "n0", P.RUNNING), ("1.0", "n0", P.RELEASING))
    )
    assert repairs.items == [
        StatusItem(S.RUNNING, 0, [0], [0]),
        StatusItem(S.RELEASING, 1, [0], [0]),
    ]


def test_tasks_missing_in_the_cluster_are_lost_and_not_failed() -> None:
    core = books(S.RUNNING, S.BOUND, S.RELEASING, S.BINDING)
    missing = list(ReconcilePass(core).missing(core.order.jobs.values()))
    assert missing == [(0, 0), (1, 0), (2, 0)]  # a bind may be on its way
    answers = listed(("0.0", "", P.UNKNOWN), ("1.0", "", P.SUCCEEDED), ("2.0", "", P.FAILED))
    repairs = twice(core, listed(), answers)
    assert repairs.items == [
        StatusItem(S.LOST, 0, [0], [0]),
        StatusItem(S.SUCCEEDED, 1, [0], [0]),
        StatusItem(S.FAILED, 2, [0], [0]),
    ]
    assert repairs.counts == {FindingKind.LOST: 1, FindingKind.ENDED: 2}


def test_a_deleted_job_does_not_wait_for_a_bind_that_ended_on_another_node() -> None:
    """Nobody asks for it any more, and reports from there are of no task that the ledger has."""
    core = books(S.BINDING, S.BINDING, S.BINDING)
    core.admitted(Changes(jobs_gone=[0, 1]))
    states = [*core.order.jobs.values(), *core.leaving.values()]
    assert sorted(ReconcilePass(core).missing(states)) == [(0, 0), (1, 0)]
    answers = listed(("0.0", "", P.FAILED), ("1.0", "", P.UNKNOWN))
    repairs = twice(core, listed(), answers)
    assert repairs.items == [StatusItem(S.FAILED, 0, [0], [0])]


def test_a_bind_of_a_deleted_job_that_is_answered_from_elsewhere_is_adopted() -> None:
    core = books(S.BINDING)
    core.admitted(Changes(jobs_gone=[0]))
    request = BindRequests(["0.0"], ["u0"], ["p"], ["n0"], [1.0])
    plan = BindPlan(ids=[], jids=[0], tasks=[0], rows=[0], requests=request)
    result = core.bind_answered(plan, BindAnswers([BindAnswer.ELSEWHERE], ["n1"]), 1.0)
    assert result.items == [StatusItem(S.BOUND, 0, [0], [1], 0, 0)]


def test_a_task_that_is_found_when_asked_for_is_not_lost() -> None:
    core = books(S.RUNNING)
    assert look(core, listed(), listed(("0.0", "n0", P.RUNNING))).findings == {}


def test_a_pod_that_runs_after_its_recorded_end_is_stopped() -> None:
    repairs = twice(books(S.FAILED), listed(("0.0", "n0", P.RUNNING)))
    assert (repairs.items, repairs.stop) == ([], [(0, 0)])
    assert repairs.counts == {FindingKind.REVIVED: 1}


def test_a_difference_that_changes_is_on_its_way() -> None:
    core = books(S.RUNNING)
    reconciler = Reconciler(core)
    for node in ("n1", "n0", "n1", "n0"):
        assert not reconciler.judge(look(core, listed(("0.0", node, P.RUNNING)))).counts


def test_nothing_is_said_of_a_job_whose_turn_is_out() -> None:
    core = coordinator(shards=2, jobs=1)
    sends(core)
    assert not twice(core, listed(("0.0", "n1", P.RUNNING))).counts


def test_tasks_of_nobody_and_on_unknown_nodes_are_shown_and_left_alone() -> None:
    core = books(S.RUNNING)
    listing = listed(
        ("0.0", "elsewhere", P.RUNNING), ("77.0", "n0", P.RUNNING), ("x", "n0", P.BOUND)
    )
    repairs = twice(core, listing)
    assert (repairs.items, repairs.stop) == ([], [])
    assert core.tally.unexplained == {"orphan": 2, "no-node": 1}
    twice(core, listed(("0.0", "n0", P.RUNNING), uid="another"))
    assert core.tally.unexplained == {"orphan": 1, "no-node": 0}


def test_adopted_tasks_count_where_they_are() -> None:
    core = books(S.RUNNING, S.RELEASING, S.PENDING)
    (item, second, third) = (
        StatusItem(S.RUNNING, 0, [0], [1], 0, 0),
        StatusItem(S.RUNNING, 1, [0], [1], 0, 0),
        StatusItem(S.RELEASING, 2, [0], [1], 0, 0),
    )
    core.recorded([item, second, third], [[0], [0], [0]])
    assert [core.order.jobs[jid].rows[0] for jid in range(3)] == [1, 1, 1]
    assert not any(turn.jid == 2 for send in sends(core) for turn in send.turns)
    core.validate()
    core.recorded([StatusItem(S.SUCCEEDED, jid, [0], [1]) for jid in range(3)], [[0], [0], [0]])
    core.validate()
    idle = core.dispatcher.idle_of
    assert (idle(0)[0], idle(1)[0]) == (4000, 4000)


def test_names() -> None:
    assert read_name("12.3") == (12, 3)
    assert {read_name(text) for text in ("x", "1", "1.", ".1", "-1.2", "1.2.3", "²3.1")} == {
        (-1, -1)
    }


def test_only_changed_foreign_usage_is_reported() -> None:
    before: dict[int, dict[int | str, Use]] = {1: {0: 5}, 2: {0: 7}, 3: {}}
    assert differences(before, {1: {0: 5}, 4: {1: 2}}) == {4: {1: 2}, 2: {}}


def test_ports_of_others_are_named_and_taken_back_by_name() -> None:
    slots = Slots()
    used = counted({"cpu": 500, "port/TCP/80": 1, "port/UDP/53": 0, "nobody/asks": 3}, slots)
    assert used == {0: 500, "port/TCP/80": (1,)}
    first = observation(3, used, {})
    assert first == Observe(3, [(0, 500)], [("port/TCP/80", (1,))])
    later = observation(3, {"port/TCP/81": (1,)}, used)
    assert later == Observe(3, [], [("port/TCP/80", (0,)), ("port/TCP/81", (1,))])
    record = pack_thing(4, [0, 0, 1, 0, 0])
    node = pack_node(4, 1, [9, 0, 500, 0, 0])
    snapshot = Snapshot("1-0", Rows([3], [node], [(3, "port/TCP/80", record)]), {})
    assert observed_of(snapshot) == {3: used}
