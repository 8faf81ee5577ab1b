"""Evictions by example, on a real server and on one in memory: each condition refused and
accepted, what an accepted one does, and what becomes of its victims."""

from __future__ import annotations

import pytest

from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import DropJob, PurgeJob, PutQueue
from shared.ledger.entries.log import CommitEntry
from shared.ledger.entries.stored import Evicted, TaskRecord
from shared.messages.messages import (
    GUARD_GANG,
    NOMINATE,
    Group,
    StatusItem,
    TaskState,
    Verdict,
)
from tests.shared.ledger.evicting import (
    THIRD,
    VICTIM,
    WINNER,
    S,
    V,
    evicting,
    plain,
    record,
    running,
    verdict,
    victims,
)
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
    run,
    statement,
)


async def test_a_victim_leaves_and_its_place_is_promised_in_one_statement(desk: Desk) -> None:
    await running(desk)
    alone = replace(evicting(place=True), evictions=[])
    assert verdict(await desk.commit(alone)) == (V.NOMINATION, 0)
    reply = await desk.commit(evicting(victims([1], [0]), guards=GUARD_GANG, place=True))
    assert verdict(reply) == (V.RECHECKED, -1)
    assert (await desk.slots(0))[CPU] == (8000, 8000, 0, 4000, 4000)
    snapshot = await desk.ledger.snapshot()
    assert snapshot.jobs[VICTIM].groups[0].held == 1
    assert snapshot.queues[LEAF].used == snapshot.queues[ROOT].used == used(2)
    assert snapshot.queues[LEAF].leaving == snapshot.queues[ROOT].leaving == used(1)
    assert snapshot.tasks[VICTIM][1] == TaskRecord(
        S.RELEASING, 0, BIG, 3, 0, 0, WINNER, "preempt: priority"
    )
    assert snapshot.nominations[WINNER].runs[0].rows == [0]


def used(tasks: int) -> dict[int, int]:
    return {CPU: 4000 * tasks, MEMORY: 2**32 * tasks, PODS: tasks}


async def test_log_and_bind_stream_tell_of_it(desk: Desk) -> None:
    await running(desk)
    await desk.commit(evicting(victims([1], [0]), guards=GUARD_GANG))
    entry = entry_of_kind((await desk.ledger.read_log("0"))[-1], CommitEntry)
    assert [(c.evictions, c.reason) for c in entry.accepted] == [
        ([replace(victims([1], [0]), guards=GUARD_GANG)], "preempt: priority")
    ]
    last = (await desk.ledger.read_binds("b"))[-1]
    assert last.binds == []
    assert last.evicts == [Evicted(VICTIM, WINNER, "preempt: priority", [1], [0], [0])]


async def test_an_evicted_task_is_pending_as_the_next_incarnation(desk: Desk) -> None:
    await running(desk)
    await desk.commit(evicting(victims([1], [0])))
    reply = await desk.record(StatusItem(S.PENDING, VICTIM, [1], [0]))
    assert reply.applied == [[1]]
    assert (await desk.slots(0))[CPU] == (8000, 4000, 0, 0, 0)
    snapshot = await desk.ledger.snapshot()
    assert snapshot.jobs[VICTIM].groups[0].held == 1
    assert (snapshot.queues[LEAF].used, snapshot.queues[LEAF].leaving) == (used(1), {})
    assert snapshot.tasks[VICTIM][1] == TaskRecord(S.PENDING, 0, BIG, 4, 0, 1)
    truth = await desk.ledger.read_tasks([VICTIM])
    assert truth[VICTIM][1][1].incarnation == 1
    again = statement(VICTIM, run([1], [1], cid=BIG))
    assert verdict(await desk.commit(again)) == (V.COMMITTED, -1)
    assert verdict(await desk.commit(again)) == (V.TASK, 1)
    assert await record(desk, VICTIM, 1) == TaskRecord(S.BINDING, 1, BIG, 5, 0, 1)
    last = (await desk.ledger.read_binds("b"))[-1]
    assert (last.binds, last.incarnations) == ([(VICTIM, BIG, [1], [1])], {(VICTIM, 1): 1})


async def test_a_refused_bind_keeps_the_incarnation(desk: Desk) -> None:
    await running(desk)
    await desk.commit(evicting(victims([1], [0])))
    await desk.record(StatusItem(S.PENDING, VICTIM, [1], [0]))
    await desk.commit(statement(VICTIM, run([1], [1], cid=BIG)))
    await desk.record(StatusItem(S.PENDING, VICTIM, [1], [1]))
    assert await record(desk, VICTIM, 1) == TaskRecord(S.PENDING, 1, BIG, 6, 0, 1)
    await desk.commit(statement(VICTIM, run([1], [2], cid=BIG)))
    await desk.record(StatusItem(S.RUNNING, VICTIM, [1], [2]))
    await desk.commit(evicting(victims([1], [2])))
    await desk.record(StatusItem(S.PENDING, VICTIM, [1], [2]))
    result = await record(desk, VICTIM, 1)
    assert result is not None
    assert result.incarnation == 2
    assert (await desk.ledger.snapshot()).jobs[VICTIM].groups[0].held == 1


@pytest.mark.parametrize(("end", "held"), [(S.SUCCEEDED, 2), (S.FAILED, 1)])
async def test_a_victim_that_ends_by_itself_has_ended(
    desk: Desk, end: TaskState, held: int
) -> None:
    """It was quicker than the order to stop it, or its job goes meanwhile."""
    await running(desk)
    await desk.commit(evicting(victims([1], [0])))
    assert (await desk.record(StatusItem(end, VICTIM, [1], [0]))).applied == [[1]]
    snapshot = await desk.ledger.snapshot()
    assert snapshot.jobs[VICTIM].groups[0].held == held
    assert snapshot.queues[LEAF].leaving == {}
    assert snapshot.tasks[VICTIM][1] == TaskRecord(end, 0, BIG, 4)
    assert (await desk.record(StatusItem(S.PENDING, VICTIM, [1], [0]))).applied == [[]]
    assert verdict(await desk.commit(statement(VICTIM, run([1], [1], cid=BIG)))) == (V.TASK, 1)


async def test_reports_about_leaving_tasks_change_nothing(desk: Desk) -> None:
    await running(desk)
    await desk.commit(evicting(victims([1], [0])))
    late = [StatusItem(s, VICTIM, [1], [0]) for s in (S.BOUND, S.RUNNING, S.RELEASING)]
    assert (await desk.record(*late)).applied == [[], [], []]


async def test_a_task_leaving_by_itself_is_no_victim_and_never_pending(desk: Desk) -> None:
    await running(desk)
    await desk.record(StatusItem(S.RELEASING, VICTIM, [1], [0]))
    assert (await desk.ledger.snapshot()).queues[LEAF].leaving == used(1)
    assert verdict(await desk.commit(evicting(victims([1], [0])))) == (V.TASK, 1)
    assert (await desk.record(StatusItem(S.PENDING, VICTIM, [1], [0]))).applied == [[]]
    await desk.record(StatusItem(S.SUCCEEDED, VICTIM, [1], [0]))
    assert (await desk.ledger.snapshot()).queues[LEAF].leaving == {}


async def test_only_a_task_that_still_runs_on_its_node_is_evicted(desk: Desk) -> None:
    await running(desk, Group(-1, 1), Group(0, 0))
    await desk.commit(statement(VICTIM, run([4], [1], cid=BIG)))  # its bind is on its way
    await desk.commit(statement(VICTIM, run([5], [1], cid=BIG, version=2)))
    await desk.record(StatusItem(S.BOUND, VICTIM, [5], [1]))
    before = await plain(desk)
    for wrong, at in (
        (victims([2], [0]), 2),  # pending
        (victims([4], [1]), 4),  # binding
        (victims([1], [1]), 1),  # on another node
        (victims([1], [0], cid=SMALL), 1),
        (victims([1], [0], group=1), 1),
        (victims([0, 1, 1], [0, 0, 0]), 1),  # twice
    ):
        assert verdict(await desk.commit(evicting(wrong))) == (V.TASK, at)
    nobody = evicting(victims([], [], cid=99))
    assert verdict(await desk.commit(nobody)) == (V.COMMITTED, -1)
    both = evicting(victims([0], [0]), victims([0], [0]))
    assert verdict(await desk.commit(both)) == (V.TASK, 0)
    assert await plain(desk) == before
    assert verdict(await desk.commit(evicting(victims([5], [1]))))[0] is V.COMMITTED


async def test_a_task_placed_in_the_same_batch_is_no_victim(desk: Desk) -> None:
    await desk.store(job(VICTIM), job(WINNER))
    reply = await desk.commit(
        statement(VICTIM, run([0], [0], cid=BIG)), evicting(victims([0], [0]))
    )
    assert [a.verdict for a in reply.answers] == [V.COMMITTED, V.TASK]


async def test_one_of_two_statements_gets_a_victim(desk: Desk) -> None:
    await running(desk)
    mine = evicting(victims([1], [0]), by=WINNER)
    reply = await desk.commit(mine, replace(mine, jid=THIRD))
    assert [a.verdict for a in reply.answers] == [V.COMMITTED, V.TASK]


async def test_the_victims_job_is_read(desk: Desk) -> None:
    await running(desk)
    assert verdict(await desk.commit(evicting(victims([0], [0], version=2)))) == (V.JOB, VICTIM)
    assert verdict(await desk.commit(evicting(victims([0], [0], jid=77)))) == (V.JOB, 77)
    await desk.store(DropJob(VICTIM))
    reply = await desk.commit(evicting(victims([0], [0])), evicting(victims([0], [0], version=2)))
    assert [(a.verdict, a.at) for a in reply.answers] == [(V.JOB, VICTIM)] * 2


async def test_a_job_that_goes_with_its_victim(desk: Desk) -> None:
    await running(desk)
    await desk.commit(evicting(victims([0, 1], [0, 0])))
    await desk.store(DropJob(VICTIM))
    await desk.record(StatusItem(S.FAILED, VICTIM, [0], [0]))
    await desk.record(StatusItem(S.PENDING, VICTIM, [1], [0]))
    assert (await desk.slots(0))[CPU] == (8000, 0, 0, 0, 0)
    await desk.store(PurgeJob(VICTIM))
    assert VICTIM not in (await desk.ledger.snapshot()).tasks


async def test_leaving_amounts_move_with_their_queue(desk: Desk) -> None:
    await running(desk)
    await desk.commit(evicting(victims([1], [0])))
    await desk.store(PutQueue(LEAF, OTHER, None, b"below"))
    queues = (await desk.ledger.snapshot()).queues
    assert [queues[q].leaving for q in (LEAF, OTHER, ROOT)] == [used(1)] * 3
    await desk.store(job(VICTIM, qid=ROOT))
    queues = (await desk.ledger.snapshot()).queues
    assert [queues[q].leaving for q in (LEAF, OTHER, ROOT)] == [{}, {}, used(1)]


async def test_a_statement_refused_for_its_placements_evicts_nobody(desk: Desk) -> None:
    await running(desk)
    await desk.store(job(THIRD, Group(-1, 5)))
    before = await plain(desk)
    too_many = run([0, 1, 2], [0, 0, 0], kind=NOMINATE, cid=BIG)
    ask = evicting(victims([0], [0]), victims([1], [0]))
    assert verdict(await desk.commit(replace(ask, core=[too_many]))) == (V.NOMINATION, 0)
    now = replace(ask, core=[run([0], [0], cid=BIG)])
    assert verdict(await desk.commit(now)) == (V.FIT, 0)
    gang = replace(ask, jid=THIRD, core=[run([0], [2], cid=BIG)])
    assert verdict(await desk.commit(gang)) == (V.GANG, 0)
    assert await plain(desk) == before
    assert await desk.ledger.read_binds("b")
    assert await desk.ledger.read_binds("b") == []


async def test_a_job_may_evict_its_own_for_others_of_its_own(desk: Desk) -> None:
    await running(desk)
    mine = replace(evicting(victims([0], [0]), by=VICTIM), core=[run([5], [1], cid=BIG)])
    assert verdict(await desk.commit(mine))[0] is V.COMMITTED
    same = replace(evicting(victims([1], [0]), by=VICTIM), core=[run([1], [1], cid=BIG, version=2)])
    assert verdict(await desk.commit(same)) == (V.TASK, 1)
    assert (await desk.ledger.snapshot()).jobs[VICTIM].groups[0].held == 2


async def test_an_eviction_is_replayed(desk: Desk) -> None:
    await running(desk)
    batch = desk.commit_batch(evicting(victims([1], [0]), place=True))
    first = await desk.ledger.commit(batch)
    before = await plain(desk)
    again = await desk.ledger.commit(batch)
    assert again.replayed
    assert again.answers == first.answers
    assert await plain(desk) == before
    assert len(await desk.ledger.read_binds("b")) == 2


async def test_the_cluster_has_a_victim_elsewhere(desk: Desk) -> None:
    """Where it runs it was not evicted; what leaves there leaves."""
    await running(desk)
    await desk.commit(evicting(victims([0, 1], [0, 0])))
    await desk.record(StatusItem(S.RUNNING, VICTIM, [0], [1], BIG, 0))
    await desk.record(StatusItem(S.RELEASING, VICTIM, [1], [2], BIG, 0))
    snapshot = await desk.ledger.snapshot()
    assert snapshot.tasks[VICTIM][0] == TaskRecord(S.RUNNING, 1, BIG, 4, 0, 0, -1, "")
    assert snapshot.tasks[VICTIM][1].by == WINNER
    assert snapshot.jobs[VICTIM].groups[0].held == 1
    assert snapshot.queues[LEAF].leaving == used(1)
    applied = await desk.record(StatusItem(S.PENDING, VICTIM, [0, 1], [1, 2]))
    assert applied.applied == [[1]]


async def test_a_pending_evicted_task_can_be_adopted_or_fail(desk: Desk) -> None:
    await running(desk)
    await desk.commit(evicting(victims([0, 1], [0, 0])))
    await desk.record(StatusItem(S.PENDING, VICTIM, [0, 1], [0, 0]))
    await desk.record(StatusItem(S.RUNNING, VICTIM, [0], [3], BIG, 0))
    await desk.record(StatusItem(S.FAILED, VICTIM, [1], [0]))
    tasks = (await desk.ledger.snapshot()).tasks[VICTIM]
    assert tasks == {
        0: TaskRecord(S.RUNNING, 3, BIG, 5, 0, 1),
        1: TaskRecord(S.FAILED, 0, BIG, 5, 0, 1),
    }
    assert (await desk.ledger.snapshot()).jobs[VICTIM].groups[0].held == 1


# --- what the victims make room for ---------------------------------------------------------------


async def waiting(desk: Desk) -> None:
    """Both victims leave node 0, one of their places is promised to the winner."""
    await running(desk)
    await desk.commit(evicting(victims([0, 1], [0, 0]), place=True))


async def grab(desk: Desk, tix: int, writer: str) -> Verdict:
    """A third job tries to get a place on node 0 by another shard."""
    version = await desk.version(0)
    mine = statement(THIRD, run([tix], [0], cid=BIG, version=version))
    return verdict(await desk.commit(mine, writer=writer))[0]


async def test_nominations_hold_against_every_shard_until_the_victims_have_left(
    desk: Desk,
) -> None:
    await waiting(desk)
    for writer in ("0", "1"):
        assert await grab(desk, 0, writer) is V.FIT
    await desk.record(StatusItem(S.PENDING, VICTIM, [0], [0]))
    # One has left. One place is promised, and the other's is still to come: that makes one for all.
    assert await grab(desk, 0, "1") is V.COMMITTED
    assert await grab(desk, 1, "1") is V.FIT
    await desk.record(StatusItem(S.PENDING, VICTIM, [1], [0]))
    for writer in ("0", "1"):
        assert await grab(desk, 1, writer) is V.NOMINATION
    come = statement(WINNER, run([0], [0], cid=BIG, version=await desk.version(0)))
    assert verdict(await desk.commit(come))[0] is V.COMMITTED
    assert (await desk.slots(0))[CPU] == (8000, 8000, 0, 0, 0)


async def test_nominations_of_a_preemptor_lapse_or_go_with_it(desk: Desk) -> None:
    await waiting(desk)
    await desk.record(StatusItem(S.PENDING, VICTIM, [0, 1], [0, 0]))
    assert await grab(desk, 0, "1") is V.COMMITTED
    assert await grab(desk, 1, "1") is V.NOMINATION
    await desk.record(expired=(WINNER,))
    assert await grab(desk, 1, "1") is V.COMMITTED


async def test_a_preemptor_that_is_deleted_gives_its_nominations_back(desk: Desk) -> None:
    await waiting(desk)
    await desk.store(DropJob(WINNER))
    assert (await desk.slots(0))[CPU] == (8000, 8000, 0, 8000, 0)
    await desk.record(StatusItem(S.PENDING, VICTIM, [0, 1], [0, 0]))
    assert [await grab(desk, t, "1") for t in (0, 1)] == [V.COMMITTED] * 2
