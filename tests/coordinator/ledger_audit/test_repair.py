"""Each kind of damage is seen, repaired by one call, and gone then, on both servers."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.ledger_audit.findings import AuditKind, Finding, Subject
from coordinator.ledger_audit.repairing import lost_binds, request_of, results_of
from shared.ledger import records
from shared.ledger.entries.intake_batch import DropJob
from shared.ledger.entries.repair import (
    OPEN_ENTRIES,
    RepairBatch,
    RepairReply,
    RepairRequest,
    RepairResult,
    Table,
    named_in,
)
from shared.ledger.entries.stored import TaskRecord
from shared.ledger.protocol import Ledger
from shared.messages.messages import NOMINATE, StatusItem, TaskState
from tests.coordinator.ledger_audit.damage import DAMAGES, GANG, acknowledge, settle
from tests.coordinator.ledger_audit.looking import look, record, write
from tests.security.sealed import pack_sealed
from tests.shared.ledger.support import COORDINATOR, NOTHING, SMALL, Desk, job, run, statement


async def repair(desk: Desk, request: RepairRequest) -> RepairReply:
    w = COORDINATOR
    batch = RepairBatch(w, desk.epochs[w], desk.next(w), desk.run_id, request)
    return await desk.ledger.repair(batch)


async def all_findings(ledger: Ledger) -> list[Finding]:
    """With binds that are lost now, whatever the time."""
    looking = await look(ledger)
    entries, _ = await ledger.open_binds("0", count=100)
    results = {}
    for jid, tix in looking.binding:
        packed = await record(ledger, Table.TASK, f"{jid}.{tix}")
        results[jid, tix] = records.unpack_task(packed, jid, tix), packed
    return [*looking.findings, *lost_binds(looking.binding, named_in(entries), results)]


async def task_records(ledger: Ledger, findings: list[Finding]) -> dict[tuple[int, int], bytes]:
    tasks = [(f.name[0], f.name[1]) for f in findings if len(f.name) == 2]
    return {(j, t): await record(ledger, Table.TASK, f"{j}.{t}") for j, t in tasks}


async def test_a_right_ledger_has_no_findings(desk: Desk) -> None:
    await settle(desk)
    assert await all_findings(desk.ledger) == []


@pytest.mark.parametrize("name", DAMAGES)
async def test_damage_is_found_and_repaired(desk: Desk, name: str) -> None:
    await settle(desk)
    before = await desk.ledger.snapshot()
    damage = DAMAGES[name]
    await damage.plant(desk)
    findings = await all_findings(desk.ledger)
    assert damage.kind in {finding.kind for finding in findings}
    request = request_of(findings, await task_records(desk.ledger, findings))
    reply = await repair(desk, request)
    assert set(results_of(request, reply).values()) == {RepairResult.REPAIRED}
    assert await all_findings(desk.ledger) == []
    if damage.kind not in (K.TASK_WITHOUT_JOB, K.NOMINATION_WITHOUT_JOB, K.BIND_LOST):
        after = await desk.ledger.snapshot()
        assert after.queues == before.queues
        assert (after.jobs, after.tasks) == (before.jobs, before.tasks)


# --- what is refused ------------------------------------------------------------------------------


async def everything(desk: Desk, evidence: bytes | None = None) -> RepairRequest:
    """A request for all records there are; ``evidence`` in place of what tells them."""
    ledger = desk.ledger

    async def ends(table: Table) -> list[tuple[str, bytes]]:
        page = await ledger.audit_page(table, after=await ledger.log_tail(), count=5000)
        return [(name.decode(), evidence or record[-8:]) for name, record in page.records]

    async def numbered(table: Table) -> list[tuple[int, bytes]]:
        return [(int(name), end) for name, end in sorted(await ends(table))]

    page = await ledger.audit_page(Table.TASK, after=await ledger.log_tail(), count=5000)
    tasks = sorted((name.decode(), evidence or record) for name, record in page.records)
    return RepairRequest(
        await numbered(Table.NODE),
        await numbered(Table.QUEUE),
        await numbered(Table.JOB),
        await numbered(Table.NOMINATION),
        await ends(Table.DOMAIN),
        [(*map(int, name.split(".")), record) for name, record in tasks],  # type: ignore[misc]
    )


def told(reply: RepairReply) -> set[RepairResult]:
    return {result for results in reply.results for result in results}


async def binding(desk: Desk) -> None:
    """Job 11 has a task whose bind is open, 12 one without an entry, and is gone."""
    await desk.store(job(11), job(12))
    await desk.commit(statement(12, run([0], [3])))
    await acknowledge(desk)
    await desk.commit(statement(11, run([0], [3])))
    await desk.store(DropJob(12))


@pytest.mark.parametrize("reborn", [False, True])
async def test_what_is_right_is_left_alone(desk: Desk, reborn: bool) -> None:
    """Also a job whose specification cannot be read, where its records explain what it holds; and
    a task that was evicted, is on no node any more, and has a record."""
    await settle(desk)
    await binding(desk)
    if reborn:
        await desk.record(StatusItem(TaskState.PENDING, GANG, [2], [1]))
    before, tail = await desk.ledger.snapshot(), await desk.ledger.log_tail()
    reply = await repair(desk, await everything(desk))
    assert [len(results) for results in reply.results] == [4, 3, 7, 2, 1, 12]
    assert told(reply) == {R.SOUND}
    assert await desk.ledger.snapshot() == before
    assert await desk.ledger.log_tail() == tail


@pytest.mark.parametrize("name", [*DAMAGES])
async def test_what_moved_since_it_was_seen_is_left_alone(desk: Desk, name: str) -> None:
    await settle(desk)
    await DAMAGES[name].plant(desk)
    before = await desk.ledger.snapshot()
    reply = await repair(desk, await everything(desk, b"00000000"))
    assert told(reply) == {R.MOVED}
    assert await desk.ledger.snapshot() == before


async def test_a_replay_repairs_once_and_gets_the_first_answer(desk: Desk) -> None:
    await settle(desk)
    await DAMAGES["a-node-with-too-much-used"].plant(desk)
    request, w = await everything(desk), COORDINATOR
    batch = RepairBatch(w, desk.epochs[w], desk.next(w), desk.run_id, request)
    first, version = await desk.ledger.repair(batch), await desk.version(1)
    again = await desk.ledger.repair(batch)
    assert (again.results, again.fresh) == (first.results, first.fresh)
    assert (first.replayed, again.replayed) == (False, True)
    assert await desk.version(1) == version


async def test_without_a_class_its_nodes_and_queues_are_not_known(desk: Desk) -> None:
    await settle(desk)
    await DAMAGES["a-node-with-too-much-used"].plant(desk)
    await DAMAGES["a-queue-with-too-much-used"].plant(desk)
    await write(desk.ledger, Table.CLASS, str(SMALL), None)
    before = (await everything(desk)).nodes, (await desk.ledger.snapshot()).queues
    asked = await everything(desk)
    reply = await repair(desk, RepairRequest(asked.nodes, asked.queues))
    nodes, queues, *_ = reply.results
    assert nodes == [R.UNKNOWN] * 4
    assert queues == [R.UNKNOWN, R.UNKNOWN, R.SOUND]
    assert ((await everything(desk)).nodes, (await desk.ledger.snapshot()).queues) == before
    assert not any(f.repairable for f in await findings_of(desk) if f.subject is Subject.QUEUE)


async def test_without_its_class_what_a_nomination_holds_is_not_known(desk: Desk) -> None:
    """Nothing else on the node has that class."""
    await desk.store(job(7))
    await desk.commit(statement(7, run([0, 1], [2, 2], kind=NOMINATE), expiry=2e9))
    await write(desk.ledger, Table.CLASS, str(SMALL), None)
    asked = await everything(desk)
    reply = await repair(desk, RepairRequest(asked.nodes))
    assert [row for row, result in enumerate(reply.results[0]) if result is R.UNKNOWN] == [2]


async def findings_of(desk: Desk) -> list[Finding]:
    return (await look(desk.ledger)).findings


def fields(**other: Any) -> bytes:
    """A job's specification as far as it is read, some of it another value."""
    role = {"name": "a", "cid": SMALL, "first": 0, "count": 2, "group": 0}
    values = [1, 7, "ns", "j", "Job", "u", "leaf", 0.0, 0, [], [[*(role | other).values()]]]
    return pack_sealed(b"job", values)


@pytest.mark.parametrize(
    "spec",
    [
        b"",
        b"job-7",
        pack_sealed(b"job", 5),
        pack_sealed(b"job", [1, 2, 3]),
        pack_sealed(b"job", [*range(1, 11), [7]]),
        fields(cid="one"),
        fields(count=None),
    ],
    ids=str,
)
async def test_without_its_specification_a_group_is_not_known(desk: Desk, spec: bytes) -> None:
    await settle(desk)
    await DAMAGES["a-group-with-too-many"].plant(desk)
    await write(desk.ledger, Table.JOB_SPEC, str(GANG), spec)
    before = await desk.ledger.snapshot()
    asked = await everything(desk)
    reply = await repair(desk, RepairRequest(jobs=[j for j in asked.jobs if j[0] == GANG]))
    assert reply.results[2] == [R.UNKNOWN]
    assert (await desk.ledger.snapshot()).jobs == before.jobs
    assert [f.repairable for f in await findings_of(desk)] == [False]


async def test_a_stray_task_goes_though_its_node_has_no_record(desk: Desk) -> None:
    await settle(desk)
    stray = records.pack_task(TaskRecord(TaskState.RUNNING, 77, SMALL, 1), 900, 0)
    await write(desk.ledger, Table.TASK, "900.0", stray)
    reply = await repair(desk, RepairRequest(tasks=[(900, 0, stray)]))
    assert reply.results[5] == [R.REPAIRED]
    assert await all_findings(desk.ledger) == []


# --- binds ----------------------------------------------------------------------------------------


async def task_request(desk: Desk, jid: int, tix: int) -> RepairRequest:
    packed = await record(desk.ledger, Table.TASK, f"{jid}.{tix}")
    return RepairRequest(tasks=[(jid, tix, packed)])


async def test_another_task_of_the_job_has_an_entry(desk: Desk) -> None:
    await desk.store(job(11))
    await desk.commit(statement(11, run([0], [3])))
    await acknowledge(desk)
    await desk.commit(statement(11, run([1], [3])))
    reply = await repair(desk, await task_request(desk, 11, 0))
    assert reply.results[5] == [R.REPAIRED]
    entries, _ = await desk.ledger.open_binds("0", count=10)
    assert [entry.binds for entry in entries] == [[(11, SMALL, [1], [3])], [(11, SMALL, [0], [3])]]


async def test_an_older_entry_of_the_task_is_of_another_node(desk: Desk) -> None:
    """Its bind was refused there and is not acknowledged yet; the task was placed again since."""
    await desk.store(job(11))
    await desk.commit(statement(11, run([0], [3])))
    first = await desk.ledger.read_binds("c")
    await desk.record(StatusItem(TaskState.PENDING, 11, [0], [3]))
    await desk.commit(statement(11, run([0], [2])))
    second = await desk.ledger.read_binds("c")
    await desk.ledger.ack_binds([entry.id for entry in second])
    reply = await repair(desk, await task_request(desk, 11, 0))
    assert reply.results[5] == [R.REPAIRED]
    entries, _ = await desk.ledger.open_binds("0", count=10)
    assert [entry.id for entry in entries][:-1] == [entry.id for entry in first]
    assert entries[-1].binds == [(11, SMALL, [0], [2])]


async def test_a_reborn_task_is_bound_as_the_incarnation_that_it_is(desk: Desk) -> None:
    await settle(desk)
    await desk.record(StatusItem(TaskState.PENDING, GANG, [2], [1]))
    await desk.commit(statement(GANG, run([2], [3], group=1)))
    await acknowledge(desk)
    reply = await repair(desk, await task_request(desk, GANG, 2))
    assert reply.results[5] == [R.REPAIRED]
    entries, _ = await desk.ledger.open_binds("0", count=10)
    assert [(entry.binds, entry.incarnations) for entry in entries] == [
        ([(GANG, SMALL, [2], [3])], {(GANG, 2): 1})
    ]


async def test_where_many_binds_are_open_it_waits(desk: Desk) -> None:
    await desk.store(job(11), job(12))
    await desk.commit(statement(11, run([0], [3])))
    await acknowledge(desk)
    for tix in range(OPEN_ENTRIES):
        await desk.commit(statement(12, run([tix], [tix % 4], cid=NOTHING)))
        if tix % 4 == 3:
            result = [*range(tix - 3, tix + 1)]
            await desk.record(StatusItem(TaskState.SUCCEEDED, 12, result, [0, 1, 2, 3]))
    reply = await repair(desk, await task_request(desk, 11, 0))
    assert reply.results[5] == [R.DEFERRED]
    entries, goes_on = await desk.ledger.open_binds("0", count=500)
    rest, end = await desk.ledger.open_binds(goes_on, count=500)
    assert (len(entries), len(rest), end) == (500, 12, "")


async def test_entries_that_are_acknowledged_are_not_open(desk: Desk) -> None:
    await desk.store(job(11))
    for tix in range(3):
        await desk.commit(statement(11, run([tix], [tix])))
    entries = await desk.ledger.read_binds("c", count=2)
    await desk.ledger.ack_binds([entries[0].id])
    result, _ = await desk.ledger.open_binds("0", count=10)
    assert [entry.binds[0][2] for entry in result] == [[1], [2]]
    await desk.ledger.ack_binds([entries[1].id])
    result, _ = await desk.ledger.open_binds("0", count=10)
    assert [entry.binds[0][2] for entry in result] == [[2]]


K, R = AuditKind, RepairResult
