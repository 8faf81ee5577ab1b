"""Retry discipline: who tries again at once, who waits for what, and who is taken out."""

from __future__ import annotations

import itertools

from coordinator.bind.binder import BindPlan
from coordinator.cluster.protocol import BindAnswer, BindAnswers, BindRequests
from coordinator.core.reasons.reasons import why
from coordinator.jobs.backoff import ATTEMPTS, PARK_SECONDS, STILL_SECONDS
from coordinator.jobs.state import SchedulingStatus
from coordinator.order.order import Order
from coordinator.service.metrics.pending_counts import waiting_in_steps
from shared.codec.packed import replace
from shared.messages.messages import OutcomeCode, TaskState, Turn
from shared.messages.reason import HoldReason, Reason
from shared.model.model import Role
from shared.model.node_pool import NodePool
from shared.slices import at_once
from shared.units.slots import BASE
from tests.builders.rows import job
from tests.coordinator.core.test_core import coordinator, sends
from tests.coordinator.order.helpers import answer, order, placed, turns


def refuse_bind(o: Order, turn: Turn, *, now: float) -> None:
    """The turn's first task is placed, and its bind refused."""
    o.outcome(placed(turn, count=1))
    o.now = now
    o.task_changed(turn.jid, TaskState.PENDING, [turn.runs[0].tasks[0]], [0])


# --- conflicts --------------------------------------------------------------------------------


def test_a_conflict_loser_goes_first_and_without_a_pause() -> None:
    o = order(window=1)
    for jid in range(3):
        o.put_job(job(jid, created=float(jid)))
    (first,) = turns(o, now=5.0)
    o.outcome(answer(first, OutcomeCode.CONFLICT))
    (again,) = turns(o, now=5.0)
    assert (again.jid, again.attempt) == (first.jid, 1)


def test_a_job_that_only_meets_conflicts_is_taken_out_in_the_end() -> None:
    o = order(window=1)
    o.put_job(job(1))
    now, tried = 0.0, 0
    while (batch := turns(o, now)) or o.jobs[1].status is not SchedulingStatus.WAITING:
        for turn in batch:
            tried += 1
            o.outcome(answer(turn, OutcomeCode.CONFLICT))
        o.accounts.capacity.freed()
        now += 1.5
        assert tried <= ATTEMPTS
    assert tried == ATTEMPTS
    assert o.jobs[1].reason == Reason.ATTEMPTS_EXHAUSTED
    assert o.parking.parked == 1
    o.validate()


# --- infeasible jobs wait with their class ----------------------------------------------------


def test_equal_infeasible_jobs_cost_one_turn_until_room_is_freed() -> None:
    o = order(nodes=2, cpus=4, window=8)
    for jid in range(50):
        o.put_job(job(jid, cid=1))
    o.put_job(job(99, cid=0, created=9.0))
    now, tried = 0.0, []
    for _ in range(20):
        for turn in turns(o, now):
            tried.append(turn.jid)
            code = OutcomeCode.INFEASIBLE if turn.jid < 99 else OutcomeCode.PLACED
            o.outcome(placed(turn) if code is OutcomeCode.PLACED else answer(turn, code, {"x": 2}))
        now += 10.0  # time alone wakes nobody
    window = [jid for jid in tried if jid < 99]
    assert len(window) <= 8
    assert 99 in tried  # jobs of another class are not held back
    o.task_changed(99, TaskState.SUCCEEDED, [0], [0])
    assert [turn.jid for turn in turns(o, now)][:1] == [0]


# --- binds ------------------------------------------------------------------------------------


def parked(o: Order) -> float:
    """A job whose binds are refused until it is parked; returns the time."""
    o.put_job(job(1))
    now, tried = 0.0, 0
    while o.jobs[1].reason != Reason.ATTEMPTS_EXHAUSTED:
        for turn in turns(o, now):
            tried += 1
            refuse_bind(o, turn, now=now)
        now += 1.5
        assert tried <= ATTEMPTS
    assert tried == ATTEMPTS
    return now


def test_a_job_whose_binds_are_refused_again_and_again_is_parked() -> None:
    o = order()
    parked(o)
    assert o.jobs[1].status is SchedulingStatus.WAITING
    assert o.jobs[1].refusals == ATTEMPTS
    o.validate()


def test_a_parked_job_tries_once_when_room_was_freed_and_not_too_often() -> None:
    o = order()
    now = parked(o)
    o.accounts.capacity.freed()
    assert turns(o, now) == []  # too early
    now += PARK_SECONDS
    assert turns(o, now) == []  # nothing was freed since
    o.accounts.capacity.freed()
    (again,) = turns(o, now)
    refuse_bind(o, again, now=now)
    o.accounts.capacity.freed()
    assert turns(o, now + 2.0) == []
    assert o.jobs[1].reason == Reason.ATTEMPTS_EXHAUSTED
    assert o.parking.parked == 2


def test_a_parked_job_tries_now_and_then_where_nothing_is_freed() -> None:
    """The cluster may take binds again, and no task ends."""
    o = order()
    tried, now = [], parked(o)
    for _ in range(3):
        while not (again := turns(o, now)):
            due = o.next_due()
            assert due is not None
            now = max(due, now + 1.0)
        tried.append(now)
        refuse_bind(o, again[0], now=now)
    pauses = [later - earlier for earlier, later in itertools.pairwise(tried)]
    assert all(STILL_SECONDS <= pause < STILL_SECONDS + PARK_SECONDS for pause in pauses)


def test_an_edit_wakes_a_parked_job_with_all_its_attempts() -> None:
    o = order()
    now = parked(o)
    o.put_job(job(1, priority=5))
    assert [turn.jid for turn in turns(o, now)] == [1]
    assert o.jobs[1].refusals == 0


def test_a_bind_that_is_taken_counts_the_refusals_anew() -> None:
    o = order()
    o.put_job(job(1, count=2, minimum=1))
    now = 0.0
    for _ in range(3):
        (turn,) = turns(o, now)[:1]
        refuse_bind(o, turn, now=now)
        now += 1.5
    assert o.jobs[1].refusals == 3
    (turn,) = turns(o, now)[:1]
    o.outcome(placed(turn, count=1))
    o.task_changed(1, TaskState.BOUND, turn.runs[0].tasks[:1], [0])
    assert o.jobs[1].refusals == 0


def test_a_refused_task_does_not_wait_for_a_wider_member() -> None:
    """The job stood in the line of its wide member, for which there is no room until others end."""
    o = order(nodes=1, cpus=2)
    o.put_job(job(1))
    (other,) = turns(o)
    o.outcome(placed(other))
    roles = (Role("narrow", 0, 0, 1), Role("wide", 1, 1, 1))
    o.put_job(replace(job(2, minimum=1), roles=roles))
    (turn,) = turns(o)
    o.outcome(placed(turn))
    assert turns(o, now=1.0) == []
    o.task_changed(2, TaskState.PENDING, [0], [0])
    (again,) = turns(o, now=2.5)
    assert (again.jid, again.runs[0].tasks) == (2, [0])
    o.validate()


# --- gangs that fell below their minimum ------------------------------------------------------


def broken_gang(o: Order) -> Order:
    """A gang of three of which one bind was refused at 10 s."""
    o.put_job(job(1, count=3))
    (turn,) = turns(o, now=10.0)
    o.outcome(placed(turn))
    o.task_changed(1, TaskState.RUNNING, [0, 1], [0, 0])
    o.task_changed(1, TaskState.PENDING, [2], [0])
    assert o.gangs.broken == 1
    return o


def test_a_gang_is_repaired_by_placing_what_was_refused() -> None:
    o = broken_gang(order())
    (turn,) = turns(o, now=11.0)
    assert turn.runs[0].tasks == [2]
    o.outcome(placed(turn))
    o.task_changed(1, TaskState.BOUND, [2], [1])
    assert (o.gangs.repaired, 1 in o.gangs) == (1, False)
    turns(o, now=1000.0)
    assert o.departures.stop == []


def test_a_gang_that_is_not_repaired_in_time_is_released() -> None:
    o = broken_gang(order())
    o.gangs.seconds = 30.0
    (turn,) = turns(o, now=11.0)
    o.outcome(answer(turn, OutcomeCode.INFEASIBLE, {"x": 4}))
    assert o.next_due() is not None
    turns(o, now=40.0)
    assert o.departures.stop == []
    turns(o, now=41.0)
    assert o.departures.stop == [(1, 0), (1, 1)]
    assert o.gangs.released == 1
    o.accounts.capacity.freed()
    assert turns(o, now=60.0) == []  # nothing is placed while the rest is on its way out
    o.task_changed(1, TaskState.RELEASING, [0, 1], [0, 0])
    o.task_changed(1, TaskState.FAILED, [0, 1], [0, 0])
    assert not o.jobs[1].stopping
    o.validate()


def test_a_gang_that_is_another_node_pools_by_now_is_not_released() -> None:
    o = order()
    o.session.eligibility.pool = NodePool("pool", "")
    broken_gang(o)
    o.gangs.seconds = 30.0
    (turn,) = turns(o, now=11.0)
    o.outcome(answer(turn, OutcomeCode.INFEASIBLE, {"x": 4}))
    o.put_job(replace(o.jobs[1].job, labels=(("pool", "red"),)))
    assert o.jobs[1].reason is Reason.OTHER_SCHEDULER
    turns(o, now=41.0)
    assert o.departures.stop == []
    o.validate()


def test_a_released_gang_does_not_wait_for_a_member_whose_bind_was_refused() -> None:
    """It was binding when it was to be stopped: it will not end, it never began."""
    o = order()
    o.put_job(job(1, count=3, minimum=2))
    (turn,) = turns(o, now=10.0)
    o.outcome(placed(turn, count=2))
    (more,) = turns(o, now=10.0)
    o.outcome(placed(more))
    for task in (0, 1):
        o.task_changed(1, TaskState.LOST, [task], [0])
    turns(o, now=10.0)
    turns(o, now=11.0 + o.gangs.seconds)
    assert o.departures.stop == [(1, 2)]
    assert o.jobs[1].stopping == {2}
    o.task_changed(1, TaskState.PENDING, [2], [0])
    assert not o.jobs[1].stopping
    assert o.jobs[1].reason != HoldReason.GANG_RELEASED
    o.validate()


def test_a_task_whose_end_was_missed_is_not_waited_for() -> None:
    o = broken_gang(order())
    (turn,) = turns(o, now=11.0)
    o.outcome(answer(turn, OutcomeCode.INFEASIBLE, {"x": 4}))
    turns(o, now=11.0 + o.gangs.seconds)
    assert o.jobs[1].stopping == {0, 1}
    o.resolve(1, bytearray([TaskState.FAILED, TaskState.RUNNING, TaskState.PENDING]))
    assert o.jobs[1].stopping == {1}


def test_the_time_of_a_gang_begins_when_somebody_knows_the_time() -> None:
    """A successor learns of a refusal before its first step."""
    o = order()
    o.put_job(job(1, count=3), bytearray([TaskState.RUNNING, TaskState.RUNNING, TaskState.BINDING]))
    o.jobs[1].put_rows([0, 1, 2], [0, 0, 0])
    o.task_changed(1, TaskState.PENDING, [2], [0])
    turns(o, now=1000.0)
    turns(o, now=1029.0)
    assert o.departures.stop == []
    assert o.gangs.broken == 1


def test_a_successor_finds_the_gangs_that_are_short() -> None:
    """The cause does not matter: members may have failed before or after the takeover."""
    runs, waits, failed, lost, result = (
        TaskState.RUNNING,
        TaskState.PENDING,
        TaskState.FAILED,
        TaskState.LOST,
        TaskState.SUCCEEDED,
    )
    short = {
        1: ("a bind was refused", 3, [runs, runs, waits]),
        2: ("members were lost", 4, [runs, runs, lost, lost]),
        3: ("one failed before another was lost", 3, [runs, runs, failed, lost]),
        4: ("one failed, and two binds were refused", 4, [runs, failed, waits, waits]),
    }
    whole = {
        11: ("the failure explains it", 3, [runs, runs, failed, waits]),
        12: ("enough are left", 2, [runs, runs, lost, lost]),
        13: ("nothing is left", 2, [lost, lost]),
        14: ("all have ended", 3, [result, result, lost]),
    }
    o = order()
    for jid, (_, minimum, states) in (short | whole).items():
        o.put_job(job(jid, count=len(states), minimum=minimum), bytearray(states))
    o.find_broken()
    turns(o, now=1000.0)
    assert {jid for jid in o.jobs if jid in o.gangs} == set(short)


def test_a_failure_after_a_loss_breaks_the_gang_too() -> None:
    """A new leader, who sees the states alone, would say the same."""
    o = order()
    o.put_job(job(1, count=4, minimum=2), bytearray([TaskState.RUNNING] * 4))
    o.jobs[1].put_rows([0, 1, 2, 3], [0] * 4)
    o.task_changed(1, TaskState.LOST, [0], [0])
    o.task_changed(1, TaskState.FAILED, [1], [0])
    assert 1 not in o.gangs
    o.task_changed(1, TaskState.FAILED, [2], [0])
    assert 1 in o.gangs
    o.validate()


def test_a_gang_whose_turn_is_out_is_not_released_under_it() -> None:
    o = broken_gang(order())
    o.gangs.seconds = 30.0
    (turn,) = turns(o, now=11.0)
    turns(o, now=41.0)
    assert o.departures.stop == []
    o.outcome(answer(turn, OutcomeCode.INFEASIBLE, {"x": 4}))
    turns(o, now=43.0)
    assert o.departures.stop == [(1, 0), (1, 1)]


def test_a_member_that_fails_by_itself_is_not_our_business_a_lost_one_is() -> None:
    o = order(window=2)
    for jid in (1, 2):
        o.put_job(job(jid, count=2))
    for turn in turns(o):
        o.outcome(placed(turn))
    o.task_changed(1, TaskState.FAILED, [1], [0])
    o.task_changed(2, TaskState.LOST, [1], [0])
    turns(o, now=1.0)
    turns(o, now=o.gangs.seconds + 1)
    assert o.departures.stop == [(2, 0)]


def test_elastic_members_beyond_the_minimum_break_no_gang() -> None:
    o = order()
    o.put_job(job(1, count=3, minimum=2))
    (turn,) = turns(o)
    o.outcome(placed(turn, count=3))
    o.task_changed(1, TaskState.PENDING, [2], [0])
    assert (o.gangs.broken, 1 in o.gangs) == (0, False)


# --- what is told -----------------------------------------------------------------------------


def test_a_parked_jobs_message_names_its_state_and_the_last_refusal() -> None:
    core = coordinator(shards=1, jobs=1)
    state = core.order.jobs[0]
    state.refusals = ATTEMPTS - 1
    (send,) = sends(core)
    core.turns_returned(0, send.call, [placed(send.turns[0])])
    plan = BindPlan(
        ids=[],
        jids=[0],
        tasks=[0],
        rows=[0],
        requests=BindRequests(["0.0"], ["u0"], ["p"], ["n0"], [1.0]),
    )
    result = core.bind_answered(plan, BindAnswers([BindAnswer.REFUSED], [""], ["DiskFull"]), 1.0)
    core.recorded(result.items, [[0]])
    reason = why(core, state)
    assert reason is not None
    assert reason.reason is Reason.ATTEMPTS_EXHAUSTED
    assert "20 binds refused by the cluster, the last by node n0: DiskFull" in reason.message
    assert at_once(waiting_in_steps(core, 1.0, names=BASE)).tasks["backoff"] == 1
    core.validate()


def test_a_job_whose_adopted_tasks_ended_during_its_turn_is_done() -> None:
    """The cluster carried out a bind of before; the turn then finds nothing left to place."""
    one = order()
    one.put_job(job(1))
    (turn,) = turns(one)
    one.adopted(one.jobs[1], TaskState.RUNNING, [0], [0])
    one.task_changed(1, TaskState.SUCCEEDED, [0], [0])
    one.outcome(answer(turn, OutcomeCode.INFEASIBLE))
    assert one.jobs[1].status is SchedulingStatus.DONE
    one.validate()
