"""Ended tasks that begin anew, on a real server and on one in memory: what that takes and
gives, and when it is refused."""

from __future__ import annotations

import pytest

from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import DropJob
from shared.ledger.entries.log import StatusEntry
from shared.ledger.entries.stored import TaskRecord
from shared.ledger.errors import LedgerArgument
from shared.messages.messages import Group, StatusItem, TaskState, Verdict
from tests.shared.ledger.support import (
    NOTHING,
    SHARED,
    SMALL,
    Desk,
    entry_of_kind,
    job,
    run,
    statement,
)

S = TaskState
JID = 1
ENDS = (S.SUCCEEDED, S.FAILED, S.LOST)


async def ended(desk: Desk, *ends: TaskState, cid: int = SMALL) -> None:
    """A job whose tasks have ended like this, all on row 0."""
    tasks = list(range(len(ends)))
    await desk.store(job(JID, Group(-1, 1)))
    await desk.commit(statement(JID, run(tasks, [0] * len(ends), cid=cid)))
    for end in set(ends):
        those = [tix for tix in tasks if ends[tix] is end]
        await desk.record(StatusItem(end, JID, those, [0] * len(those)))


def restart(*tasks: int, after: int = 0) -> StatusItem:
    n = len(tasks)
    return StatusItem(S.PENDING, JID, list(tasks), [0] * n, restarts=(after,) * n)


async def record_of(desk: Desk, tix: int) -> TaskRecord | None:
    return (await desk.ledger.snapshot()).tasks.get(JID, {}).get(tix)


async def held(desk: Desk) -> int:
    return (await desk.ledger.snapshot()).jobs[JID].groups[0].held


async def test_a_restarted_task_is_pending_as_the_next_incarnation(desk: Desk) -> None:
    await ended(desk, *ENDS)
    assert await held(desk) == 1  # the one that succeeded
    before = await desk.slots(0)
    assert (await desk.record(restart(0, 1, 2))).applied == [[0, 1, 2]]
    assert await held(desk) == 0
    for tix in range(3):
        record = await record_of(desk, tix)
        assert record is not None
        assert (record.state, record.incarnation, record.by) == (S.PENDING, 1, -1)
    assert await desk.slots(0) == before  # its room was given back when it ended
    entry = entry_of_kind((await desk.ledger.read_log("0"))[-1], StatusEntry)
    assert entry.items == [StatusItem(S.PENDING, JID, [0, 1, 2], [0, 0, 0])]
    assert entry.fresh.rows == []


async def test_it_is_placed_again_and_its_bind_names_the_incarnation(desk: Desk) -> None:
    await ended(desk, S.FAILED)
    await desk.record(restart(0))
    reply = await desk.commit(statement(JID, run([0], [1])))
    assert reply.answers[0].verdict is Verdict.COMMITTED
    last = (await desk.ledger.read_binds("b"))[-1]
    assert last.incarnations == {(JID, 0): 1}
    assert await held(desk) == 1


async def test_late_and_twice_it_changes_nothing(desk: Desk) -> None:
    await ended(desk, S.FAILED)
    assert (await desk.record(restart(0), restart(0))).applied == [[0], []]
    await desk.commit(statement(JID, run([0], [1])))
    assert (await desk.record(restart(0))).applied == [[]]  # runs, as incarnation 1
    await desk.record(StatusItem(S.FAILED, JID, [0], [1]))
    assert (await desk.record(restart(0))).applied == [[]]  # late: of incarnation 0
    assert (await desk.record(restart(0, after=1))).applied == [[0]]


@pytest.mark.parametrize("state", [S.BINDING, S.BOUND, S.RUNNING, S.RELEASING])
async def test_a_task_that_holds_a_node_is_not_restarted(desk: Desk, state: TaskState) -> None:
    await desk.store(job(JID))
    await desk.commit(statement(JID, run([0], [0])))
    if state is not S.BINDING:
        await desk.record(StatusItem(state, JID, [0], [0]))
    assert (await desk.record(restart(0))).applied == [[]]


async def test_unplaced_and_unknown_tasks_do_not_restart(desk: Desk) -> None:
    assert (await desk.record(restart(0))).applied == [[]]
    await desk.store(job(JID))
    assert (await desk.record(restart(0))).applied == [[]]
    await desk.record(StatusItem(S.FAILED, JID, [0], [0]))  # of no class: it was never placed
    assert (await desk.record(restart(0))).applied == [[]]


async def test_nothing_of_a_deleted_job_begins_anew(desk: Desk) -> None:
    await ended(desk, S.FAILED)
    await desk.store(DropJob(JID))
    assert (await desk.record(restart(0))).applied == [[]]


@pytest.mark.parametrize("end", ENDS)
async def test_a_restarted_best_effort_task_is_held_while_pending(
    desk: Desk, end: TaskState
) -> None:
    await ended(desk, end, S.SUCCEEDED, cid=NOTHING)
    members = await held(desk)
    await desk.record(restart(0))
    assert await held(desk) == members + (end is not S.SUCCEEDED)


async def test_its_devices_are_not_its_own_any_more(desk: Desk) -> None:
    await ended(desk, S.FAILED, cid=SHARED)
    await desk.record(restart(0))
    record = await record_of(desk, 0)
    assert record is not None
    assert record.devices == ()


@pytest.mark.parametrize(
    "item",
    [replace(restart(0), state=S.FAILED), replace(restart(0, 1), restarts=(0,))],
    ids=["state", "length"],
)
async def test_a_restart_has_its_form(desk: Desk, item: StatusItem) -> None:
    await ended(desk, S.FAILED)
    with pytest.raises(LedgerArgument, match="begin anew as pending"):
        await desk.record(item)
