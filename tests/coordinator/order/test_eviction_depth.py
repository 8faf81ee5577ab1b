"""queueDepthPerAction of an evicting action: which jobs of a queue it searches for."""

from __future__ import annotations

import pytest

from coordinator.order.order import Order
from shared.codec.packed import replace
from shared.messages.messages import EvictRun, Level, Outcome, OutcomeCode, Placement, Turn
from tests.coordinator.order.helpers import answer
from tests.coordinator.order.test_kai_queues import Queue_, QueuedJob, SessionAndOrder, infeasible

NOMINATE = 1
ACTIONS = "allocate, consolidation"
LATER = 1000.0
"""Seconds after which no pause of a job holds it back any more."""


def waiting(*jobs: QueuedJob, depth: dict[str, int], actions: str = ACTIONS) -> Order:
    """Jobs for which no node has room, so that allocate has no turn for them."""
    policy: dict[str, object] = {"actions": actions, "queueDepthPerAction": depth}
    return SessionAndOrder(
        [Queue_("a", quota=8), Queue_("b", quota=8)], list(jobs), gpus=8, policy=policy
    ).order(window=8)


def searched(order: Order, now: float, *, turns: int = 100) -> list[tuple[str, str]]:
    """(job, action) of the turns that follow, none of which finds a victim."""
    results = []
    for _ in range(turns):
        order.begin(now)
        if (turn := order.next_turn()) is None:
            break
        results.append((order.jobs[turn.jid].job.name, turn.action))
        order.outcome(infeasible(turn))
        now += 0.02  # a look without a result is followed by a pause
    return results


def names(order: Order, action: str, now: float = 0.0, *, turns: int = 100) -> list[str]:
    return sorted({job for job, by in searched(order, now, turns=turns) if by == action})


FOUR = [
    QueuedJob("third", "a", gpus=11),
    QueuedJob("first", "a", gpus=12, priority=90),
    QueuedJob("second", "a", gpus=13, priority=80),
    QueuedJob("fourth", "a", gpus=14, priority=40),
]


@pytest.mark.parametrize("others", [0, 40])
def test_exactly_the_first_n_jobs_of_each_queue_are_searched_for(others: int) -> None:
    """``others``: jobs with needs of their own, so that the lines of the queue are kept sorted."""
    more = [QueuedJob(f"o{at}", "a", gpus=20, tasks=2 + at, priority=10) for at in range(others)]
    order = waiting(*FOUR, QueuedJob("b1", "b", gpus=11), *more, depth={"consolidation": 2})
    assert names(order, "consolidation") == ["b1", "first", "second"]
    assert names(order, "consolidation", LATER) == ["b1", "first", "second"], "failed jobs count"


def test_an_action_without_a_depth_searches_for_all() -> None:
    order = waiting(*FOUR, depth={"consolidation": 1}, actions="consolidation, preempt")
    result = searched(order, 0.0)
    assert {job for job, by in result if by == "consolidation"} == {"first"}
    assert {job for job, by in result if by == "preempt"} == {job.name for job in FOUR}


def test_a_nominated_job_leaves_the_eviction_depth() -> None:
    order = waiting(*FOUR, depth={"consolidation": 1})
    order.begin(0.0)
    turn = order.next_turn()
    assert turn is not None and order.jobs[turn.jid].job.name == "first"
    order.outcome(promised(turn))
    assert names(order, "consolidation", 0.5) == ["second"]


def promised(turn: Turn) -> Outcome:
    (run,) = turn.runs
    victim = EvictRun(99, 0, run.cid, 0, [0], [0], 0)  # on its way
    placement = Placement(
        cid=run.cid, kind=NOMINATE, tasks=run.tasks, rows=[0], levels=[Level.FUTURE_OWN]
    )
    return Outcome(
        jid=turn.jid,
        code=OutcomeCode.NOMINATED,
        placements=[placement],
        evictions=[victim],
        reasons={},
    )


def test_a_skipped_job_does_not_use_up_the_eviction_depth() -> None:
    """One may not be evicted itself, so that consolidation passes it over; one is in its delay."""
    order = waiting(
        QueuedJob("fixed", "a", gpus=11, priority=120),
        QueuedJob("delayed", "a", gpus=12, priority=90),
        QueuedJob("second", "a", gpus=13, priority=80),
        QueuedJob("third", "a", gpus=14, priority=70),
        depth={"consolidation": 1},
    )
    groups = order.accounts.cluster.objects.kai_groups
    (delayed,) = (group for group in groups.values() if group.name == "delayed")
    order.put_object(replace(delayed, created=0.0, preemption_delay=60.0))
    assert "third" not in names(order, "consolidation")
    assert "second" in names(order, "consolidation", 30.0)
    assert "second" not in names(order, "consolidation", LATER), "the delay is over"


def test_a_job_that_is_out_for_another_turn_counts() -> None:
    """The freed room gives the first another turn of allocate; the second does not pass it."""
    order = waiting(
        QueuedJob("first", "a", gpus=8, priority=90), FOUR[0], depth={"consolidation": 1}
    )
    order.begin(0.0)
    turn = order.next_turn()
    assert turn is not None and turn.action == "allocate"
    order.outcome(infeasible(turn))
    assert names(order, "consolidation") == ["first"]
    order.accounts.capacity.freed()
    order.begin(LATER)
    again = order.next_turn()
    assert again is not None and again.action == "allocate"
    order.begin(LATER + 1)
    assert order.next_turn() is None
    order.outcome(answer(again, OutcomeCode.INFEASIBLE, {"NotEnoughResources": 1}))
    assert names(order, "consolidation", LATER + 2) == ["first"]


SAME_NEED = [
    QueuedJob("delayed", "a", gpus=11, priority=90),
    QueuedJob("second", "a", gpus=11, priority=80),
]
"""One line: of those in it only the first is asked whether it may evict."""


def delay(order: Order, name: str, seconds: float) -> None:
    """Set the preemptionDelay of a job's PodGroup, counted from the start."""
    groups = order.accounts.cluster.objects.kai_groups
    (group,) = (group for group in groups.values() if group.name == name)
    order.put_object(replace(group, created=0.0, preemption_delay=seconds))


def test_a_job_in_its_delay_does_not_hide_those_behind_it_of_the_same_need() -> None:
    order = waiting(*SAME_NEED, depth={})
    delay(order, "delayed", 60.0)
    assert names(order, "consolidation") == ["second"]
    assert "delayed" in names(order, "consolidation", LATER), "the delay is over"


def test_a_job_whose_delay_is_over_goes_before_those_behind_it() -> None:
    order = waiting(*SAME_NEED, depth={})
    delay(order, "delayed", 60.0)
    order.begin(0.0)
    assert order.next_contender() is not None
    assert searched(order, 61.0, turns=1) == [("delayed", "consolidation")]


def test_a_delay_that_grows_while_a_job_waits_counts() -> None:
    order = waiting(*SAME_NEED, depth={})
    delay(order, "delayed", 60.0)
    order.begin(0.0)
    assert order.next_contender() is not None
    delay(order, "delayed", 2 * LATER)
    assert names(order, "consolidation", LATER) == ["second"]


def test_the_end_of_a_delay_wakes_order_though_nothing_happens() -> None:
    order = waiting(SAME_NEED[0], depth={})
    delay(order, "delayed", 60.0)
    assert searched(order, 1.0) == []
    assert order.next_due() == 60.0


def test_a_delay_that_is_taken_back_is_over_at_once() -> None:
    order = waiting(*SAME_NEED, depth={})
    delay(order, "delayed", LATER)
    order.begin(0.0)
    assert order.next_contender() is not None
    delay(order, "delayed", 0.0)
    assert searched(order, 1.0, turns=1) == [("delayed", "consolidation")]


def test_a_delay_that_ends_while_no_turn_may_open_is_due_at_no_past_time() -> None:
    """Else whoever steps when something is due would step again and again."""
    order = waiting(*SAME_NEED, depth={})
    delay(order, "delayed", 60.0)
    order.begin(1.0)
    assert order.next_turn() is not None
    order.window = order.open
    order.begin(61.0)
    assert order.next_turn() is None
    due = order.next_due()
    assert due is None or due > 61.0
