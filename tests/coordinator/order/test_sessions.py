"""Order's part in turns that are not flat: who gets one, what it carries, who waits for it."""

from __future__ import annotations

import itertools

import pytest

from coordinator.order.order import Order
from coordinator.order.starvation import AGAIN_LIMIT_SECONDS, OPEN
from shard_worker.dialects.open_session import open_session
from shared.codec.packed import replace
from shared.messages.messages import NOBODY, Outcome, OutcomeCode, Placement, TaskState, Turn
from shared.messages.turn_context import TURN_CONTEXT
from shared.model.constraints import Constraints, PodTerm, Requirement
from shared.model.model import Job, Role, TaskClass
from shared.model.storage import Budget
from shared.model.topology import Topology
from shared.policy.dialect import parse_policy
from shared.records.specs_jobs import decode_job
from shared.units.slots import CPU, PODS
from tests.builders.rows import job
from tests.coordinator.order.helpers import POLICY, answer, order, placed, turns

APP = (Requirement("app", "In", ("web",)),)
APART = Constraints(pod_terms=(PodTerm("kubernetes.io/hostname", APP, anti=True),))
WEB = (("app", "web"),)


def contending(actions: str = "allocate, backfill, preempt, reclaim", **options: object) -> Order:
    new_order = order(window=64, **options)  # type: ignore[arg-type]
    new_order.adopt(open_session(parse_policy({**POLICY, "actions": actions})))
    new_order.accounts.classes[2] = TaskClass(((CPU, 1000), (PODS, 1)), constraints=APART)
    new_order.accounts.classes[3] = TaskClass(((PODS, 1),))
    new_order.reachable.add(0)
    return new_order


def came(o: Order, turn: Turn, code: OutcomeCode, **more: object) -> None:
    o.outcome(Outcome(jid=turn.jid, code=code, placements=[], reasons={}, **more), shard=0)  # type: ignore[arg-type]


def filled(o: Order, *, more: int = 0, priority: int = 0) -> None:
    """A job that holds all 16 cores. ``more``: tasks that it could do without."""
    o.put_job(job(1, count=16 + more, minimum=1, priority=priority))
    now = 0.0
    while batch := turns(o, now):
        for turn in batch:
            o.outcome(placed(turn))
        now += 1.0
    for tix in range(16):
        o.task_changed(1, TaskState.BOUND, [tix], [0])
    o.task_changed(1, TaskState.RUNNING, list(range(16)), [0] * 16)


def labelled(job: Job) -> Job:
    return replace(job, roles=tuple(replace(role, labels=WEB) for role in job.roles))


def test_a_starving_job_gets_a_turn_of_each_action_then_waits_longer_each_time() -> None:
    o = contending(queues=("a", "b"))
    filled(o)
    o.put_job(job(2, count=2, queue="b", priority=5))
    now = 100.0
    observed: list[tuple[float, str]] = []
    while len(observed) < 6:
        for turn in turns(o, now):
            observed.append((now, turn.action))
            came(o, turn, OutcomeCode.INFEASIBLE)
        o.accounts.dirty = True  # something moved
        now += 0.05
    assert {action for _, action in observed} == {"reclaim"}  # nobody else is in its queue
    times = [at for at, _ in observed]
    pauses = [b - a for a, b in itertools.pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[-1] < AGAIN_LIMIT_SECONDS
    o.validate()


def test_preempt_is_tried_where_the_queue_has_others() -> None:
    o = contending()
    filled(o)
    o.put_job(job(2, count=2, priority=5))
    (turn,) = turns(o, 100.0)
    assert turn.action == "preempt"
    context = TURN_CONTEXT.decode(turn.world)
    assert [decode_job(one.spec).jid for one in context.jobs] == [2]  # workers know what runs
    assert not context.spared
    assert o.open == 1


def test_an_equal_job_with_its_minimum_does_not_hide_a_starving_one() -> None:
    """Both ask for one more task; the elastic job ranks higher, and stands first in their line."""
    o = contending()
    filled(o, more=2, priority=5)
    o.put_job(job(2))
    assert len(o.jobs[1].line.queue.lines) == 1
    (turn,) = turns(o, 100.0)
    assert (turn.jid, turn.action) == (2, "preempt")


def test_a_job_that_loses_its_minimum_starves() -> None:
    o = contending()
    filled(o)
    o.put_job(job(2, count=3, minimum=1))
    o.task_changed(2, TaskState.RUNNING, [0], [0])
    assert turns(o, 100.0) == []
    o.task_changed(2, TaskState.FAILED, [0], [0])
    (turn,) = turns(o, 200.0)
    assert (turn.jid, turn.action) == (2, "preempt")


def test_a_pausing_job_does_not_hide_an_equal_one() -> None:
    o = contending()
    filled(o)
    o.put_job(job(2, count=2, priority=9))
    o.put_job(job(3, count=2, priority=5))
    assert o.jobs[2].line is o.jobs[3].line
    o.contention.was_evicted(2, now=100.0)
    (turn,) = turns(o, 100.5)
    assert (turn.jid, turn.action) == (3, "preempt")
    (turn,) = turns(o, 101.5)
    assert (turn.jid, turn.action) == (2, "preempt")


def test_victims_that_a_budget_counts_come_with_the_turn() -> None:
    o = contending()
    filled(o)
    o.spanning.put_object(Budget("ns", "all", (), min_available="3"))
    o.put_job(job(2, count=2, priority=5))
    (turn,) = turns(o, 100.0)
    context = TURN_CONTEXT.decode(turn.world)
    assert [decode_job(one.spec).jid for one in context.jobs] == [2, 1]
    assert context.jobs[1].keys and context.versions
    assert set(context.jobs[1].states) == {TaskState.RUNNING}
    assert context.jobs[1].started
    assert o.open == 1


def test_the_number_of_open_evicting_turns_is_limited() -> None:
    o = contending()
    filled(o)
    for jid in range(2, 4 + OPEN):
        o.put_job(job(jid, count=2 + jid, priority=5))
    assert len(turns(o, 100.0)) == OPEN


def test_a_conflicted_preempt_is_retried_soon() -> None:
    o = contending()
    filled(o)
    o.put_job(job(2, count=2, priority=5))
    (turn,) = turns(o, 100.0)
    came(o, turn, OutcomeCode.CONFLICT)
    assert turns(o, 100.005) == []
    (again,) = turns(o, 100.05)
    assert again.action == "preempt"


def test_victims_of_a_budget_beyond_the_bound_are_left_out_and_spared() -> None:
    o = contending()
    filled(o)
    o.spanning.put_object(Budget("ns", "all", (), min_available="3"))
    o.contexts.limit = 10
    o.put_job(job(2, count=2, priority=5))
    (turn,) = turns(o, 100.0)
    context = TURN_CONTEXT.decode(turn.world)
    assert (len(context.jobs), context.spared, o.contexts.cut) == (1, [1], 1)


def test_a_job_that_is_ready_has_its_tasks_that_ask_for_nothing_backfilled() -> None:
    o = contending()
    roles = (Role("w", 0, 0, 2), Role("idle", 3, 2, 2))
    o.put_job(replace(job(2, minimum=4), roles=roles))
    (turn,) = turns(o, 1.0)
    assert (turn.action, turn.world) == ("allocate", b"")
    o.outcome(placed(turn))
    (fill,) = turns(o, 2.0)
    assert fill.action == "backfill"
    came(o, fill, OutcomeCode.INFEASIBLE)
    assert turns(o, 3.0) == []  # nothing was freed since
    o.accounts.capacity.freed()
    assert [turn.action for turn in turns(o, 4.0)] == ["backfill"]


def test_without_backfill_allocate_is_to_place_them_with_their_gang() -> None:
    o = contending("allocate")
    o.put_job(replace(job(2, minimum=3), roles=(Role("w", 0, 0, 2), Role("idle", 3, 2, 1))))
    (turn,) = turns(o, 1.0)
    assert [(run.cid, run.tasks) for run in turn.runs] == [(3, [2]), (0, [0, 1])]
    assert [(group.minimum, group.held) for group in turn.groups] == [(3, 0)]
    came(o, turn, OutcomeCode.INFEASIBLE)
    assert not any(o.jobs[2].states)


@pytest.mark.parametrize("first", ["allocate", "allocate, backfill"])
def test_best_effort_tasks_follow_a_policy_change(first: str) -> None:
    """Also of a gang that runs, and of one that could get no turn before."""
    then = {"allocate": "allocate, backfill"}.get(first, "allocate")
    o = contending(first)
    roles = (Role("w", 0, 0, 2), Role("idle", 3, 2, 1))
    o.put_job(replace(job(1, minimum=2), roles=roles), bytearray([TaskState.RUNNING] * 2 + [0]))
    o.put_job(replace(job(2), roles=(Role("idle", 3, 0, 1),)))
    o.adopt(open_session(parse_policy({**POLICY, "actions": then})))
    o.validate()
    results = {(turn.jid, turn.action): len(turn.runs) for turn in turns(o, 1.0)}
    filled = then != "allocate"
    assert results == {
        (jid, "backfill" if filled else "allocate"): int(not filled) for jid in (1, 2)
    }


def test_a_topology_job_is_allocated_by_a_session() -> None:
    o = contending()
    o.put_job(replace(job(2, count=2), topology=Topology(hard=True, highest_tier=1)))
    (turn,) = turns(o, 1.0)
    assert (turn.action, bool(turn.world)) == ("allocate", True)


def test_members_of_one_term_are_placed_one_turn_after_the_other() -> None:
    o = contending()
    o.put_job(labelled(job(2, cid=2)))
    o.put_job(labelled(job(3, cid=2)))
    o.put_job(labelled(job(4)))  # bound by no rule of its own
    o.put_job(job(5))
    first, flat = turns(o, 1.0)
    assert (first.jid, flat.jid, flat.world) == (2, 5, b"")
    context = TURN_CONTEXT.decode(first.world)
    assert [decode_job(one.spec).jid for one in context.jobs] == [2, 3, 4]
    (key,) = context.versions
    came(o, first, OutcomeCode.PLACED, moved={key: 1})
    second = next(turn for turn in turns(o, 2.0) if turn.jid != 2)
    assert TURN_CONTEXT.decode(second.world).versions == {key: 1}


def test_after_a_takeover_a_deleted_job_still_keeps_others_off_its_nodes() -> None:
    """Until its pods have ended: who takes over learns of it as of a job that leaves."""
    o = contending()
    o.put_leaving(labelled(job(2, cid=2)), bytearray([TaskState.RUNNING]))
    o.put_job(labelled(job(4)))
    (turn,) = turns(o, 1.0)
    assert turn.world
    assert [decode_job(one.spec).jid for one in TURN_CONTEXT.decode(turn.world).jobs] == [4, 2]


def test_a_rule_that_comes_waits_for_the_flat_turns_that_are_out() -> None:
    o = contending()
    o.put_job(labelled(job(4)))
    (flat,) = turns(o, 1.0)
    assert flat.world == b""
    o.put_job(labelled(job(2, cid=2)))
    assert turns(o, 2.0) == []
    o.outcome(placed(flat, row=3))
    (turn,) = turns(o, 3.0)
    other = TURN_CONTEXT.decode(turn.world).jobs[1]
    assert other.rows == o.jobs[4].rows.tobytes()


def test_a_disruption_budget_bounds_evictions_of_its_pods() -> None:
    o = contending()
    o.spanning.put_object(Budget("ns", "web", APP, min_available="3"))
    filled(o)
    o.put_job(labelled(job(7, count=1)))
    o.put_job(job(2, count=2, priority=5))
    assert o.spanning.keys(7) == ["budget/ns/web"]
    assert not o.slow(o.jobs[7])
    o.spanning.drop_object(Budget("ns", "web"))
    assert o.spanning.keys(7) == []


def test_a_lost_turn_takes_the_versions_from_the_ledger() -> None:
    o = contending()
    o.put_job(labelled(job(2, cid=2)))
    (turn,) = turns(o, 1.0)
    (key,) = TURN_CONTEXT.decode(turn.world).versions
    assert o.spanning.out([2]) == [key]
    o.know([2], {key: 4}, unheard=())
    o.resolve(2, bytearray(1))
    o.nominations_released([2])
    (again,) = turns(o, 2.0)
    assert TURN_CONTEXT.decode(again.world).versions == {key: 4}


@pytest.mark.parametrize("evicted", [True, False])
def test_a_lost_turns_evictions_hold_the_budget_until_reported(evicted: bool) -> None:
    """Its version is the ledger's, and the books count the victims as healthy till then."""
    o = contending()
    spanning, key = o.spanning, "budget/ns/web"
    spanning.put_object(Budget("ns", "web", APP, min_available="3"))
    o.put_job(labelled(job(7, count=1)))
    o.put_job(labelled(job(8, count=1)))
    spanning.take(7, [key])
    assert spanning.counted_by_budgets([7]) == [7, 8]
    o.know([7], {key: 4}, unheard={7} if evicted else ())
    o.came_back(7)
    assert spanning.versions[key] == 4
    assert spanning.touched([key]) is evicted
    o.go_on(spanning.evictions_reported(7))
    assert not spanning.touched([key])


@pytest.mark.parametrize("beside", [[], [7]])
def test_a_lost_shuffle_keeps_its_budgets_until_its_evictions_are_reported(
    beside: list[int],
) -> None:
    """Also where that job's own turn was lost with it."""
    spanning, key = (o := contending()).spanning, "budget/ns/web"
    spanning.take(NOBODY, [key])
    for jid in beside:
        spanning.take(jid, [])
    o.know([NOBODY, *beside], {key: 4}, unheard={7})
    assert NOBODY not in spanning.out_now and spanning.touched([key])
    o.go_on(spanning.evictions_reported(7))
    assert not spanning.touched([key])


def test_gates_keep_members_from_being_placed() -> None:
    o = contending()
    o.put_job(replace(job(2, count=2), roles=(Role("w", 0, 0, 2, gated=True),)))
    assert turns(o, 1.0) == []
    assert o.pending_reasons() == {"Gated": 1}


def test_a_blocked_backfill_is_requested_once_and_opened_later() -> None:
    """It was asked for again and again within one step, for ever."""
    o = contending()
    roles = (Role("w", 0, 0, 2, labels=WEB), Role("idle", 3, 2, 1, labels=WEB))
    o.put_job(replace(job(3, minimum=3), roles=roles))
    (first,) = turns(o, 1.0)
    o.outcome(placed(first))
    o.put_job(labelled(job(4, cid=2)))  # its term takes the other's tasks
    written = o.contexts.of
    calls = itertools.count()

    def limited(*args: object, **more: object) -> tuple[bytes, list[str]]:
        assert next(calls) < 100, "the same is asked for again and again"
        return written(*args, **more)  # type: ignore[arg-type]

    o.contexts.of = limited  # type: ignore[method-assign]
    actions = []
    for now in range(2, 9):
        for turn in turns(o, float(now)):
            actions.append(turn.action)
            fails = not turn.runs  # of the one that asks for nothing
            o.outcome(answer(turn, OutcomeCode.INFEASIBLE) if fails else placed(turn, row=now % 4))
    assert actions.count("backfill") == 1
    o.validate()


def test_a_best_effort_task_is_placed_again_after_a_refused_bind() -> None:
    o = contending()
    roles = (Role("w", 0, 0, 1), Role("idle", 3, 1, 1))
    o.put_job(replace(job(2, minimum=2), roles=roles))
    (turn,) = turns(o, 1.0)
    o.outcome(placed(turn))
    (fill,) = turns(o, 2.0)
    assert fill.action == "backfill"
    placement = Placement(cid=3, kind=0, tasks=[1], rows=[0], levels=[1])
    o.outcome(Outcome(jid=2, code=OutcomeCode.PLACED, placements=[placement], reasons={}))
    o.accounts.capacity.freed()
    assert turns(o, 3.0) == []
    o.task_changed(2, TaskState.PENDING, [1], [0])
    assert [turn.action for turn in turns(o, 60.0)] == ["backfill"]


def waits_for_backfill(o: Order, *, since: float = 1.0) -> Job:
    """A gang of three that run and one that asks for nothing, which is all that is left to place;
    its backfill found no node."""
    roles = (Role("w", 0, 0, 3), Role("idle", 3, 3, 1))
    gang = replace(job(2, minimum=4), roles=roles)
    o.put_job(gang)
    (turn,) = turns(o, since)
    o.outcome(placed(turn))
    (fill,) = turns(o, since)
    assert fill.action == "backfill"
    came(o, fill, OutcomeCode.INFEASIBLE)
    return gang


def test_a_refused_task_is_placed_again_while_its_gang_awaits_backfill() -> None:
    """The job waited for backfill alone, which fills no gang that lacks a member: it stood for
    ever. Members that have succeeded are members still, and nobody is left to be released."""
    o = contending()
    waits_for_backfill(o)
    o.task_changed(2, TaskState.SUCCEEDED, [0, 1], [0, 0])
    o.task_changed(2, TaskState.PENDING, [2], [0])
    assert turns(o, 1.0) == []  # not at once: the same node may refuse it again
    (again,) = turns(o, 2.5)
    assert (again.action, [run.tasks for run in again.runs]) == ("allocate", [[2]])
    o.outcome(placed(again))
    assert [turn.action for turn in turns(o, 3.0)] == ["backfill"]
    o.validate()


def test_an_evicted_gang_is_placed_again_when_its_last_member_needs_backfill() -> None:
    o = contending()
    waits_for_backfill(o)
    o.task_changed(2, TaskState.RUNNING, [0, 1, 2], [0] * 3)
    o.evict(o.jobs[2], [0, 1, 2], [0] * 3)
    assert turns(o, 2.0) == []
    for tix in range(3):
        o.task_changed(2, TaskState.PENDING, [tix], [0])
    (again,) = turns(o, 3.0)
    assert (again.action, [run.tasks for run in again.runs]) == ("allocate", [[0, 1, 2]])
    o.validate()


def test_a_refused_task_is_placed_again_beside_gated_ones() -> None:
    """The job waited for those gates, and nobody asked what else it has to place."""
    o = contending()
    o.put_job(
        replace(job(2, minimum=1), roles=(Role("w", 0, 0, 1), Role("shut", 0, 1, 1, gated=True)))
    )
    (turn,) = turns(o, 1.0)
    o.outcome(placed(turn))
    assert o.pending_reasons() == {"Gated": 1}
    o.task_changed(2, TaskState.PENDING, [0], [0])
    assert turns(o, 1.0) == []  # not at once, as above
    (again,) = turns(o, 2.5)
    assert [run.tasks for run in again.runs] == [[0]]
    o.outcome(placed(again))
    assert o.pending_reasons() == {"Gated": 1}
    o.validate()


def test_a_refused_best_effort_task_is_placed_again_beside_gated_ones() -> None:
    """It was not once its bind was refused: backfill had taken the job off its list, and nothing
    else happened to the job."""
    roles = (Role("w", 0, 0, 1), Role("idle", 3, 1, 1), Role("shut", 0, 2, 1, gated=True))
    o = contending()
    o.put_job(replace(job(5, count=3, minimum=1), roles=roles))
    (turn,) = turns(o, 1.0)
    o.outcome(placed(turn))
    (fill,) = turns(o, 2.0)
    placement = Placement(cid=3, kind=0, tasks=[1], rows=[0], levels=[1])
    o.outcome(Outcome(jid=5, code=OutcomeCode.PLACED, placements=[placement], reasons={}))
    o.accounts.capacity.freed()
    assert (fill.action, turns(o, 3.0)) == ("backfill", [])
    o.task_changed(5, TaskState.PENDING, [1], [0])
    assert [turn.action for turn in turns(o, 60.0)] == ["backfill"]


def test_a_job_that_was_let_in_is_not_asked_again_when_it_changes() -> None:
    """It stood among those that wait, with its turn out: let in a second time, it got another turn,
    and the first one was never counted as back."""
    o = contending("enqueue, allocate")
    gate = replace(job(2, count=2), phase="Pending", min_resources=((CPU, 2000),))
    o.put_job(gate)
    (turn,) = turns(o, 1.0)
    o.put_job(replace(gate, labels=WEB, spec=1))
    assert not o.admission.waiting
    assert turns(o, 5.0) == []
    assert o.open == 1
    o.validate()
    came(o, turn, OutcomeCode.CONFLICT)
    assert (o.open, len(turns(o, 6.0))) == (0, 1)


def test_a_job_that_ended_while_it_waited_for_entry_is_not_let_in() -> None:
    """Its queue would have kept room for it for ever."""
    o = contending("enqueue, allocate")
    o.put_job(replace(job(2, count=2), phase="Pending", min_resources=((CPU, 2000),)))
    assert o.admission.waiting
    o.drop_members([(2, 0), (2, 1)])
    assert turns(o, 1.0) == []
    assert not o.admission.waiting
    o.accounts.begin(2.0)
    o.validate()


def test_a_best_effort_task_is_placed_beside_pending_and_gated_ones() -> None:
    """It was not, where no worker was ever asked about the others."""
    roles = (Role("w", 0, 0, 1), Role("idle", 3, 1, 1), Role("shut", 0, 2, 1, gated=True))
    o = contending()
    o.put_job(replace(job(5, count=3, minimum=1), roles=roles))
    actions = []
    for now in range(1, 5):
        for turn in turns(o, float(now)):
            actions.append(turn.action)
            fill = turn.action == "backfill"
            o.outcome(answer(turn, OutcomeCode.INFEASIBLE) if fill else placed(turn))
    assert actions == ["allocate", "backfill"]
    o.validate()
