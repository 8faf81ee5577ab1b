"""Another policy under a running Order: who waits goes by the new rules, what is open stands."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.jobs.state import SchedulingStatus
from coordinator.order.order import Order
from shard_worker.dialects.open_session import open_session
from shard_worker.framework.session import Session
from shared.messages.messages import OutcomeCode, TaskState
from shared.policy.dialect import parse_policy
from tests.builders.rows import job
from tests.coordinator.order.helpers import answer, order, placed, turns


def session(*plugins: str) -> Session:
    tiers = [{"plugins": [{"name": name} for name in plugins]}]
    return open_session(parse_policy({"actions": "allocate", "tiers": tiers}))


def given_to(order: Order) -> list[int]:
    return [turn.jid for turn in turns(order)]


def test_lines_are_in_the_new_order() -> None:
    new_order = order(window=10)
    for jid in range(4):
        new_order.put_job(job(jid, priority=jid, created=float(jid)))
    new_order.adopt(session("gang"))  # nobody asks for priorities any more
    assert given_to(new_order) == [0, 1, 2, 3]
    new_order.validate()


def test_without_it_priorities_decide() -> None:
    new_order = order(nodes=4, window=10)
    for jid in range(4):
        new_order.put_job(job(jid, priority=jid, created=float(jid)))
    assert given_to(new_order) == [3, 2, 1, 0]


def test_an_open_turn_comes_back_as_it_fell() -> None:
    new_order = order(window=1)
    new_order.put_job(job(1, count=2))
    new_order.put_job(job(2))
    (first,) = turns(new_order)
    new_order.adopt(session("priority", "gang"))
    assert new_order.jobs[1].status is SchedulingStatus.OPEN
    new_order.outcome(placed(first))
    assert new_order.accounts.tasks[TaskState.BINDING] == 2
    assert given_to(new_order) == [2]
    new_order.validate()


def test_an_infeasible_line_is_tried_again() -> None:
    new_order = order(window=1)
    new_order.put_job(job(1))
    (turn,) = turns(new_order)
    new_order.outcome(answer(turn, OutcomeCode.INFEASIBLE, {"node(s) had untolerated taints": 4}))
    assert turns(new_order, now=100.0) == []
    new_order.adopt(session("gang"))
    assert new_order.jobs[1].reason == "NoMatchingNodes"
    assert [turn.jid for turn in turns(new_order, now=100.0)] == [1]


def test_an_infeasible_outcome_of_the_old_policy_is_retried() -> None:
    new_order = order(window=1)
    new_order.put_job(job(1))
    (turn,) = turns(new_order)
    new_order.adopt(session("gang"))
    new_order.outcome(answer(turn, OutcomeCode.INFEASIBLE, {"node(s) had untolerated taints": 4}))
    assert turns(new_order, now=100.0) == []
    new_order.look_again()
    assert [turn.jid for turn in turns(new_order, now=100.0)] == [1]


@pytest.mark.parametrize("change", [lambda made: made.adopt(session("gang")), Order.look_again])
def test_in_hard_mode_earlier_answers_of_a_shard_do_not_count(
    change: Callable[[Order], None],
) -> None:
    made = order(window=1, walls=True)
    made.reachable |= {0, 1}
    made.put_job(job(1))
    for shard, goes_on in ((0, True), (1, True), (0, False)):
        (turn,) = turns(made, now=100.0)
        made.outcome(answer(turn, OutcomeCode.INFEASIBLE), shard=shard)
        if shard == 0 and goes_on:
            change(made)
    assert turns(made, now=100.0) == []


def test_validity_is_judged_anew_both_ways() -> None:
    new_order = order(window=10)
    new_order.put_job(job(1, count=1, minimum=2))
    new_order.put_job(job(2))
    assert new_order.pending_reasons() == {"NotEnoughTasks": 1, "PendingEvaluation": 1}
    new_order.adopt(session("priority"))  # without gang nothing is invalid
    assert new_order.pending_reasons() == {"PendingEvaluation": 2}
    new_order.adopt(session("priority", "gang"))
    assert new_order.pending_reasons() == {"NotEnoughTasks": 1, "PendingEvaluation": 1}
    assert given_to(new_order) == [2]


def test_the_urgent_stay_first_and_those_that_wait_for_the_ledger_wait_on() -> None:
    new_order = order(window=1)
    new_order.put_job(job(1))
    new_order.put_job(job(2, priority=9))
    (turn,) = turns(new_order)
    new_order.outcome(answer(turn, OutcomeCode.CONFLICT))
    new_order.adopt(session("gang"))
    assert given_to(new_order) == [2]
    new_order.outcome(answer(turn, OutcomeCode.FENCED))
    assert new_order.stale == [2]
    new_order.adopt(session("gang"))
    assert given_to(new_order) == [1]


def test_a_nominated_job_keeps_its_promised_places() -> None:
    new_order = order(nodes=1, cpus=2, window=1)
    new_order.put_job(job(1, count=2))
    (first,) = turns(new_order)
    new_order.outcome(placed(first))
    new_order.task_changed(1, TaskState.RELEASING, [0, 1], [0, 0])
    new_order.put_job(job(2, count=2))
    (second,) = turns(new_order)
    new_order.outcome(placed(second, level=3))
    new_order.adopt(session("gang"))
    assert new_order.jobs[2].status is SchedulingStatus.NOMINATED
    assert new_order.expired == []
    new_order.task_changed(1, TaskState.SUCCEEDED, [0, 1], [0, 0])
    assert given_to(new_order) == [2]
    new_order.validate()


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2)), max_size=12),
    st.lists(st.sampled_from([("priority", "gang"), ("gang",), ("drf", "proportion")]), max_size=4),
)
def test_adopting_is_as_if_it_had_been_so_from_the_start(
    jobs: list[tuple[int, int, int]], policies: list[tuple[str, ...]]
) -> None:
    last = policies[-1] if policies else ("priority", "gang")
    new_order, fresh = order(window=50, queues=("a", "b")), order(window=50, queues=("a", "b"))
    fresh.adopt(session(*last))
    for jid, (count, priority, cid) in enumerate(jobs):
        one = job(jid, count=count, priority=priority, cid=cid % 2, queue="ab"[cid % 2])
        new_order.put_job(one)
        fresh.put_job(one)
    for policy in (*policies, last):
        new_order.adopt(session(*policy))
    new_order.validate()
    assert given_to(new_order) == given_to(fresh)
