"""Documents, and the end of queues and jobs, on a real server and on one in memory."""

from __future__ import annotations

import pytest

from shared.ledger.entries.intake_batch import (
    DropClass,
    DropJob,
    DropQueue,
    IntakeBatch,
    IntakeOp,
    PurgeJob,
    PutClass,
    PutQueue,
)
from shared.ledger.entries.log import IntakeEntry
from shared.ledger.errors import LedgerArgument
from shared.messages.messages import Group, StatusItem, TaskState, Verdict
from tests.shared.ledger.support import (
    COORDINATOR,
    CPU,
    LEAF,
    OTHER,
    ROOT,
    SMALL,
    Desk,
    entry_of_kind,
    job,
    run,
    statement,
)

S = TaskState
POD = "Pod/ns/p"


def batch(desk: Desk, *ops: IntakeOp, documents: dict[str, bytes | None]) -> IntakeBatch:
    sequence = desk.next(COORDINATOR)
    epoch = desk.epochs[COORDINATOR]
    return IntakeBatch(COORDINATOR, epoch, sequence, desk.run_id, [*ops], [*documents.items()])


async def rejected(desk: Desk, *ops: IntakeOp) -> str:
    """Error for a batch; the ledger must not have changed."""
    before, tail = await desk.ledger.snapshot(), await desk.ledger.log_tail()
    with pytest.raises(LedgerArgument) as caught:
        await desk.store(*ops)
    assert await desk.ledger.snapshot() == before
    assert await desk.ledger.log_tail() == tail
    return str(caught.value)


# --- documents --------------------------------------------------------------------------------


async def test_the_log_holds_only_the_keys_of_documents(desk: Desk) -> None:
    first = batch(desk, job(7), documents={POD: b"\x00one \xff", "Node//n": b"two"})
    await desk.ledger.store(first)
    snapshot = await desk.ledger.snapshot()
    assert snapshot.documents == {POD: b"\x00one \xff", "Node//n": b"two"}
    assert set(snapshot.jobs) == {7}
    assert (await desk.ledger.snapshot(workload=False)).documents == {}
    entry = entry_of_kind((await desk.ledger.read_log("0"))[-1], IntakeEntry)
    assert entry.ops == [job(7)]
    assert sorted(entry.documents) == ["Node//n", POD]


async def test_documents_change_and_go_alone_and_the_log_names_them(desk: Desk) -> None:
    tail = await desk.ledger.log_tail()
    first = batch(desk, documents={POD: b"one", "Node//n": b"two"})
    await desk.ledger.store(first)
    await desk.ledger.store(batch(desk, documents={POD: None, "Pod/ns/none": None}))
    assert (await desk.ledger.snapshot()).documents == {"Node//n": b"two"}
    assert (await desk.ledger.store(first)).replayed
    assert (await desk.ledger.snapshot()).documents == {"Node//n": b"two"}
    entries = [entry_of_kind(entry, IntakeEntry) for entry in await desk.ledger.read_log(tail)]
    assert [(entry.ops, entry.documents) for entry in entries] == [
        ([], [POD, "Node//n"]),
        ([], [POD, "Pod/ns/none"]),
    ]


async def test_a_rejected_batch_keeps_no_document(desk: Desk) -> None:
    wrong = batch(desk, PutQueue(5, 99, None, b"q"), documents={POD: b"one"})
    with pytest.raises(LedgerArgument):
        await desk.ledger.store(wrong)
    assert (await desk.ledger.snapshot()).documents == {}


async def test_thousands_of_documents_in_one_call(desk: Desk) -> None:
    many: dict[str, bytes | None] = {f"Pod/ns/{i}": b"%d" % i for i in range(5001)}
    await desk.ledger.store(batch(desk, documents=many))
    assert (await desk.ledger.snapshot()).documents == many
    await desk.ledger.store(batch(desk, documents=dict.fromkeys(many)))
    assert (await desk.ledger.snapshot()).documents == {}


# --- queues -----------------------------------------------------------------------------------


async def test_a_queue_goes_when_nothing_needs_it(desk: Desk) -> None:
    assert "queue 1 is below it" in await rejected(desk, DropQueue(OTHER), DropQueue(ROOT))
    await desk.store(job(7))
    await desk.commit(statement(7, run([0], [0])))
    assert "use something" in await rejected(desk, DropQueue(LEAF))
    await desk.record(StatusItem(S.SUCCEEDED, 7, [0], [0]))
    await desk.store(DropQueue(LEAF), DropQueue(OTHER), DropQueue(ROOT), DropQueue(ROOT))
    snapshot = await desk.ledger.snapshot()
    assert (snapshot.queues, snapshot.queue_specs) == ({}, {})
    assert "not known" in await rejected(desk, PutQueue(4, ROOT, None, b"q"))
    reply = await desk.commit(statement(7, run([1], [1])))
    assert reply.answers[0].verdict is Verdict.QUEUE


# --- jobs -------------------------------------------------------------------------------------


async def test_a_job_is_forgotten_when_its_last_task_has_left(desk: Desk) -> None:
    await desk.store(job(7), job(8))
    await desk.commit(statement(7, run([0, 2], [0, 1])), statement(8, run([0], [2])))
    assert "drop it first" in await rejected(desk, PurgeJob(7))
    await desk.store(DropJob(7))
    assert "still holds node 0" in await rejected(desk, PurgeJob(7))
    await desk.record(StatusItem(S.FAILED, 7, [0, 2], [0, 1]))
    await desk.store(PurgeJob(7), PurgeJob(7), PurgeJob(99))
    snapshot = await desk.ledger.snapshot()
    assert (set(snapshot.jobs), set(snapshot.job_specs), set(snapshot.tasks)) == ({8}, {8}, {8})
    assert (await desk.slots(0))[CPU] == (8000, 0, 0, 0, 0)
    assert await desk.ledger.read_tasks([7]) == {}


async def test_a_job_may_come_and_go_in_one_batch(desk: Desk) -> None:
    await desk.store(job(7), DropJob(7), PurgeJob(7))
    assert (await desk.ledger.snapshot()).jobs == {}
    await desk.store(job(7), DropJob(7), PurgeJob(7), job(7, Group(-1, 2)))
    assert (await desk.ledger.snapshot()).jobs[7].groups == [Group(-1, 2)]


async def test_members_that_nobody_holds_any_more(desk: Desk) -> None:
    await desk.store(job(7, Group(-1, 2, 3), Group(0, 1, 2)))
    await desk.store(job(7, Group(-1, 2, -1), Group(0, 1, -1)))
    held = [g.held for g in (await desk.ledger.snapshot()).jobs[7].groups]
    assert held == [2, 1]
    await desk.store(job(7, Group(-1, 2, -5), Group(0, 1, -1)), job(8, Group(-1, 1, -1)))
    jobs = (await desk.ledger.snapshot()).jobs
    assert [g.held for g in (*jobs[7].groups, *jobs[8].groups)] == [0, 0, 0]


# --- classes --------------------------------------------------------------------------------------


async def test_a_class_that_is_forgotten_is_placed_no_more(desk: Desk) -> None:
    """Nor is it among what a reader finds; its requests bind nobody any more."""
    await desk.store(job(7))
    await desk.store(DropClass(SMALL), DropClass(99))
    assert SMALL not in (await desk.ledger.snapshot()).classes
    (answer,) = (await desk.commit(statement(7, run([0], [0])))).answers
    assert answer.verdict is Verdict.JOB
    (entry,) = [e for e in await desk.ledger.read_log("0") if isinstance(e, IntakeEntry)][-1:]
    assert entry.ops == [DropClass(SMALL), DropClass(99)]
    await desk.store(PutClass(SMALL, [(CPU, 5, 0)], b"another"))
    assert (await desk.ledger.snapshot()).classes[SMALL] == b"another"


async def test_a_class_may_be_forgotten_and_stored_in_one_batch(desk: Desk) -> None:
    await desk.store(DropClass(SMALL), PutClass(SMALL, [(CPU, 5, 0)], b"another"))
    assert (await desk.ledger.snapshot()).classes[SMALL] == b"another"
    await desk.store(PutClass(SMALL, [(CPU, 5, 0)], b"again"), DropClass(SMALL))
    assert SMALL not in (await desk.ledger.snapshot()).classes
