"""Words that tasks are bound and run: taken the short way only where nothing else follows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.order.order import Order
from shared.codec.packed import replace
from shared.messages.messages import StatusItem, TaskState
from tests.builders.rows import job
from tests.coordinator.order.helpers import POLICY, order
from tests.examples import examples

HELD = [TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING]
EVICTING = POLICY | {"actions": "allocate, preempt"}


def books(o: Order) -> list[object]:
    state = o.jobs[1]
    counts = {new: n for new, n in o.accounts.tasks.items() if n}
    return [
        state.states,
        state.info,
        state.refusals,
        state.started,
        state.status,
        counts,
        o.accounts.capacity,
        sorted(o.gangs.due(1e9)),
    ]


@given(
    states=st.lists(st.sampled_from([*TaskState, *HELD, *HELD]), min_size=1, max_size=4),
    new=st.sampled_from([*TaskState, *HELD]),
    picked=st.sets(st.integers(0, 3)),
    evicted=st.booleans(),
    minimum=st.integers(0, 4),
    amounts=st.booleans(),
    evicting=st.booleans(),
)
@settings(max_examples=examples(400), deadline=None)
def test_the_short_way_leaves_the_same_books(
    *,
    states: list[TaskState],
    new: TaskState,
    picked: set[int],
    evicted: bool,
    minimum: int,
    amounts: bool,
    evicting: bool,
) -> None:
    short, long = (order(policy=EVICTING if evicting else POLICY) for _ in range(2))
    for o in (short, long):
        one = job(1, count=len(states), minimum=minimum)
        o.put_job(replace(one, min_resources=((0, 1000),) if amounts else None), bytearray(states))
        if evicted and states[0] is TaskState.RELEASING:
            o.accounts.leave(o.jobs[1], [0], leaving=True)
        o.jobs[1].refusals = 2
        o.begin(5.0)
    tasks = sorted(tix for tix in picked if tix < len(states))
    item = StatusItem(new, 1, tasks, [0] * len(tasks))
    before = books(short)
    if not short.only_proceeds(item):
        assert books(short) == before
        return
    assert {states[tix] for tix in tasks} <= {*HELD}
    long.task_changed(1, new, tasks, item.rows)
    assert books(short) == books(long)
    short.validate()


def test_nearly_all_words_take_it() -> None:
    o = order()
    o.put_job(job(1), bytearray([TaskState.BINDING]))
    for new in (TaskState.BOUND, TaskState.RUNNING):
        assert o.only_proceeds(StatusItem(new, 1, [0], [0]))
    assert o.jobs[1].states[0] == TaskState.RUNNING
    assert not o.only_proceeds(StatusItem(TaskState.SUCCEEDED, 1, [0], [0]))
    assert not o.only_proceeds(StatusItem(TaskState.RUNNING, 2, [0], [0]))
