"""Placing one turn: levels, modes, gangs, nominations, and what is said when nothing fits."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from shard_worker.framework.extension_points import JOB_PIPELINED, JOB_READY, Point
from shard_worker.framework.session import Session
from shard_worker.turns.flat_turn import TOO_FEW, FlatTurns, PlacedTurn, place
from shard_worker.view.mode import Mode
from shard_worker.view.node_reasons import PARTLY
from shard_worker.view.view import View
from shared.codec.packed import replace
from shared.messages.messages import ALLOCATE, NOMINATE, Group, Level, Rows, TaskRun, Turn
from shared.model.model import TaskClass
from shared.policy.model import PluginOption
from shared.units.slots import CPU, PODS
from shared.units.things import NO_FREE_PORTS, port_name
from tests.examples import examples
from tests.shard_worker.placement.support import (
    classes_of,
    cls,
    cpus,
    nominate,
    record,
    session_of,
    turn,
    view_of,
)

IDLE = record(allocatable=cpus(1))
FULL = record(allocatable=cpus(1), used={CPU: 1000})
LEAVING = record(allocatable=cpus(1), used={CPU: 1000}, releasing={CPU: 1000})
PROMISED = record(allocatable=cpus(1), nominated={CPU: 1000, PODS: 1})
RECORDS = (IDLE, IDLE, FULL, LEAVING, PROMISED)


def do(
    view: View, request_turn: Turn, *, session: Session | None = None, mode: Mode = Mode.SOFT
) -> PlacedTurn:
    """Place a turn; the view must be as before unless something was placed."""
    before = view.columns.image()
    session = session or session_of()
    placed = place(
        request_turn, session=session, view=view, classes=classes_of(view, session, mode=mode)
    )
    if not placed.core:
        assert view.columns.image() == before
    return placed


def levels(placed: PlacedTurn) -> list[int]:
    return [int(p.level) for p in placed.core]


def rows(placed: PlacedTurn) -> list[int]:
    return [p.row for p in placed.core]


# Row 0 and 1 are own, 2 and 3 are another shard's.
GRADIENT = [
    ("idle own first", [IDLE, LEAVING, IDLE, LEAVING], 0, Level.IDLE_OWN),
    ("idle other before future own", [FULL, LEAVING, IDLE, LEAVING], 2, Level.IDLE_OTHER),
    ("future own before future other", [FULL, LEAVING, FULL, LEAVING], 1, Level.FUTURE_OWN),
    ("future other last", [FULL, FULL, FULL, LEAVING], 3, Level.FUTURE_OTHER),
]


@pytest.mark.parametrize(("name", "records", "row", "level"), GRADIENT)
def test_gradient_in_soft_mode(name: str, records: list[bytes], row: int, level: Level) -> None:
    placed = do(view_of(records, own=[0, 1]), turn(1))
    assert (rows(placed), levels(placed)) == ([row], [level])
    kinds = [p.kind for p in placed.core]
    assert kinds == [ALLOCATE if level <= Level.IDLE_OTHER else NOMINATE]


def test_mode_none_treats_every_node_as_own() -> None:
    placed = do(view_of([FULL, LEAVING, IDLE, FULL], own=[0, 1]), turn(1), mode=Mode.NONE)
    assert (rows(placed), levels(placed)) == ([2], [Level.IDLE_OWN])
    placed = do(view_of([FULL, FULL, FULL, LEAVING], own=[0, 1]), turn(1), mode=Mode.NONE)
    assert (rows(placed), levels(placed)) == ([3], [Level.FUTURE_OWN])


def test_mode_hard_never_leaves_the_shard() -> None:
    view = view_of([FULL, LEAVING, IDLE, IDLE], own=[0, 1])
    placed = do(view, turn(1), mode=Mode.HARD)
    assert (rows(placed), levels(placed)) == ([1], [Level.FUTURE_OWN])
    placed = do(view_of([FULL, FULL, IDLE, IDLE], own=[0, 1]), turn(1), mode=Mode.HARD)
    assert placed.core == []
    assert placed.reasons == {"node isn't in scheduler node shard": 2, "Insufficient cpu": 2}


def test_a_gang_spans_shards() -> None:
    view = view_of([record(allocatable=cpus(2))] * 3, own=[0])
    placed = do(view, turn(5))
    assert levels(placed) == [1, 1, 2, 2, 2]
    assert view.column("used", CPU).sum() == 5000


def test_an_infeasible_gang_is_not_tried() -> None:
    view = view_of([record(allocatable=cpus(2)), record(allocatable=cpus(4)), FULL])
    changes = view.changes.end
    placed = do(view, turn(7))
    assert view.changes.end == changes, "counting must be enough"
    assert placed.core == []
    assert placed.failed_role == "worker"
    assert placed.reasons == {PARTLY: 2, "Insufficient cpu": 1}


def test_a_gang_that_counting_cannot_refuse_is_rolled_back() -> None:
    classes = {0: cls(1), 1: cls(2)}
    view = view_of([record(allocatable=cpus(2))], classes=classes)
    request_turn = replace(
        turn(1),
        groups=[Group(-1, 2)],
        runs=[TaskRun(0, 0, "a", [0]), TaskRun(1, 0, "b", [1])],
        total=2,
    )
    placed = do(view, request_turn)
    assert placed.core == []
    assert placed.failed_role == "b"
    assert placed.reasons == {"Insufficient cpu": 1}
    assert view.columns.settled


def test_a_pipelined_gang_takes_nothing_now() -> None:
    view = view_of([IDLE, LEAVING], own=[0])
    placed = do(view, turn(2))
    assert [p.kind for p in placed.core] == [NOMINATE, NOMINATE]
    assert levels(placed) == [Level.FUTURE_OWN, Level.FUTURE_OTHER]
    assert view.column("used", CPU).tolist() == [0, 1000]
    assert view.column("nominated", CPU).tolist() == [1000, 1000]
    placed.statement.rollback()
    assert view.columns.settled


def test_a_ready_core_may_hold_nominations() -> None:
    classes = {0: cls(1), 1: TaskClass(requests=((CPU, 100), (PODS, 1)))}
    view = view_of([LEAVING, record(allocatable={CPU: 900, PODS: 110})], classes=classes)
    request_turn = replace(
        turn(1),
        groups=[Group(-1, 1)],
        runs=[TaskRun(0, 0, "big", [0]), TaskRun(1, 0, "small", [1, 2])],
        total=3,
    )
    placed = do(view, request_turn)
    assert [(p.kind, p.task) for p in placed.core] == [(NOMINATE, 0), (ALLOCATE, 1)]


def test_the_loop_stops_when_the_job_is_ready() -> None:
    view = view_of([record(allocatable=cpus(8))])
    assert [p.task for p in do(view, turn(6, minimum=4)).core] == [0, 1, 2, 3]


@pytest.mark.parametrize(("tail", "expected"), [(0, 0), (1, 1), (2, 2), (50, 4)])
def test_elastic_tasks_follow_a_gang(tail: int, expected: int) -> None:
    view = view_of([record(allocatable=cpus(6))])
    placed = do(view, turn(9, minimum=2, tail=tail))
    assert (len(placed.core), len(placed.tail)) == (2, expected)


@pytest.mark.parametrize(("tail", "expected"), [(0, 1), (1, 1), (4, 4)])
def test_a_ready_job_gets_one_elastic_task_and_its_tail(tail: int, expected: int) -> None:
    view = view_of([record(allocatable=cpus(8))])
    placed = do(view, turn(6, minimum=2, held=2, tail=tail))
    assert len(placed.core) == 1
    assert len(placed.core) + len(placed.tail) == expected


def test_without_a_gang_rule_one_task_is_the_core() -> None:
    view = view_of([record(allocatable=cpus(8))])
    placed = do(view, turn(4, tail=3), session=session_of(gang=False))
    assert ([p.task for p in placed.core], [p.task for p in placed.tail]) == ([0], [1, 2])


def test_the_tail_takes_idle_capacity_only() -> None:
    view = view_of([record(allocatable=cpus(2)), LEAVING])
    placed = do(view, turn(6, minimum=1, tail=5))
    assert [p.kind for p in (*placed.core, *placed.tail)] == [ALLOCATE, ALLOCATE]


# --- going on after a failure (NeedContinueAllocating) ----------------------------------------


def roles(*, minimum: int, of_a: int, of_b: int, a: int, b: int, c: int = 0) -> Turn:
    """Role a asks for 3 cores, b and c for 1; groups 1 and 2 are a's and b's own minima."""
    listed = [TaskRun(1, 1, "a", list(range(a))), TaskRun(0, 2, "b", list(range(a, a + b)))]
    if c:
        listed.append(TaskRun(0, 0, "c", list(range(a + b, a + b + c))))
    return replace(
        turn(1),
        groups=[Group(-1, minimum), Group(0, of_a), Group(0, of_b)],
        runs=listed,
        total=a + b + c,
    )


TWO = {0: cls(1), 1: cls(3)}


def test_the_failure_of_a_needed_role_ends_the_turn() -> None:
    view = view_of([record(allocatable=cpus(2))] * 4, classes=TWO)
    placed = do(view, roles(minimum=3, of_a=1, of_b=1, a=2, b=2, c=2))
    assert placed.core == []
    assert placed.failed_role == "a"
    assert sum(placed.reasons.values()) == 4


def test_other_roles_go_on_when_the_failed_one_has_its_minimum() -> None:
    view = view_of([record(allocatable=cpus(3)), record(allocatable=cpus(2))], classes=TWO)
    placed = do(view, roles(minimum=3, of_a=1, of_b=1, a=2, b=3))
    assert [(p.cid, p.task) for p in placed.core] == [(1, 0), (0, 2), (0, 3)]


def test_a_turn_of_kai_ends_at_the_first_task_without_a_node() -> None:
    session = session_of()
    session.flat.goes_on = False
    view = view_of([record(allocatable=cpus(2))] * 2, classes=TWO)
    enough = roles(minimum=2, of_a=0, of_b=0, a=1, b=2)
    placed = do(view, enough, session=session)
    assert placed.core == []
    assert placed.failed_role == "a"


def test_roles_without_effect_go_on_while_the_rest_suffices() -> None:
    view = view_of([record(allocatable=cpus(2))] * 2, classes=TWO)
    enough = roles(minimum=2, of_a=0, of_b=0, a=1, b=2)
    assert [p.task for p in do(view, enough).core] == [1, 2]


def take_over(session: Session, point: Point[Any, Any]) -> None:
    """The gang rule of a point."""
    (rule,) = session_of().rules(point)
    with session.speaking(0, PluginOption("gang")):
        session.add(point, rule.fn, scalar=rule.scalar)


def test_a_failed_gang_of_all_tasks_stops_at_once() -> None:
    session = session_of(gang=False)
    take_over(session, JOB_READY)
    view = view_of([record(allocatable=cpus(2))], classes=TWO)
    request_turn = replace(
        turn(1),
        groups=[Group(-1, 2)],
        runs=[TaskRun(1, 0, "a", [0]), TaskRun(0, 0, "b", [1])],
        total=2,
    )
    assert do(view, request_turn, session=session).core == []


def test_a_gang_with_too_few_tasks_says_so() -> None:
    session = session_of(gang=False)
    take_over(session, JOB_READY)
    take_over(session, JOB_PIPELINED)
    view = view_of([record(allocatable=cpus(8))])
    placed = do(view, turn(2, minimum=3, total=3), session=session)
    assert placed.core == []
    assert placed.reasons == {TOO_FEW: 1}


def test_tasks_that_ask_for_nothing_are_placed_where_a_turn_names_them() -> None:
    """Under a policy without backfill: with the rest of their gang, or nothing of it is."""
    classes = {0: TaskClass(requests=((PODS, 1),)), 1: cls(1)}
    request_turn = replace(
        turn(1),
        groups=[Group(-1, 3)],
        runs=[TaskRun(0, 0, "idle", [0]), TaskRun(1, 0, "busy", [1, 2])],
        total=3,
    )
    view = view_of([record(allocatable=cpus(1))] * 2, classes=classes)
    assert sorted(p.task for p in do(view, request_turn).core) == [0, 1, 2]
    view = view_of([record(allocatable=cpus(1))], classes=classes)
    assert do(view, request_turn).core == []


# --- nominations ------------------------------------------------------------------------------


def waiting(*, priority: int = 0) -> View:
    """Row 0: one idle core that job 9 holds by nomination; row 1: full."""
    held = record(allocatable=cpus(1), nominated={CPU: 1000, PODS: 1})
    view = view_of([held, FULL])
    nominate(view, 9, [0], priority=priority)
    return view


def test_another_jobs_nomination_is_respected() -> None:
    placed = do(waiting(priority=5), turn(1, priority=5))
    assert placed.core == []
    assert placed.reasons == {"Insufficient cpu": 2}


def test_a_lower_nomination_is_displaced() -> None:
    view = waiting(priority=4)
    placed = do(view, turn(1, priority=5))
    assert (rows(placed), levels(placed), placed.displaced) == ([0], [1], [9])
    assert view.column("nominated", CPU).tolist() == [0, 0]


def test_only_pods_in_the_way_are_displaced() -> None:
    held = record(allocatable=cpus(1), nominated={CPU: 1000, PODS: 1})
    view = view_of([held, held, held])
    for jid, priority in ((7, 1), (8, 3), (9, 2)):
        nominate(view, jid, [jid - 7], priority=priority)
    placed = do(view, turn(2, priority=3))
    assert sorted(rows(placed)) == [0, 2]
    assert sorted(placed.displaced) == [7, 9]
    assert view.column("nominated", CPU).tolist() == [0, 1000, 0]


def test_free_nodes_come_before_displacing() -> None:
    view = view_of([record(allocatable=cpus(9), nominated={CPU: 9000}), IDLE])
    nominate(view, 9, [0], priority=0)
    placed = do(view, turn(1, priority=5))
    assert (rows(placed), placed.displaced) == ([1], [])


def test_displacing_is_not_kept_where_it_does_not_help() -> None:
    view = waiting(priority=0)
    placed = do(view, turn(3, priority=5))
    assert (placed.core, placed.displaced) == ([], [])
    assert view.columns.settled


def test_a_jobs_own_nomination_is_room_for_it_and_tried_first() -> None:
    held = record(allocatable=cpus(1), nominated={CPU: 1000, PODS: 1})
    view = view_of([record(allocatable=cpus(8)), held, IDLE])
    nominate(view, 1, [1], priority=0)
    placed = do(view, turn(1, nominated={0: 1}))
    assert (rows(placed), levels(placed)) == ([1], [1])
    assert view.column("nominated", CPU).tolist() == [0, 0, 0]


def test_a_nominated_node_that_no_longer_fits_is_passed_over() -> None:
    view = view_of([IDLE, FULL])
    assert rows(do(view, turn(1, nominated={0: 1}))) == [0]
    assert rows(do(view_of([IDLE]), turn(1, nominated={0: 77}))) == [0]


def test_a_nominated_node_of_another_shard_is_out_of_reach_in_hard_mode() -> None:
    view = view_of([IDLE, IDLE], own=[0])
    assert rows(do(view, turn(1, nominated={0: 1}), mode=Mode.HARD)) == [0]
    view = view_of([IDLE, IDLE], own=[0])
    assert levels(do(view, turn(1, nominated={0: 1}))) == [Level.IDLE_OTHER]


# --- what nodes have --------------------------------------------------------------------------


def test_a_host_port_is_taken_once_per_node() -> None:
    wants = TaskClass(requests=((CPU, 100), (PODS, 1)), things=((port_name("TCP", 80), (1,)),))
    view = view_of([record(allocatable=cpus(8))] * 2, classes={0: wants})
    placed = do(view, turn(3, minimum=1, tail=9, total=9))
    assert sorted(p.row for p in (*placed.core, *placed.tail)) == [0, 1]
    assert do(view, turn(1, jid=2)).reasons == {NO_FREE_PORTS: 2}


def test_amounts_near_the_limit_fit_exactly() -> None:
    top = 2**53 - 1
    wants = TaskClass(requests=((0, top), (PODS, 1)))
    offers = [{0: top, 1: 1, PODS: 9}, {0: top - 1, 1: 1, PODS: 9}]
    view = view_of([record(allocatable=o) for o in offers], classes={0: wants})
    placed = do(view, turn(2, minimum=1, tail=1))
    assert rows(placed) == [0]
    assert placed.tail == []
    used = record(version=2, allocatable=offers[0], used={0: 1})
    placed.statement.rollback()
    view.set_rows(Rows([0], [used]))
    assert do(view, turn(1)).reasons == {"Insufficient cpu": 2}


def drawn_turn(draw: Random) -> Turn:
    """Mostly of a job of one task, and like others of those; job 9 holds a promise."""
    tasks = draw.choice([1] * 9 + [2])
    return turn(
        tasks,
        jid=draw.choice([1, 2, 3, 9]),
        cid=draw.choice([0] * 9 + [1]),
        minimum=tasks + draw.choice([0] * 9 + [1]),
        priority=draw.choice([0, 5]),
        tail=draw.choice([0] * 9 + [1]),
        nominated=draw.choice([{}] * 9 + [{0: 1}]),
    )


@pytest.mark.parametrize("mode", list(Mode))
def test_like_turns_are_placed_as_if_each_came_alone(mode: Mode) -> None:
    """A third of the statements are refused before the next turn comes."""
    for seed in range(examples(400)):
        draw, session = Random(seed), session_of()
        records = draw.choices(RECORDS, k=10)
        together, apart = (
            view_of(records, own=range(5), classes={0: cls(), 1: cls(2)}) for _ in range(2)
        )
        for view in (together, apart):
            promised = [row for row, each in enumerate(records) if each is PROMISED]
            nominate(view, 9, promised, priority=1)
        compiled = classes_of(together, session, mode=mode)
        flat = FlatTurns(session=session, view=together, classes=compiled)
        classes = classes_of(apart, session, mode=mode)
        for number in range(12):
            each = drawn_turn(draw)
            left = flat.place(each)
            right = place(each, session=session, view=apart, classes=classes)
            for name in (
                "core",
                "tail",
                "displaced",
                "reasons",
                "failed_role",
                "fitting",
                "undone",
            ):
                assert getattr(left, name) == getattr(right, name), (seed, number, name)
            if draw.random() < 1 / 3:
                left.statement.rollback()
                right.statement.rollback()
            assert together.columns.image() == apart.columns.image(), (seed, number)
