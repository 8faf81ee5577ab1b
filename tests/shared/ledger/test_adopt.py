"""Adoption: the ledger follows the cluster, on a real server and on one in memory."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shared.ledger.entries.log import StatusEntry
from shared.ledger.errors import LedgerArgument
from shared.messages.messages import Group, StatusItem, TaskState
from tests.shared.ledger.promises import add_up, check_records
from tests.shared.ledger.support import (
    BIG,
    CLASSES,
    CPU,
    LEAF,
    PODS,
    ROOT,
    SMALL,
    Desk,
    entry_of_kind,
    job,
    run,
    statement,
)

REQUESTS = {c.cid: c.requests for c in CLASSES}
THINGS = {c.cid: c.things for c in CLASSES}
S = TaskState


def adopted(
    jid: int,
    tasks: Iterable[int],
    rows: Iterable[int],
    *,
    state: TaskState = S.RUNNING,
    cid: int = SMALL,
    group: int = 0,
) -> StatusItem:
    return StatusItem(state, jid, [*tasks], [*rows], cid, group)


async def add_up_anew(desk: Desk) -> None:
    """Every record is the sum of what the tasks hold."""
    snapshot = await desk.ledger.snapshot()
    check_records(snapshot, add_up(snapshot, REQUESTS, THINGS))


async def placed(desk: Desk, *, state: TaskState | None = None) -> None:
    """Task 7.0 on row 0, in this state (binding where None)."""
    await desk.store(job(7, Group(-1, 1)))
    await desk.commit(statement(7, run([0], [0])))
    if state is not None:
        await desk.record(StatusItem(state, 7, [0], [0]))


@pytest.mark.parametrize("state", [None, S.BOUND, S.RUNNING, S.RELEASING])
@pytest.mark.parametrize("becomes", [S.BOUND, S.RUNNING, S.RELEASING])
async def test_a_task_on_another_node_moves_there_with_all_it_holds(
    desk: Desk, state: TaskState | None, becomes: TaskState
) -> None:
    await placed(desk, state=state)
    before = await desk.version(0), await desk.version(2)
    reply = await desk.record(adopted(7, [0], [2], state=becomes))
    assert reply.applied == [[0]]
    assert sorted(reply.fresh.rows) == [0, 2]
    assert (await desk.version(0), await desk.version(2)) == (before[0] + 1, before[1] + 1)
    task = (await desk.ledger.snapshot()).tasks[7][0]
    assert (task.state, task.row, task.cid, task.group) == (becomes, 2, SMALL, 0)
    assert task.version > 1
    assert (await desk.slots(0))[CPU] == (8000, 0, 0, 0, 0)
    leaving = 1000 * (becomes is S.RELEASING)
    assert (await desk.slots(2))[CPU] == (8000, 1000, 0, leaving, 0)
    await add_up_anew(desk)


async def test_a_task_that_was_thought_pending_is_counted_in_node_queue_and_gang(
    desk: Desk,
) -> None:
    await desk.store(job(7, Group(-1, 2), Group(0, 2)))
    reply = await desk.record(adopted(7, [3, 4], [1, 2], cid=BIG, group=1))
    assert reply.applied == [[3, 4]]
    snapshot = await desk.ledger.snapshot()
    assert [g.held for g in snapshot.jobs[7].groups] == [2, 2]
    assert snapshot.jobs[7].top == 5
    assert snapshot.queues[LEAF].used[CPU] == 8000 == snapshot.queues[ROOT].used[CPU]
    assert snapshot.queues[LEAF].used[PODS] == 2
    await add_up_anew(desk)
    await desk.record(StatusItem(S.SUCCEEDED, 7, [3, 4], [1, 2]))
    await add_up_anew(desk)
    assert (await desk.slots(1))[CPU] == (8000, 0, 0, 0, 0)


async def test_the_log_tells_adopted_tasks_and_their_rows(desk: Desk) -> None:
    await placed(desk)
    tail = await desk.ledger.log_tail()
    await desk.record(adopted(7, [0, 9], [2, 77]))
    (entry,) = await desk.ledger.read_log(tail)
    status = entry_of_kind(entry, StatusEntry)
    assert status.items == [adopted(7, [0], [2])]
    assert sorted(status.fresh.rows) == [0, 2]


async def test_excess_from_outside_is_counted_and_keeps_others_away(desk: Desk) -> None:
    await desk.store(job(7), job(8))
    await desk.record(adopted(7, range(9), [0] * 9))
    assert (await desk.slots(0))[CPU] == (8000, 9000, 0, 0, 0)
    reply = await desk.commit(statement(8, run([0], [0], version=2)))
    assert reply.answers[0].verdict.name == "FIT"


@pytest.mark.parametrize("end", [S.SUCCEEDED, S.FAILED])
async def test_an_ended_task_is_not_adopted(desk: Desk, end: TaskState) -> None:
    await placed(desk, state=end)
    assert (await desk.record(adopted(7, [0], [2]))).applied == [[]]
    assert (await desk.ledger.snapshot()).tasks[7][0].state == end
    await add_up_anew(desk)


@pytest.mark.parametrize(
    "item",
    [
        adopted(7, [0], [0]),  # it is there: its states are told by ordinary items
        adopted(7, [0], [77]),  # no such node
        adopted(8, [0], [1]),  # no such job
        adopted(7, [1], [1], cid=99),  # no such class
        adopted(7, [1], [1], group=5),  # no such group
    ],
)
async def test_an_adoption_that_cannot_be_counted_changes_nothing(
    desk: Desk, item: StatusItem
) -> None:
    await placed(desk)
    before = await desk.ledger.snapshot()
    assert (await desk.record(item)).applied == [[]]
    after = await desk.ledger.snapshot()
    assert (after.tasks, after.nodes, after.jobs) == (before.tasks, before.nodes, before.jobs)


@pytest.mark.parametrize("state", [S.PENDING, S.BINDING, S.SUCCEEDED])
async def test_only_tasks_on_a_node_are_adopted(desk: Desk, state: TaskState) -> None:
    await placed(desk)
    with pytest.raises(LedgerArgument, match="job 7"):
        await desk.record(adopted(7, [0], [2], state=state))


async def test_repeated_adoptions_count_a_task_once(
    desk: Desk,
) -> None:
    await placed(desk)
    for row in (2, 2, 3, 0):
        await desk.record(adopted(7, [0], [row]))
        await add_up_anew(desk)
    assert (await desk.ledger.snapshot()).jobs[7].groups[0].held == 1
