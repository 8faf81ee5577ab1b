"""Order: the sequence of turns, what is charged when, and who is woken by what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.jobs.state import SchedulingStatus
from shared.codec.packed import replace
from shared.messages.messages import OutcomeCode, TaskState
from shared.model.model import Queue, TaskClass
from shared.units.slots import CPU, PODS
from tests.builders.rows import job
from tests.coordinator.order.helpers import answer, order, placed, turns


def test_with_window_one_the_next_turn_waits_for_the_outcome() -> None:
    o = order(window=1)
    o.put_job(job(1))
    o.put_job(job(2))
    (first,) = turns(o)
    assert first.jid == 1
    assert turns(o) == []
    o.outcome(placed(first))
    assert [t.jid for t in turns(o)] == [2]
    o.validate()


def test_priority_then_share_then_age_decide_between_jobs() -> None:
    o = order(window=1)
    o.put_job(job(1, created=1.0))
    o.put_job(job(2, created=0.0))
    o.put_job(job(3, created=5.0, priority=10))
    observed = []
    for _ in range(3):
        (turn,) = turns(o)
        observed.append(turn.jid)
        o.outcome(placed(turn))
    assert observed == [3, 2, 1]


def test_equal_queues_alternate() -> None:
    o = order(window=1, queues=("a", "b"))
    for jid in range(1, 5):
        o.put_job(job(jid, queue="a"))
    for jid in range(5, 9):
        o.put_job(job(jid, queue="b"))
    queues = []
    for _ in range(8):
        (turn,) = turns(o)
        queues.append(turn.qid)
        o.outcome(placed(turn))
    assert queues == [0, 1] * 4


def test_open_turns_are_charged_so_that_equal_queues_share_a_window() -> None:
    o = order(window=8, queues=("a", "b"))
    for jid in range(1, 17):
        o.put_job(job(jid, queue="a" if jid <= 8 else "b"))
    given_out = turns(o)
    assert len(given_out) == 8
    assert sorted(t.qid for t in given_out) == [0] * 4 + [1] * 4


def test_a_gang_turn_names_all_members_and_charges_them() -> None:
    o = order(window=4)
    o.put_job(job(1, count=5))
    (turn,) = turns(o)
    assert turn.runs[0].tasks == [0, 1, 2, 3, 4]
    assert turn.tail == 0
    assert o.accounts.capacity.promised[CPU] == 5000
    o.outcome(placed(turn))
    assert o.accounts.capacity.promised[CPU] == 0
    assert o.accounts.capacity.idle[CPU] == 11_000
    assert o.lines.queues[0].info.allocated[CPU] == 5000
    o.validate()


def test_a_gang_larger_than_the_cluster_gets_no_turn_and_a_reason() -> None:
    o = order(window=4)
    o.put_job(job(1, count=17))
    assert turns(o) == []
    assert o.pending_reasons() == {"NotEnoughResources": 1}


def test_elastic_members_cost_one_turn_each_while_others_wait() -> None:
    o = order(window=1)
    o.put_job(job(1, count=4, minimum=1))
    o.put_job(job(2, count=4, minimum=1))
    observed = []
    for _ in range(8):
        (turn,) = turns(o)
        observed.append(turn.jid)
        o.outcome(placed(turn, 1))
    assert observed == [1, 2, 1, 2, 1, 2, 1, 2]


def test_a_lone_elastic_job_gets_many_in_one_turn() -> None:
    o = order(window=4)
    o.put_job(job(1, count=10, minimum=1))
    (turn,) = turns(o)
    o.outcome(placed(turn, 1))
    (turn,) = turns(o)
    assert turn.tail == 9


def test_an_infeasible_line_waits_for_freed_capacity_not_for_time() -> None:
    o = order(window=4)
    o.put_job(job(1, count=1))
    o.put_job(job(2, count=2))
    first, second = turns(o)
    o.outcome(placed(first))
    o.outcome(answer(second, OutcomeCode.INFEASIBLE, {"Insufficient cpu": 4}))
    assert turns(o, now=100.0) == []
    o.task_changed(1, TaskState.RELEASING, [0], [0])
    assert [t.jid for t in turns(o, now=200.0)] == [2]


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ({"node(s) had untolerated taints": 40}, "NoMatchingNodes"),
        ({"node(s) had untolerated taints": 40, "Insufficient cpu": 1}, "NotEnoughResources"),
    ],
)
def test_one_node_that_only_lacks_room_decides_the_reason(
    counts: dict[str, int], reason: str
) -> None:
    o = order(window=1)
    o.put_job(job(1, count=1))
    (turn,) = turns(o)
    o.outcome(answer(turn, OutcomeCode.INFEASIBLE, counts))
    assert o.jobs[1].reason == reason


def test_a_conflict_loser_goes_first_and_not_forever() -> None:
    o = order(window=1)
    for jid in (1, 2):
        o.put_job(job(jid))
    for _ in range(3):
        (turn,) = turns(o)
        assert turn.jid == 1
        o.outcome(answer(turn, OutcomeCode.CONFLICT))
    (turn,) = turns(o)
    o.outcome(answer(turn, OutcomeCode.CONFLICT))
    assert o.jobs[1].reason == "RepeatedConflict"
    assert turns(o, now=0.001) == []


def test_a_nominated_job_is_woken_when_its_nodes_are_free() -> None:
    o = order(window=4, nodes=1, cpus=2)
    o.put_job(job(1, count=2))
    (turn,) = turns(o)
    o.outcome(placed(turn))
    o.put_job(job(2, count=2))
    assert turns(o) == []
    o.task_changed(1, TaskState.RELEASING, [0, 1], [0, 0])
    (turn,) = turns(o)
    o.outcome(placed(turn, level=3))
    assert o.jobs[2].status is SchedulingStatus.NOMINATED
    assert turns(o) == []
    o.task_changed(1, TaskState.SUCCEEDED, [0, 1], [0, 0])
    (turn,) = turns(o)
    assert turn.jid == 2
    assert turn.nominated == {0: 0, 1: 0}
    o.outcome(placed(turn))
    assert o.expired == []
    o.validate()


def test_a_nominated_job_that_finds_nothing_gives_its_nominations_back() -> None:
    o = order(window=4)
    o.put_job(job(1, count=2))
    (turn,) = turns(o)
    o.outcome(placed(turn, level=3))
    (turn,) = turns(o, now=1.0)
    o.outcome(answer(turn, OutcomeCode.INFEASIBLE))
    assert o.expired == [1]
    o.validate()


def test_a_bind_recorded_before_its_outcome_is_not_undone_by_it() -> None:
    o = order(window=1)
    o.put_job(job(1))
    (turn,) = turns(o)
    o.task_changed(1, TaskState.RUNNING, [0], [0])
    o.task_changed(1, TaskState.SUCCEEDED, [0], [0])
    o.outcome(placed(turn))
    assert o.jobs[1].status is SchedulingStatus.DONE
    assert o.accounts.capacity.idle[CPU] == 16_000
    o.validate()


def test_a_bind_refused_before_its_outcome_is_placed_again() -> None:
    o = order(window=1)
    o.put_job(job(1))
    (turn,) = turns(o)
    o.task_changed(1, TaskState.BOUND, [0], [0])
    o.task_changed(1, TaskState.PENDING, [0], [0])
    o.outcome(placed(turn))
    assert [t.jid for t in turns(o)] == [1]
    o.validate()


def test_a_job_of_a_missing_queue_waits_with_a_reason_until_the_queue_comes() -> None:
    o = order()
    o.put_job(job(1, queue="later"))
    assert turns(o) == []
    assert o.pending_reasons() == {"Misconfigured": 1}
    o.put_queue(Queue(qid=7, name="later"))
    assert [t.jid for t in turns(o)] == [1]


def test_free_capacity_goes_beyond_shares_only_where_nobody_within_may_have_it() -> None:
    """Four queues want 8 of 16 cores each: no share holds a whole gang, yet they must all run."""
    names = ("a", "b", "c", "d")
    strict = order(window=8, queues=names, work_conserving=False)
    ours = order(window=8, queues=names)
    for o in (strict, ours):
        for i, name in enumerate(names):
            o.put_job(job(i + 1, count=8, queue=name))
    assert turns(strict) == []
    assert len(turns(ours)) == 2


def test_capability_is_a_wall_for_borrowers_too() -> None:
    o = order(window=8, queues=("a", "b"))
    o.put_queue(Queue(qid=1, name="b", capability=((CPU, 3000),)))
    for jid in range(1, 9):
        o.put_job(job(jid, queue="b"))
    assert len(turns(o)) == 3


def test_host_ports_are_left_to_the_workers() -> None:
    """Every node has each of them by nature: totals say nothing about it."""
    o = order()
    things = (("port/TCP/80", (1,)),)
    o.accounts.classes[2] = TaskClass(requests=((CPU, 1000), (PODS, 1)), things=things)
    o.put_job(job(1, cid=2))
    assert [t.jid for t in turns(o)] == [1]


def test_an_ancestors_capability_holds_back_and_its_rise_wakes() -> None:
    o = order(window=8, queues=("top",))
    o.put_queue(Queue(qid=0, name="top", capability=((CPU, 1000),)))
    o.put_queue(Queue(qid=1, name="leaf", parent=0))
    for jid in (1, 2):
        o.put_job(job(jid, queue="leaf"))
    (turn,) = turns(o)
    o.outcome(placed(turn))
    assert turns(o, now=1.0) == []
    assert o.pending_reasons() == {"WaitingForQuota": 1}
    o.put_queue(Queue(qid=0, name="top", capability=((CPU, 2000),), spec=1))
    assert len(turns(o, now=2.0)) == 1


def test_a_changed_job_keeps_the_effects_of_its_open_turn() -> None:
    o = order(window=1)
    o.put_job(job(1, count=2, minimum=1))
    (turn,) = turns(o)
    o.task_changed(1, TaskState.BOUND, [0], [0])
    o.task_changed(1, TaskState.PENDING, [0], [0])  # its bind was refused
    promised = dict(o.accounts.capacity.promised)
    o.put_job(replace(job(1, count=3, minimum=1), spec=1))
    assert o.accounts.capacity.promised == promised
    o.outcome(placed(turn, 1))
    assert o.jobs[1].states[0] == TaskState.PENDING
    assert o.jobs[1].status is SchedulingStatus.READY
    o.validate()


def test_a_bind_that_is_refused_again_and_again_is_tried_ever_later() -> None:
    o = order(window=1)
    o.put_job(job(1))
    now, tries = 0.0, 0
    while now < 3.0:
        for turn in turns(o, now):
            tries += 1
            o.outcome(placed(turn))
            o.task_changed(1, TaskState.PENDING, [0], [0])
        now += 0.005
    assert tries < 12
    o.validate()


@given(
    widths=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    codes=st.lists(
        st.sampled_from(["placed", "half", "infeasible", "conflict", "stale"]), max_size=60
    ),
    window=st.integers(1, 4),
)
def test_totals_always_equal_the_sums_of_task_states(
    widths: list[int], codes: list[str], window: int
) -> None:
    o = order(nodes=5, cpus=4, window=window, queues=("a", "b"))
    for jid, width in enumerate(widths, 1):
        o.put_job(job(jid, count=width, minimum=max(1, width // 2), queue="ab"[jid % 2]))
    now, running = 0.0, []
    for code in codes:
        now += 1.0
        for turn in turns(o, now):
            match code:
                case "placed":
                    outcome = placed(turn)
                case "half":
                    outcome = placed(turn, max(1, len(turn.runs[0].tasks) // 2))
                case "stale":
                    outcome = answer(turn, OutcomeCode.STALE)
                case other:
                    outcome = answer(turn, OutcomeCode[other.upper()])
            o.outcome(outcome)
            running += [(turn.jid, t) for p in outcome.placements for t in p.tasks]
            o.validate()
        for jid in o.stale:
            o.resolve(jid, bytearray(o.jobs[jid].states))
        o.stale.clear()
        if running and code != "placed":
            jid, tix = running.pop()
            o.task_changed(jid, TaskState.SUCCEEDED, [tix], [0])
        o.validate()
