"""Each verdict of a statement, by example, on a real server and on one in memory."""

from __future__ import annotations

from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import DropJob, DropNode, Observe, PutClass, PutQueue
from shared.ledger.entries.log import CommitEntry
from shared.ledger.gang_minimum import stored_minimum
from shared.messages.messages import NOMINATE, DomainOp, Group, StatusItem, TaskState, Verdict
from shared.units.queue_slots import OFFERED
from tests.shared.ledger.support import (
    BIG,
    CPU,
    LEAF,
    PODS,
    PORT,
    PORTED,
    ROOT,
    Desk,
    entry_of_kind,
    job,
    node,
    run,
    statement,
)

V = Verdict
CHARGED = 50
"""A class of tasks that their queue counts in a slot that no node declares."""


async def test_a_clean_statement_is_committed_and_booked_everywhere(desk: Desk) -> None:
    await desk.store(job(7, Group(-1, 2)))
    reply = await desk.commit(statement(7, run([0, 1], [0, 2])))
    assert [(a.verdict, a.at) for a in reply.answers] == [(V.COMMITTED, -1)]
    assert sorted(reply.fresh.rows) == [0, 2]
    assert (await desk.slots(0))[CPU] == (8000, 1000, 0, 0, 0)
    snapshot = await desk.ledger.snapshot()
    assert snapshot.queues[LEAF].used == {CPU: 2000, PODS: 2} == snapshot.queues[ROOT].used
    assert snapshot.jobs[7].groups[0].held == 2
    assert {tix: (t.state, t.row) for tix, t in snapshot.tasks[7].items()} == {0: (1, 0), 1: (1, 2)}


async def test_a_moved_version_that_still_fits_is_rechecked(desk: Desk) -> None:
    await desk.store(job(7), job(8))
    reply = await desk.commit(statement(7, run([0], [0])), statement(8, run([0], [0])))
    assert [a.verdict for a in reply.answers] == [V.COMMITTED, V.RECHECKED]
    assert await desk.version(0) == 3


async def test_fit_is_refused_whole_and_says_where(desk: Desk) -> None:
    await desk.store(job(7, Group(-1, 3)))
    reply = await desk.commit(statement(7, run([0, 1, 2], [1, 0, 0], cid=BIG), run([3], [0])))
    assert (reply.answers[0].verdict, reply.answers[0].at) == (V.FIT, 0)
    assert reply.fresh.rows == [0]
    assert (await desk.slots(1))[CPU] == (8000, 0, 0, 0, 0)
    assert await desk.version(1) == 1
    snapshot = await desk.ledger.snapshot()
    assert snapshot.tasks == {}
    assert snapshot.queues[LEAF].used == {}


async def test_a_refused_row_is_shown_as_it_is_stored(desk: Desk) -> None:
    """Also where a task before the refused one is of a slot that the row does not have: a version
    is of one record."""
    await desk.store(
        job(7, Group(-1, 2)), PutClass(CHARGED, [(CPU, 1000, 0), (5, 1, OFFERED)], b"")
    )
    tasks = run([0], [0], cid=CHARGED), run([1, 2], [0, 0], cid=BIG)
    reply = await desk.commit(statement(7, *tasks))
    assert (reply.answers[0].verdict, reply.fresh.rows) == (V.FIT, [0])
    nodes = (await desk.ledger.snapshot()).nodes
    assert reply.fresh.records == [nodes.records[nodes.rows.index(0)]]


async def test_usage_by_foreign_pods_counts_for_fit(desk: Desk) -> None:
    await desk.store(job(7), Observe(0, [(CPU, 7500)]))
    reply = await desk.commit(statement(7, run([0], [0], version=2)))
    assert reply.answers[0].verdict is V.FIT


async def test_a_nomination_holds_room_against_allocations(desk: Desk) -> None:
    await desk.store(job(7), job(8))
    held = statement(7, run([0, 1], [0, 0], kind=NOMINATE, cid=BIG), expiry=9e9, priority=5)
    assert (await desk.commit(held)).answers[0].verdict is V.COMMITTED
    reply = await desk.commit(statement(8, run([0], [0], version=2), priority=5))
    assert (reply.answers[0].verdict, reply.answers[0].at) == (V.NOMINATION, 0)
    nomination = (await desk.ledger.snapshot()).nominations[7]
    assert (nomination.priority, nomination.expiry) == (5, 9e9)
    assert nomination.runs == [replace(held.core[0], versions=[], specs=[])]


async def test_a_nomination_may_wait_for_releasing_tasks(desk: Desk) -> None:
    await desk.store(job(7, Group(-1, 2)), job(8))
    await desk.commit(statement(7, run([0, 1], [0, 0], cid=BIG)))
    wait = statement(8, run([0], [0], kind=NOMINATE, cid=BIG, version=2))
    assert (await desk.commit(wait)).answers[0].verdict is V.NOMINATION
    await desk.record(StatusItem(TaskState.RELEASING, 7, [1], [0]))
    assert (await desk.commit(wait)).answers[0].verdict is V.RECHECKED
    assert (await desk.slots(0))[CPU] == (8000, 8000, 0, 4000, 4000)


async def test_a_statement_replaces_its_own_nominations_and_keeps_since(desk: Desk) -> None:
    await desk.store(job(7))
    await desk.commit(statement(7, run([0, 1], [0, 0], kind=NOMINATE, cid=BIG)))
    before = (await desk.ledger.snapshot()).nominations[7]
    moved = run([0], [1], kind=NOMINATE, cid=BIG)
    reply = await desk.commit(statement(7, run([1], [0], cid=BIG, version=2), moved))
    assert reply.answers[0].verdict is V.COMMITTED
    after = (await desk.ledger.snapshot()).nominations[7]
    assert after.since == before.since > 0
    assert [(r.tasks, r.rows) for r in after.runs] == [([0], [1])]
    assert (await desk.slots(0))[CPU] == (8000, 4000, 0, 0, 0)
    last = entry_of_kind((await desk.ledger.read_log("0"))[-1], CommitEntry)
    assert last.accepted[0].dropped == [7]


async def test_only_lower_ranks_are_displaced(desk: Desk) -> None:
    await desk.store(job(7), job(8))
    await desk.commit(statement(7, run([0, 1], [0, 0], kind=NOMINATE, cid=BIG), priority=5))
    equal = statement(8, run([0], [0], version=2), displaced=(7,), priority=5)
    reply = await desk.commit(equal)
    assert (reply.answers[0].verdict, reply.answers[0].at) == (V.RANK, 7)
    reply = await desk.commit(replace(equal, priority=6))
    assert reply.answers[0].verdict is V.COMMITTED
    assert (await desk.ledger.snapshot()).nominations == {}
    assert (await desk.slots(0))[CPU] == (8000, 1000, 0, 0, 0)


async def test_a_refused_statement_leaves_the_displaced_in_place(desk: Desk) -> None:
    await desk.store(job(7), job(8, Group(-1, 9)))
    await desk.commit(statement(7, run([0, 1], [0, 0], kind=NOMINATE, cid=BIG), priority=1))
    reply = await desk.commit(statement(8, run([0], [0]), displaced=(7,), priority=2))
    assert reply.answers[0].verdict is V.GANG
    assert (await desk.slots(0))[CPU] == (8000, 0, 0, 0, 8000)
    assert await desk.version(0) == 2


async def test_queue_limits_hold_for_every_ancestor(desk: Desk) -> None:
    await desk.store(PutQueue(ROOT, -1, [(CPU, 2000)], b"root"), job(7, Group(-1, 3)), job(8))
    reply = await desk.commit(statement(7, run([0, 1, 2], [0, 1, 2])))
    assert (reply.answers[0].verdict, reply.answers[0].at) == (V.QUEUE, ROOT)
    tail = run([0, 1, 2], [0, 1, 2])
    reply = await desk.commit(statement(8, tail=(tail,)))
    assert reply.answers[0].tail == [V.COMMITTED, V.COMMITTED, V.QUEUE]
    assert (await desk.ledger.snapshot()).queues[ROOT].used[CPU] == 2000


async def test_job_and_node_reads_are_checked(desk: Desk) -> None:
    await desk.store(job(7), job(9), DropJob(9), DropNode(3))
    reply = await desk.commit(
        statement(7, run([0], [0]), version=2),
        statement(7, run([0], [0]), qid=ROOT),
        statement(8, run([0], [0])),
        statement(9, run([0], [0]), version=2),
        statement(7, run([0], [0], cid=99)),
        statement(7, run([0], [0], group=1)),
        statement(7, run([0], [0], spec=2)),
        statement(7, run([0], [3])),
        statement(7, run([0], [77])),
    )
    results = [(a.verdict, a.at) for a in reply.answers]
    assert results[:6] == [(V.JOB, j) for j in (7, 7, 8, 9, 7, 7)]
    assert results[6:] == [(V.NODE, 0), (V.NODE, 3), (V.NODE, 77)]


async def test_a_task_is_placed_once(desk: Desk) -> None:
    await desk.store(job(7))
    reply = await desk.commit(
        statement(7, run([0, 0], [0, 1])),
        statement(7, run([0], [0])),
        statement(7, run([0], [1])),
    )
    assert [a.verdict for a in reply.answers] == [V.TASK, V.COMMITTED, V.TASK]
    assert (await desk.commit(statement(7, run([0], [1])))).answers[0].verdict is V.TASK


async def test_a_gang_never_comes_to_stand_between_zero_and_its_minimum(desk: Desk) -> None:
    role = Group(0, 2)
    await desk.store(job(7, Group(-1, 3), role, role))
    reply = await desk.commit(
        statement(7, run([0, 1], [0, 0], group=1)),
        statement(7, run([0, 1], [0, 0], group=1), run([5], [1], group=2)),
        statement(7, run([0, 1], [0, 0], group=1), run([9], [1], group=0)),
    )
    results = [(a.verdict, a.at) for a in reply.answers]
    assert results == [(V.GANG, 0), (V.GANG, 2), (V.COMMITTED, -1)]
    reply = await desk.commit(statement(7, tail=(run([5], [2], group=2), run([2], [2], group=1))))
    assert reply.answers[0].tail == [V.GANG, V.COMMITTED]


async def test_a_group_has_its_members_and_enough_of_the_groups_below_it(desk: Desk) -> None:
    """Three members in all, and one of two sub groups of two: neither minimum alone is enough."""
    await desk.store(job(7, Group(-1, stored_minimum(3, 1)), Group(0, 2), Group(0, 2)))
    pair, third = run([0, 1], [0, 0], group=1), run([9], [1], group=0)
    reply = await desk.commit(
        statement(7, pair),
        statement(7, run([7, 8, 9], [1, 1, 1], group=0)),
        statement(7, pair, third),
    )
    results = [(a.verdict, a.at) for a in reply.answers]
    assert results == [(V.GANG, 0), (V.GANG, 0), (V.COMMITTED, -1)]
    assert [g.held for g in (await desk.ledger.snapshot()).jobs[7].groups] == [3, 2, 0]


async def test_a_job_whose_policy_keeps_no_gangs_may_be_in_part(desk: Desk) -> None:
    role = Group(0, 2)
    await desk.store(job(7, Group(-1, 4), role, role))
    reply = await desk.commit(
        replace(statement(7, run([0], [0], group=1)), in_part=True),
        replace(statement(7, run([1], [1], group=1), run([5], [2], group=2)), in_part=True),
        replace(statement(7, tail=(run([9], [3], group=2),)), in_part=True),
    )
    assert [a.verdict for a in reply.answers] == [V.COMMITTED] * 3
    assert reply.answers[2].tail == [V.COMMITTED]
    held = [group.held for group in (await desk.ledger.snapshot()).jobs[7].groups]
    assert held == [4, 2, 2]


async def test_one_statement_in_part_says_nothing_of_the_next(desk: Desk) -> None:
    await desk.store(job(7, Group(-1, 2)), job(8, Group(-1, 2)))
    reply = await desk.commit(
        replace(statement(7, run([0], [0])), in_part=True), statement(8, run([0], [1]))
    )
    assert [a.verdict for a in reply.answers] == [V.COMMITTED, V.GANG]


async def test_a_gang_already_in_between_may_grow(desk: Desk) -> None:
    await desk.store(job(7, Group(-1, 3)))
    await desk.commit(statement(7, run([0, 1, 2], [0, 1, 2])))
    await desk.record(StatusItem(TaskState.FAILED, 7, [0, 1], [0, 1]))
    assert (await desk.ledger.snapshot()).jobs[7].groups[0].held == 1
    assert (await desk.commit(statement(7, run([3], [0])))).answers[0].verdict is V.RECHECKED


async def test_domain_conditions(desk: Desk) -> None:
    await desk.store(job(7), job(8), job(9))
    alone = [DomainOp("term/a", 1, "eq0"), DomainOp("term/b", 1, "le", 1)]
    ask = [replace(statement(j, run([0], [0])), domains=alone) for j in (7, 8)]
    follow = replace(statement(9, run([0], [0])), domains=[DomainOp("term/a", 1, "ge1")])
    reply = await desk.commit(*ask, follow)
    assert [(a.verdict, a.at) for a in reply.answers] == [
        (V.COMMITTED, -1),
        (V.DOMAIN, 0),
        (V.RECHECKED, -1),
    ]
    snapshot = await desk.ledger.snapshot()
    assert snapshot.domains == {"term/a": 2, "term/b": 1}
    assert snapshot.jobs[8].groups[0].held == 0


async def test_a_tail_stands_alone_and_falls_with_its_core(desk: Desk) -> None:
    await desk.store(job(7, Group(-1, 2)), job(8, Group(-1, 2)))
    tail = run([2, 3, 4], [0, 0, 1], cid=BIG)
    reply = await desk.commit(
        statement(7, run([0, 1], [0, 0]), tail=(tail,)),
        statement(8, run([0], [3]), tail=(run([1], [3]),)),
    )
    assert reply.answers[0].tail == [V.COMMITTED, V.FIT, V.COMMITTED]
    assert (reply.answers[1].verdict, reply.answers[1].tail) == (V.GANG, [])
    entry = entry_of_kind((await desk.ledger.read_log("0"))[-1], CommitEntry)
    assert entry.accepted[0].tail[0].tasks == [2, 4]
    assert entry.refused == [(7, V.FIT), (8, V.GANG)]


async def test_a_host_port_is_there_without_being_said(desk: Desk) -> None:
    await desk.store(job(7), job(8), job(9))
    reply = await desk.commit(*(statement(j, run([0], [0], cid=PORTED)) for j in (7, 8)))
    assert [a.verdict for a in reply.answers] == [V.COMMITTED, V.FIT]
    assert (await desk.slots(0))[PORT] == (1, 1, 0, 0, 0)
    await desk.store(node(0))
    assert (await desk.slots(0))[PORT] == (1, 1, 0, 0, 0)
    await desk.record(StatusItem(TaskState.SUCCEEDED, 7, [0], [0]))
    reply = await desk.commit(statement(9, run([0], [0], cid=PORTED)))
    assert reply.answers[0].verdict is V.RECHECKED


async def test_a_port_counts_although_the_record_grew_past_it_before(desk: Desk) -> None:
    await desk.store(job(7), job(8), job(9))
    await desk.commit(statement(7, run([0], [0], cid=PORTED)))
    assert (await desk.slots(0))[PORT - 1] == (0, 0, 0, 0, 0)
    await desk.store(PutClass(5, [(PODS, 1, 0), (PORT - 1, 1, 1)], b"new port"))
    reply = await desk.commit(*(statement(j, run([0], [0], cid=5)) for j in (8, 9)))
    assert [a.verdict for a in reply.answers] == [V.RECHECKED, V.FIT]
    assert (await desk.slots(0))[PORT - 1] == (1, 1, 0, 0, 0)
