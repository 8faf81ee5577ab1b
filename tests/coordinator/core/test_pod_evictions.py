"""Evictions that somebody asks for, as the books plan them."""

from __future__ import annotations

import pytest

from coordinator.core.pod_evictions import Action, EvictionPlan, PodEvictions
from shared.messages.messages import GUARD_GANG, GUARD_REST, TaskState
from tests.coordinator.order.helpers import job, order, placed, turns


@pytest.mark.parametrize(("minimum", "rest"), [(2, 0), (4, 2)], ids=["keeps", "in part"])
def test_members_that_have_ended_stay_when_a_gang_leaves(minimum: int, rest: int) -> None:
    books = order()
    books.put_job(job(1, count=4, minimum=minimum))
    books.outcome(placed(turns(books)[0]))
    for state in (TaskState.BOUND, TaskState.RUNNING):
        books.task_changed(1, state, [0, 1, 2, 3], [0, 0, 0, 0])
    books.task_changed(1, TaskState.SUCCEEDED, [0, 1], [0, 0])
    plan = PodEvictions(books).plan((1, 2), {}, action=Action.DELETE, whom="somebody")
    assert isinstance(plan, EvictionPlan)
    (run,) = plan.statement.evictions
    assert run.tasks == ([2] if minimum == 2 else [2, 3])
    assert run.guards == GUARD_GANG + rest * GUARD_REST
