"""Effects of reports and objects on the accounts, and numbers at their limits."""

from __future__ import annotations

import pytest

from shared.ledger.entries.intake_batch import (
    DropJob,
    DropNode,
    Observe,
    PutClass,
    PutNode,
    PutObject,
    PutPartition,
    PutQueue,
)
from shared.ledger.entries.log import IntakeEntry, StatusEntry
from shared.ledger.entries.stored import QueueRecord
from shared.messages.messages import NOMINATE, Group, StatusItem, TaskState, Verdict
from tests.shared.ledger.support import (
    BIG,
    CPU,
    LEAF,
    MEMORY,
    OTHER,
    PODS,
    ROOT,
    SMALL,
    Desk,
    entry_of_kind,
    job,
    node,
    run,
    statement,
)

V, S = Verdict, TaskState


async def place(desk: Desk, jid: int, tasks: list[int], rows: list[int], **more: int) -> None:
    reply = await desk.commit(statement(jid, run(tasks, rows, **more)))
    assert reply.answers[0].verdict in (V.COMMITTED, V.RECHECKED)


async def test_the_life_of_a_task(desk: Desk) -> None:
    await desk.store(job(7, Group(-1, 1), Group(0, 1)))
    await place(desk, 7, [3], [1], group=1)
    observed = []
    for state in (S.BOUND, S.RUNNING, S.RELEASING, S.SUCCEEDED):
        reply = await desk.record(StatusItem(state, 7, [3], [1]))
        assert reply.applied == [[3]]
        snapshot = await desk.ledger.snapshot()
        groups = [group.held for group in snapshot.jobs[7].groups]
        observed.append(((await desk.slots(1))[CPU][1:4], snapshot.queues[ROOT].used, groups))
    full = {CPU: 1000, PODS: 1}
    assert observed == [
        ((1000, 0, 0), full, [1, 1]),
        ((1000, 0, 0), full, [1, 1]),
        ((1000, 0, 1000), full, [1, 1]),
        ((0, 0, 0), {}, [1, 1]),
    ]
    jobs = await desk.ledger.read_tasks([7, 99])
    task = jobs[7][1][3]
    assert (task.state, task.row, task.cid, task.version, task.group) == (5, 1, SMALL, 5, 1)
    assert (jobs[7][0].top, set(jobs)) == (4, {7})


async def test_a_failure_gives_its_place_in_the_gang_back(desk: Desk) -> None:
    await desk.store(job(7, Group(-1, 2)))
    await place(desk, 7, [0, 1], [0, 1])
    await desk.record(StatusItem(S.RELEASING, 7, [0], [0]), StatusItem(S.FAILED, 7, [0], [0]))
    snapshot = await desk.ledger.snapshot()
    assert snapshot.jobs[7].groups[0].held == 1
    assert (await desk.slots(0))[CPU] == (8000, 0, 0, 0, 0)


async def test_a_refused_bind_returns_the_task_to_pending(desk: Desk) -> None:
    await desk.store(job(7))
    await place(desk, 7, [0], [0])
    reply = await desk.record(StatusItem(S.PENDING, 7, [0], [0]))
    assert reply.applied == [[0]]
    snapshot = await desk.ledger.snapshot()
    assert snapshot.tasks == {}
    assert snapshot.jobs[7].groups[0].held == 0
    assert snapshot.queues[LEAF].used == {}
    await place(desk, 7, [0], [1])


async def test_inapplicable_reports_change_nothing(desk: Desk) -> None:
    await desk.store(job(7))
    await place(desk, 7, [0, 1], [0, 1])
    await desk.record(StatusItem(S.RUNNING, 7, [1], [1]))
    before, tail = await desk.ledger.snapshot(), await desk.ledger.log_tail()
    reply = await desk.record(
        StatusItem(S.BOUND, 7, [1, 2], [1, 0]),  # already running; pending
        StatusItem(S.SUCCEEDED, 7, [0], [3]),  # on another node
        StatusItem(S.PENDING, 7, [1], [1]),  # bound: it cannot go back
        StatusItem(S.FAILED, 99, [0], [0]),  # no such job
        expired=(7,),
    )
    assert reply.applied == [[], [], [], []]
    assert reply.fresh.rows == []
    assert await desk.ledger.snapshot() == before
    assert await desk.ledger.log_tail() == tail


async def test_a_pending_task_that_is_deleted_frees_nothing(desk: Desk) -> None:
    await desk.store(job(7))
    reply = await desk.record(StatusItem(S.FAILED, 7, [4], [0]))
    assert (reply.applied, reply.fresh.rows) == ([[4]], [])
    reply2 = await desk.commit(statement(7, run([4], [0])))
    assert reply2.answers[0].verdict is V.TASK


async def test_nominations_lapse_and_die_with_their_job(desk: Desk) -> None:
    await desk.store(job(7), job(8), job(9))
    for jid in (7, 8, 9):
        await desk.commit(statement(jid, run([0], [jid - 7], kind=NOMINATE, cid=BIG)))
    await desk.record(expired=(7,))
    await desk.store(DropJob(8))
    await desk.store(job(9, version=2))
    assert (await desk.ledger.snapshot()).nominations == {}
    for row in range(3):
        assert (await desk.slots(row))[CPU] == (8000, 0, 0, 0, 0)
    status, dropped, changed = (await desk.ledger.read_log("0"))[-3:]
    assert entry_of_kind(status, StatusEntry).expired == [7]
    assert entry_of_kind(dropped, IntakeEntry).dropped == [8]
    assert entry_of_kind(changed, IntakeEntry).dropped == [9]


async def test_a_job_that_changes_keeps_what_it_held(desk: Desk) -> None:
    await desk.store(job(7, Group(-1, 1), Group(0, 2)))
    await place(desk, 7, [0, 1], [0, 1], group=1)
    await desk.store(job(7, Group(-1, 5, held=3), version=2))
    groups = (await desk.ledger.snapshot()).jobs[7].groups
    assert groups == [Group(-1, 5, 5), Group(0, 0, 2)]
    await desk.record(StatusItem(S.FAILED, 7, [0], [0]))
    assert [g.held for g in (await desk.ledger.snapshot()).jobs[7].groups] == [4, 1]


async def test_usage_moves_with_a_job_and_with_a_queue(desk: Desk) -> None:
    await desk.store(job(7), PutQueue(3, OTHER, None, b"deep"))
    await place(desk, 7, [0, 9], [0, 1])
    await desk.record(StatusItem(S.SUCCEEDED, 7, [9], [1]))
    one = {CPU: 1000, PODS: 1}
    await desk.store(job(7, qid=3))
    queues = (await desk.ledger.snapshot()).queues
    assert [queues[q].used for q in (ROOT, LEAF, OTHER, 3)] == [one, {}, one, one]
    await desk.store(PutQueue(3, LEAF, [(CPU, 5)], b"deep"))
    queues = (await desk.ledger.snapshot()).queues
    assert [queues[q].used for q in (ROOT, LEAF, OTHER, 3)] == [one, one, {}, one]
    assert queues[3] == QueueRecord(LEAF, one, {CPU: 5})


async def test_nodes_shrink_are_watched_and_go(desk: Desk) -> None:
    await desk.store(job(7))
    await place(desk, 7, [0], [0], cid=BIG)
    await desk.store(node(0, cpu=1000), Observe(0, [(MEMORY, 5)]), Observe(77, [(CPU, 1)]))
    slots = await desk.slots(0)
    assert (slots[CPU], slots[MEMORY][2]) == ((1000, 4000, 0, 0, 0), 5)
    await desk.store(Observe(0, []), DropNode(0), DropNode(77))
    slots = await desk.slots(0)
    assert (slots[CPU], slots[MEMORY][:3]) == ((0, 4000, 0, 0, 0), (0, 2**32, 0))
    snapshot = await desk.ledger.snapshot()
    assert set(snapshot.node_specs) == {1, 2, 3}
    assert snapshot.nodes.rows == [0, 1, 2, 3]
    await desk.record(StatusItem(S.FAILED, 7, [0], [0]))
    assert (await desk.slots(0))[CPU] == (0, 0, 0, 0, 0)


async def test_objects_and_partition_are_kept(desk: Desk) -> None:
    binary = bytes(range(256))
    await desk.store(PutObject("policy", binary), PutObject("class/é", b"x"))
    await desk.store(PutObject("class/é", None), PutPartition(3, {0: [0, 2], 1: []}))
    snapshot = await desk.ledger.snapshot(workload=False)
    assert snapshot.objects == {"policy": binary}
    assert snapshot.partition == PutPartition(3, {0: [0, 2], 1: []})
    assert snapshot.classes[SMALL] == b"small"
    assert snapshot.queue_specs[LEAF] == b"leaf"
    last = entry_of_kind((await desk.ledger.read_log("0"))[-2], IntakeEntry)
    assert last.ops == [PutObject("policy", binary), PutObject("class/é", b"x")]


async def test_queue_totals_of_10_to_18_are_exact(desk: Desk) -> None:
    """Totals beyond 2**53, where a double would lose the last digits, and limits there."""
    huge = 2**52 + 2**30 - 1
    await desk.store(
        PutClass(8, [(MEMORY, huge, 0)], b"huge"),
        PutClass(9, [(MEMORY, 1, 0)], b"one"),
        PutQueue(ROOT, -1, [(MEMORY, 2 * huge - 1)], b"root"),
        PutQueue(5, -1, [(MEMORY, 230 * huge + 1)], b"wide"),
        *(node_with(row, huge + 10) for row in range(10, 310)),
        job(7, qid=5),
        job(8, qid=LEAF),
    )
    reply = await desk.commit(
        statement(7, run([*range(230)], [*range(10, 240)], cid=8), qid=5),
        statement(7, run([500], [10], cid=9), qid=5),
        statement(7, run([501], [10], cid=9), qid=5),
    )
    assert [a.verdict for a in reply.answers] == [V.COMMITTED, V.RECHECKED, V.QUEUE]
    total = 230 * huge + 1
    assert total > 10**18
    queue = (await desk.ledger.snapshot()).queues[5]
    assert (queue.used, queue.capability) == ({MEMORY: total}, {MEMORY: total})
    await desk.record(StatusItem(S.FAILED, 7, [*range(230)], [*range(10, 240)]))
    assert (await desk.ledger.snapshot()).queues[5].used == {MEMORY: 1}
    reply = await desk.commit(
        statement(8, run([0], [300], cid=8)), statement(8, run([1], [301], cid=8))
    )
    assert [a.verdict for a in reply.answers] == [V.COMMITTED, V.QUEUE]


def node_with(row: int, memory: int) -> PutNode:
    return PutNode(row, [(MEMORY, memory)], 1, b"")


@pytest.mark.parametrize("spoiled", ["", "fit", "queue", "gang"])
async def test_a_gang_of_5000_commits_whole_or_not_at_all(desk: Desk, spoiled: str) -> None:
    size = 5000
    limit = size * 1000 - (spoiled == "queue")
    rows = [10 + i // 8 for i in range(size)]
    await desk.store(
        PutQueue(ROOT, -1, [(CPU, limit)], b"root"),
        *(node(row) for row in sorted(set(rows))),
        job(7, Group(-1, size + (spoiled == "gang"))),
    )
    if spoiled == "fit":
        await desk.store(node(rows[-1], cpu=7999))
    before = await desk.ledger.snapshot()
    reply = await desk.commit(statement(7, run([*range(size)], rows)))
    after = await desk.ledger.snapshot()
    if spoiled:
        refused = {"fit": (V.FIT, rows[-1]), "queue": (V.QUEUE, ROOT), "gang": (V.GANG, 0)}
        assert (reply.answers[0].verdict, reply.answers[0].at) == refused[spoiled]
        assert (after.nodes, after.queues, after.jobs) == (before.nodes, before.queues, before.jobs)
        assert after.tasks == {}
        return
    assert reply.answers[0].verdict is V.COMMITTED
    assert sorted(reply.fresh.rows) == sorted(set(rows))
    assert len(after.tasks[7]) == size == after.jobs[7].groups[0].held
    assert after.queues[ROOT].used == {CPU: size * 1000, PODS: size}
    binds = await desk.ledger.read_binds("b")
    assert binds[0].binds == [(7, SMALL, [*range(size)], rows)]
