"""Write permission, and the answer to a repeated request: epochs, blessing, the window."""

from __future__ import annotations

import pytest

from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import IntakeOp, PutClass, PutJob, PutQueue
from shared.ledger.errors import LedgerArgument
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.protocol import Ledger
from shared.messages.messages import Group, StatusItem, TaskState, Verdict
from tests.shared.ledger.support import CPU, LEAF, ROOT, SMALL, Desk, cluster, job, run, statement

V = Verdict


async def test_a_replay_changes_nothing_and_gets_the_first_answer(desk: Desk) -> None:
    await desk.store(job(7), job(8))
    batch = desk.commit_batch(statement(7, run([0], [0])), statement(8, run([0], [9])))
    first = await desk.ledger.commit(batch)
    before, tail = await desk.ledger.snapshot(), await desk.ledger.log_tail()
    again = await desk.ledger.commit(batch)
    assert again == replace(first, replayed=True)
    assert await desk.ledger.snapshot() == before
    assert await desk.ledger.log_tail() == tail


async def test_a_replay_shows_rows_as_they_stand_now(desk: Desk) -> None:
    await desk.store(job(7), job(8))
    batch = desk.commit_batch(statement(7, run([0], [0])))
    await desk.ledger.commit(batch)
    later = await desk.commit(statement(8, run([0], [0], version=2)))
    assert (await desk.ledger.commit(batch)).fresh == later.fresh


async def test_the_window_remembers_64_sequences_in_any_order(desk: Desk) -> None:
    empty = desk.commit_batch()
    for sequence in (2, 1, 66):
        reply = await desk.ledger.commit(replace(empty, sequence=sequence))
        assert (reply.verdict, reply.replayed) == (V.COMMITTED, False)
    for sequence, expected in ((1, V.OLD), (2, V.OLD), (3, V.COMMITTED), (66, V.COMMITTED)):
        reply = await desk.ledger.commit(replace(empty, sequence=sequence))
        assert (reply.verdict, reply.replayed) == (expected, sequence == 66)
    await desk.ledger.commit(replace(empty, sequence=10_000))
    assert (await desk.ledger.commit(replace(empty, sequence=66))).verdict is V.OLD


async def test_reports_and_intake_are_replayed_too(desk: Desk) -> None:
    await desk.store(job(7))
    await desk.commit(statement(7, run([0], [0])))
    item = StatusItem(TaskState.SUCCEEDED, 7, [0], [0])
    assert (await desk.record(item)).applied == [[0]]
    desk.sequences["coordinator"] -= 1
    again = await desk.record(item)
    assert (again.applied, again.replayed) == ([[0]], True)
    first = await desk.store(job(8))
    desk.sequences["coordinator"] -= 1
    assert await desk.store(job(9)) == replace(first, replayed=True)
    assert set((await desk.ledger.snapshot()).jobs) == {7, 8}


async def test_an_epoch_that_ended_is_refused_whole(desk: Desk) -> None:
    await desk.store(job(7))
    batch = desk.commit_batch(statement(7, run([0], [0])))
    renewed = await desk.claim("0")
    assert renewed.counter == batch.epoch.counter + 1
    tail = await desk.ledger.log_tail()
    for epoch in (batch.epoch, replace(renewed, nonce="other")):
        reply = await desk.ledger.commit(replace(batch, epoch=epoch))
        assert (reply.verdict, reply.answers, reply.fresh.rows) == (V.EPOCH, [], [])
    assert await desk.ledger.log_tail() == tail
    reply = await desk.ledger.commit(replace(batch, epoch=renewed))
    assert reply.answers[0].verdict is V.COMMITTED


async def test_a_claim_forgets_the_window(desk: Desk) -> None:
    await desk.store(job(7))
    batch = desk.commit_batch(statement(7, run([0], [0])))
    await desk.ledger.commit(batch)
    renewed = await desk.claim("0")
    reply = await desk.ledger.commit(replace(batch, epoch=renewed))
    assert (reply.replayed, reply.answers[0].verdict) == (False, V.TASK)


async def test_nothing_is_accepted_before_the_blessing(ledger: Ledger) -> None:
    desk = Desk(ledger)
    assert await ledger.run_id() == ""
    await ledger.open()
    await desk.claim("coordinator")
    assert (await desk.store(*cluster())).verdict is V.RUN
    desk.run_id = "0" * 40
    assert (await desk.store(*cluster())).verdict is V.RUN
    desk.run_id = await desk.bless()
    assert (await desk.store(*cluster())).verdict is V.COMMITTED


async def test_a_batch_of_an_earlier_run_is_refused(desk: Desk) -> None:
    if isinstance(desk.ledger, MemoryLedger):
        desk.ledger.restart()
        assert (await desk.store(job(7))).verdict is V.RUN
        await desk.bless()
    else:
        desk.run_id = "0" * 40
    assert (await desk.store(job(7))).verdict is V.RUN
    desk.run_id = await desk.ledger.run_id()
    assert (await desk.store(job(7))).verdict is V.COMMITTED


@pytest.mark.parametrize(
    "op",
    [
        PutClass(SMALL, [(CPU, 1001, 0)], b""),
        PutClass(9, [(CPU, 2**53, 0)], b""),
        PutClass(9, [(5000, 1, 0)], b""),
        PutQueue(ROOT, LEAF, None, b""),
        PutQueue(7, 6, None, b""),
        PutJob(7, LEAF, 1, [], b""),
        PutJob(7, LEAF, 1, [Group(-1, 1), Group(1, 1)], b""),
    ],
)
async def test_a_wrong_object_refuses_its_batch_and_changes_nothing(
    desk: Desk, op: IntakeOp
) -> None:
    before = await desk.ledger.snapshot()
    with pytest.raises(LedgerArgument, match=r"(class|queue|job) \d"):
        await desk.store(job(5), op, job(6))
    assert await desk.ledger.snapshot() == before


async def test_a_wrong_statement_refuses_its_batch(desk: Desk) -> None:
    await desk.store(job(7), job(8))
    good, short = statement(7, run([0], [0])), run([0, 1], [0, 1])
    short.rows.pop()
    with pytest.raises(LedgerArgument, match="length"):
        await desk.commit(good, statement(8, short))
    with pytest.raises(LedgerArgument, match="twice"):
        await desk.commit(good, statement(8, displaced=(3, 3)))
    with pytest.raises(LedgerArgument, match="job 8"):
        await desk.commit(good, statement(8, run([0], [-1])))
    with pytest.raises(LedgerArgument, match="length"):
        await desk.record(StatusItem(TaskState.BOUND, 7, [0], []))
    assert (await desk.ledger.snapshot()).tasks == {}
