"""Evictions that somebody asks for, as the books plan them."""

from __future__ import annotations

import pytest

from coordinator.core.pod_evictions import (
    Action,
    EvictionPlan,
    EvictionRefusal,
    Leaving,
    PodEvictions,
)
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.messages.messages import GUARD_GANG, GUARD_REST, TaskState
from shared.model.constraints import Selector
from shared.model.storage import Budget
from tests.builders.rows import job
from tests.coordinator.order.helpers import order, placed, turns


@pytest.mark.parametrize(("minimum", "rest"), [(2, 0), (4, 2)], ids=["keeps", "in part"])
def test_members_that_have_ended_stay_when_a_gang_leaves(minimum: int, rest: int) -> None:
    books = order()
    books.put_job(job(1, count=4, minimum=minimum))
    books.outcome(placed(turns(books)[0]))
    for state in (TaskState.BOUND, TaskState.RUNNING):
        books.task_changed(1, state, [0, 1, 2, 3], [0, 0, 0, 0])
    books.task_changed(1, TaskState.SUCCEEDED, [0, 1], [0, 0])
    plan = PodEvictions(books).plan((1, 2), {}, action=Action.DELETE, requester="somebody")
    assert isinstance(plan, EvictionPlan)
    (run,) = plan.statement.evictions
    assert run.tasks == ([2] if minimum == 2 else [2, 3])
    assert run.guards == GUARD_GANG + rest * GUARD_REST


@pytest.mark.parametrize("incarnation", [0, 1], ids=["this one", "one that is back"])
def test_a_task_evicted_only_in_the_ledger_is_not_healthy(
    incarnation: int,
) -> None:
    """A statement that is refused for it takes the newer version of its budget."""
    books = order()
    budget = Budget("ns", "all", Selector(), min_available="2")
    key = "budget/ns/all"
    books.put_object(budget)
    for jid in (1, 2, 3):
        books.put_job(job(jid))
        (turn,) = turns(books)
        books.outcome(placed(turn))
        for state in (TaskState.BOUND, TaskState.RUNNING):
            books.task_changed(jid, state, [0], [0])
    evictions = PodEvictions(books)
    objects = {key: budget}
    plan = evictions.plan((2, 0), objects, action=Action.EVICT, requester="drain")
    assert isinstance(plan, EvictionPlan)
    assert evictions.counted(plan) == [1, 2, 3]
    leaving = TaskRecord(TaskState.RELEASING, 0, 0, 5, incarnation=incarnation, by=9)
    record = JobRecord(spec_version=0, qid=0, gone=False, groups=[])
    evictions.reread(plan, {key: 6}, {1: (record, {0: leaving})})
    assert books.spanning.versions[key] == 6
    again = evictions.plan((2, 0), objects, action=Action.EVICT, requester="drain")
    assert isinstance(again, EvictionPlan if incarnation else EvictionRefusal)
    other = evictions.plan((1, 0), objects, action=Action.EVICT, requester="drain")
    assert isinstance(other, EvictionPlan if incarnation else Leaving)
