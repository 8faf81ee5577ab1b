"""Small reproductions of defects that seeded runs found in other parts."""

from __future__ import annotations

from coordinator.bind.binder import plan_binds
from coordinator.dispatch.dispatcher import Dispatcher
from shared.ledger.entries.stored import BindEntry
from shared.messages.messages import Epoch, OutcomeCode, TaskState
from shared.model.model import Queue
from shared.units.slots import CPU
from tests.builders.rows import job
from tests.coordinator.order.helpers import answer, order, placed, turns


def test_capacity_freed_while_a_worker_looked_wakes_the_line() -> None:
    """Seed 62: the gang was found infeasible on a view older than the last release, and nothing
    was left that could have woken it."""
    new_order = order(nodes=1, cpus=4, window=2, count_first=False)
    new_order.put_job(job(1, count=2))
    new_order.outcome(placed(turns(new_order)[0]))
    new_order.put_job(job(2, count=4))
    (turn,) = turns(new_order)
    new_order.task_changed(1, TaskState.BOUND, [0, 1], [0, 0])
    new_order.task_changed(1, TaskState.SUCCEEDED, [0, 1], [0, 0])
    new_order.outcome(answer(turn, OutcomeCode.INFEASIBLE, {"Insufficient cpu": 1}))
    due = new_order.next_due()
    assert due is not None
    assert [turn.jid for turn in turns(new_order, due)] == [2]


def test_line_that_nothing_was_freed_for_stays_held() -> None:
    new_order = order(nodes=1, cpus=4, count_first=False)
    new_order.put_job(job(1, count=4))
    (turn,) = turns(new_order)
    new_order.outcome(answer(turn, OutcomeCode.INFEASIBLE, {"Insufficient cpu": 1}))
    assert new_order.next_due() is None
    assert turns(new_order, 10.0) == []


def test_nominated_job_returns_to_the_shard_that_nominated_it() -> None:
    """Its second turn went to the next shard, which in hard mode cannot use what it was promised:
    the nominations were given up and the wait began anew."""
    new_order = order(nodes=1, cpus=4)
    new_order.put_job(job(1, count=4))
    dispatcher = Dispatcher(2)
    for shard in (0, 1):
        dispatcher.up(shard, Epoch(1, str(shard)))
    (turn,) = turns(new_order)
    dispatcher.route(turn, {})
    new_order.outcome(placed(turn, level=3))  # nothing leaves its node any more: woken at once
    (again,) = turns(new_order)
    assert again.attempt
    assert again.nominated
    dispatcher.route(again, {})
    assert [len(state.waiting) for state in dispatcher.shards.values()] == [2, 0]


def test_bind_to_a_node_that_is_not_known_yet_is_planned_later() -> None:
    """Seed 67: workers learn of a node from the log, and their bind was read before the word of
    intake that the node is durable."""
    entries = [BindEntry("1-0", [(1, 0, [0], [5])])]
    names: dict[int, str] = {}
    jobs = {1: job(1)}
    assert plan_binds(entries, jobs=jobs.get, node=names.get) is None
    names[5] = "n5"
    plan = plan_binds(entries, jobs=jobs.get, node=names.get)
    assert plan is not None
    assert plan.requests.nodes == ["n5"]


def test_a_leaving_task_blocks_its_full_queue_and_wakes_it_when_ended() -> None:
    """Seed 18: the ledger counts a leaving task against the capability, Order did not; turns were
    refused four times in a row, and the end that would have let one pass woke nobody."""
    new_order = order(nodes=4)
    limited = Queue(qid=0, name="a", capability=((CPU, 2000),))
    new_order.put_queue(limited)
    new_order.put_job(job(1, count=2))
    new_order.outcome(placed(turns(new_order)[0]))
    new_order.put_job(job(2, count=2))
    new_order.task_changed(1, TaskState.RELEASING, [0, 1], [0, 0])
    assert turns(new_order) == []
    before = new_order.accounts.capacity.changes
    new_order.task_changed(1, TaskState.SUCCEEDED, [0, 1], [0, 0])
    assert new_order.accounts.capacity.changes > before
    assert [turn.jid for turn in turns(new_order)] == [2]
    new_order.validate()


def test_bind_refused_during_an_earlier_turn_does_not_hide_the_next_outcome() -> None:
    """Seed 24: the refusal came while a turn for other tasks was open that ended in a nomination;
    the task's next placement was then taken for the refused one, and it was placed again."""
    new_order = order(nodes=2)
    new_order.put_job(job(1, count=3, minimum=1))
    new_order.outcome(placed(turns(new_order)[0]))
    (other,) = turns(new_order)
    assert other.runs[0].tasks[0] == 1
    new_order.task_changed(1, TaskState.PENDING, [0], [0])
    new_order.outcome(placed(other, count=1, level=3))
    (again,) = turns(new_order)
    assert again.runs[0].tasks[0] == 0
    new_order.outcome(placed(again, count=1))
    assert new_order.jobs[1].states[0] == TaskState.BINDING
