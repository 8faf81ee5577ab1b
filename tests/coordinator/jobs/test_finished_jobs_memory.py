"""What a finished job leaves in memory until it is forgotten: little beside its own object."""

from __future__ import annotations

from coordinator.jobs.state import NO_TASKS
from shared.messages.messages import TaskState
from tests.builders.rows import job
from tests.coordinator.order.helpers import order, placed, turns


def test_a_finished_job_keeps_no_empty_set_and_no_amounts_of_its_own() -> None:
    books = order()
    books.put_job(job(1, count=2))
    (turn,) = turns(books)
    books.outcome(placed(turn))
    books.task_changed(1, TaskState.RELEASING, [0], [0])
    books.accounts.leave(books.jobs[1], [0], leaving=True)
    assert books.jobs[1].evicted == {0}
    books.task_changed(1, TaskState.FAILED, [0], [0])
    books.task_changed(1, TaskState.SUCCEEDED, [1], [0])
    state = books.jobs[1]
    assert state.ended
    for tasks in (state.evicted, state.tried, state.returned, state.stopping, state.refused):
        assert tasks is NO_TASKS
    assert state.info.allocated == state.info.requested == {}
    books.validate()
