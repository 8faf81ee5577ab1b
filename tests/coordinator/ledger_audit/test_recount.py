"""Each kind of damage is seen, put right by the next leader, and gone then, on both servers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from coordinator.ledger_audit.bind_watch import StuckBinds
from coordinator.ledger_audit.figures import AuditFigures
from coordinator.ledger_audit.findings import AuditKind, Finding
from coordinator.ledger_audit.looker import AuditReader
from coordinator.ledger_audit.recount import recount
from shared.codec.packed import replace
from shared.ledger import records
from shared.ledger.entries.audit import Table
from shared.ledger.entries.intake_batch import DropJob
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.entries.stored import BindEntry, TaskRecord, Write
from shared.ledger.errors import Deposed
from shared.ledger.protocol import Ledger
from shared.messages.messages import NOMINATE, DomainOp, Epoch, StatusItem, TaskState, Verdict
from tests.coordinator.ledger_audit.damage import (
    DAMAGES,
    GANG,
    GPU,
    OTHER_JOB,
    acknowledge,
    settle,
    specify,
)
from tests.coordinator.ledger_audit.looking import record, write
from tests.shared.ledger.support import (
    COORDINATOR,
    NAMED,
    PORT,
    PORTED,
    SHARED,
    SMALL,
    Desk,
    job,
    run,
    statement,
)

K = AuditKind


async def all_findings(ledger: Ledger) -> list[Finding]:
    """With binds that are lost now, whatever the time."""
    return await AuditReader(ledger, figures=AuditFigures(), watch=StuckBinds(0.0)).look()


async def take_over(desk: Desk) -> list[Finding]:
    """The next leader takes the ledger up, and recounts where it was asked to."""
    leader = await desk.claim(COORDINATOR)
    requested = await desk.ledger.take_up(leader, lambda progress: None)
    rewritten = await recount(desk.ledger, leader) if requested else []
    assert await desk.ledger.take_up(leader, lambda progress: None) == ""
    await desk.bless()
    return rewritten


async def confirm(desk: Desk) -> list[Finding]:
    """Mark the ledger for the next leader, as the audit of this one does; return its findings."""
    findings = await all_findings(desk.ledger)
    await desk.ledger.request_recount(str(findings[0]) if findings else "on suspicion")
    return findings


async def content(desk: Desk) -> Snapshot:
    """All records, without the position of the log."""
    return replace(await desk.ledger.snapshot(), log_id="")


async def binding(desk: Desk) -> None:
    """Job 11 has a task whose bind is open, 12 one without an entry, and is gone."""
    await desk.store(job(11), job(12))
    await desk.commit(statement(12, run([0], [3])))
    await acknowledge(desk)
    await desk.commit(statement(11, run([0], [3])))
    await desk.store(DropJob(12))


@pytest.mark.parametrize("reborn", [False, True])
async def test_right_records_are_left_alone(desk: Desk, reborn: bool) -> None:
    """Also those of a task that was evicted, is on no node any more, and has a record."""
    await settle(desk)
    await binding(desk)
    if reborn:
        await desk.record(StatusItem(TaskState.PENDING, GANG, [2], [1]))
    before = await content(desk)
    assert await confirm(desk) == []
    assert await take_over(desk) == []
    assert await content(desk) == before


@pytest.mark.parametrize("name", DAMAGES)
async def test_damage_is_found_and_put_right_by_the_next_leader(desk: Desk, name: str) -> None:
    await settle(desk)
    before = await content(desk)
    damage = DAMAGES[name]
    await damage.plant(desk)
    damaged = await content(desk)
    findings = await confirm(desk)
    assert damage.kind in {finding.kind for finding in findings}
    assert {f.identity for f in findings} <= {f.identity for f in await take_over(desk)}
    assert await all_findings(desk.ledger) == []
    after = await content(desk)
    for row, was, now in zip(
        damaged.nodes.rows, damaged.nodes.records, after.nodes.records, strict=True
    ):
        assert was == now or records.unpack_node(now)[0] > records.unpack_node(was)[0], row
    if damage.kind not in (K.TASK_WITHOUT_JOB, K.NOMINATION_WITHOUT_JOB, K.BIND_LOST):
        assert after.queues == before.queues
        assert (after.jobs, after.tasks) == (before.jobs, before.tasks)
        amounts = [records.unpack_node(r)[2] for r in after.nodes.records]
        assert amounts == [records.unpack_node(r)[2] for r in before.nodes.records]
        assert after.nodes.things == before.nodes.things


async def test_damage_of_every_sum_is_put_right_at_once(desk: Desk) -> None:
    """Several amounts of one record among them."""
    await settle(desk)
    kinds = (K.NODE_USED, K.NODE_RELEASING, K.NODE_NOMINATED, K.THING, K.QUEUE_USED)
    planted = [d for d in DAMAGES.values() if d.kind in (*kinds, K.QUEUE_LEAVING, K.GROUP_HELD)]
    for damage in planted:
        await damage.plant(desk)
    await confirm(desk)
    assert {f.kind for f in await take_over(desk)} == {damage.kind for damage in planted}
    assert await all_findings(desk.ledger) == []


async def test_an_amount_that_a_node_lost_comes_back_with_what_every_node_offers(
    desk: Desk,
) -> None:
    await desk.store(job(7))
    await desk.commit(statement(7, run([0], [2], cid=PORTED)))
    await acknowledge(desk)
    await desk.record(StatusItem(TaskState.RUNNING, 7, [0], [2]))
    await specify(desk.ledger, 2)
    before = await desk.slots(2)
    assert before[PORT] == (1, 1, 0, 0, 0)
    version, spec, amounts = records.unpack_node(await record(desk.ledger, Table.NODE, "2"))
    cut = records.pack_node(version, spec, amounts[: records.WIDTH * PORT])
    await write(desk.ledger, Table.NODE, "2", cut)
    await confirm(desk)
    await take_over(desk)
    assert await desk.slots(2) == before


# --- who may rewrite ------------------------------------------------------------------------------


async def test_nobody_writes_from_the_first_look_to_the_blessing(desk: Desk) -> None:
    """Not even a worker whose epoch nobody claimed anew."""
    await settle(desk)
    await DAMAGES["a-node-with-too-much-used"].plant(desk)
    await confirm(desk)
    leader, log_tail, verdicts = await desk.claim(COORDINATOR), desk.ledger.log_tail, []

    async def beginning_to_look() -> str:
        verdicts.append((await desk.commit(statement(OTHER_JOB, run([3], [0])))).verdict)
        return await log_tail()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(desk.ledger, "log_tail", beginning_to_look)
        await recount(desk.ledger, leader)
    verdicts.append((await desk.commit(statement(OTHER_JOB, run([3], [0])))).verdict)
    assert len(verdicts) > 2 and {*verdicts} == {Verdict.RUN}
    await desk.bless()


async def test_a_statement_that_relies_on_a_negative_counter_is_refused(desk: Desk) -> None:
    await settle(desk)
    await DAMAGES["a-negative-counter"].plant(desk)
    await confirm(desk)
    await take_over(desk)
    relying = replace(statement(OTHER_JOB, run([3], [0])), domains=[DomainOp("term/a", 0, "le", 9)])
    desk.run_id = await desk.bless()
    (answer,) = (await desk.commit(relying)).answers
    assert answer.verdict is Verdict.DOMAIN


async def test_a_deposed_leader_rewrites_nothing(desk: Desk) -> None:
    await settle(desk)
    await DAMAGES["a-node-with-too-much-used"].plant(desk)
    await confirm(desk)
    deposed, before = await desk.claim(COORDINATOR), await content(desk)
    await desk.claim(COORDINATOR)
    with pytest.raises(Deposed):
        await recount(desk.ledger, deposed)
    assert (await content(desk)).nodes == before.nodes
    assert await take_over(desk)


class Killed(Exception):
    pass


async def recount_killed(ledger: Ledger, leader: Epoch, *, at: int, answered: bool) -> None:
    """The leader is killed right before or right after a rewrite."""
    rewrite, left = ledger.rewrite, at

    async def dying(
        leader: Epoch, writes: Sequence[Write], binds: Sequence[BindEntry] = ()
    ) -> None:
        nonlocal left
        left -= 1
        if left or answered:
            await rewrite(leader, writes, binds)
        if not left:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "rewrite", dying)
        with suppress(Killed):
            await recount(ledger, leader)


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("name", ["a-task-without-job", "a-lost-bind"])
async def test_a_leader_that_is_killed_in_between_leaves_the_rest_to_its_successor(
    desk: Desk, name: str, answered: bool
) -> None:
    """Never twice: a lost bind gets one entry."""
    await settle(desk)
    await DAMAGES[name].plant(desk)
    await confirm(desk)
    at = 0
    while True:
        at += 1
        leader = await desk.claim(COORDINATOR)
        if not await desk.ledger.take_up(leader, lambda progress: None):
            break
        await recount_killed(desk.ledger, leader, at=at, answered=answered)
    await desk.bless()
    assert at > 2
    assert await all_findings(desk.ledger) == []
    entries, _ = await desk.ledger.open_binds("0", count=10)
    assert len(entries) == (name == "a-lost-bind")


async def test_damage_that_comes_back_keeps_nobody_from_leading(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next audit finds it again."""
    await settle(desk)
    damage = DAMAGES["a-node-with-too-much-used"]
    await damage.plant(desk)
    await confirm(desk)
    rewrite = desk.ledger.rewrite

    async def damaged_again(
        leader: Epoch, writes: Sequence[Write], binds: Sequence[BindEntry] = ()
    ) -> None:
        await rewrite(leader, writes, binds)
        if any(write.key == Table.NODE for write in writes):
            await damage.plant(desk)

    monkeypatch.setattr(desk.ledger, "rewrite", damaged_again)
    assert [finding.kind for finding in await take_over(desk)] == [damage.kind]
    assert [finding.kind for finding in await all_findings(desk.ledger)] == [damage.kind]


# --- what cannot be recomputed --------------------------------------------------------------------


async def test_without_a_class_nodes_and_queues_are_left_alone(desk: Desk) -> None:
    await settle(desk)
    for name in ("a-node-with-too-much-used", "a-queue-with-too-much-used"):
        await DAMAGES[name].plant(desk)
    await write(desk.ledger, Table.CLASS, str(SMALL), None)
    before = await content(desk)
    findings = await confirm(desk)
    assert findings and not any(finding.recomputable for finding in findings)
    assert await take_over(desk) == []
    after = await content(desk)
    assert (after.nodes, after.queues) == (before.nodes, before.queues)


@pytest.mark.parametrize("kind", ["held", "promised"])
async def test_without_a_class_the_things_of_its_nodes_are_left_alone(
    desk: Desk, kind: str
) -> None:
    """Nothing else on the node has that class."""
    await desk.store(job(7))
    cid = NAMED if kind == "held" else SHARED
    taken = run([0], [2], cid=cid) if kind == "held" else run([0], [2], kind=NOMINATE, cid=cid)
    await desk.commit(statement(7, taken, expiry=2e9))
    await write(desk.ledger, Table.CLASS, str(cid), None)
    before = await content(desk)
    assert await all_findings(desk.ledger)
    await confirm(desk)
    await take_over(desk)
    after = await content(desk)
    assert after.nodes.things == before.nodes.things
    row = before.nodes.rows.index(2)
    assert after.nodes.records[row] == before.nodes.records[row]


@pytest.mark.parametrize("spec", [b"", b"job-7"], ids=str)
async def test_without_its_specification_a_group_is_left_alone(desk: Desk, spec: bytes) -> None:
    await settle(desk)
    await DAMAGES["a-group-with-too-many"].plant(desk)
    await write(desk.ledger, Table.JOB_SPEC, str(GANG), spec)
    before = await record(desk.ledger, Table.JOB, str(GANG))
    assert [f.recomputable for f in await confirm(desk)] == [False]
    assert await take_over(desk) == []
    assert await record(desk.ledger, Table.JOB, str(GANG)) == before


async def test_a_stray_task_goes_though_its_node_has_no_record(desk: Desk) -> None:
    await settle(desk)
    stray = records.pack_task(TaskRecord(TaskState.RUNNING, 77, SMALL, 1), 900, 0)
    await write(desk.ledger, Table.TASK, "900.0", stray)
    await confirm(desk)
    await take_over(desk)
    assert await all_findings(desk.ledger) == []
    assert 900 not in (await content(desk)).tasks


async def test_a_stray_task_on_its_way_to_its_node_is_not_bound(desk: Desk) -> None:
    await settle(desk)
    stray = records.pack_task(TaskRecord(TaskState.BINDING, 1, SMALL, 1), 900, 0)
    await write(desk.ledger, Table.TASK, "900.0", stray)
    assert K.BIND_LOST not in {finding.kind for finding in await confirm(desk)}
    await take_over(desk)
    assert await open_entries(desk) == []
    assert 900 not in (await content(desk)).tasks


# --- binds ----------------------------------------------------------------------------------------


async def open_entries(desk: Desk) -> list[BindEntry]:
    return (await desk.ledger.open_binds("0", count=10))[0]


async def recount_binds(desk: Desk) -> None:
    findings = await confirm(desk)
    assert [finding.kind for finding in findings] == [K.BIND_LOST]
    await take_over(desk)
    assert await all_findings(desk.ledger) == []


async def test_another_task_of_the_job_has_an_entry(desk: Desk) -> None:
    await desk.store(job(11))
    await desk.commit(statement(11, run([0], [3])))
    await acknowledge(desk)
    await desk.commit(statement(11, run([1], [3])))
    await recount_binds(desk)
    binds = [entry.binds for entry in await open_entries(desk)]
    assert binds == [[(11, SMALL, [1], [3])], [(11, SMALL, [0], [3])]]


async def test_an_older_entry_of_the_task_is_of_another_node(desk: Desk) -> None:
    """Its bind was refused there and is not acknowledged yet; the task was placed again since."""
    await desk.store(job(11))
    await desk.commit(statement(11, run([0], [3])))
    first = await desk.ledger.read_binds("c")
    await desk.record(StatusItem(TaskState.PENDING, 11, [0], [3]))
    await desk.commit(statement(11, run([0], [2])))
    second = await desk.ledger.read_binds("c")
    await desk.ledger.ack_binds([entry.id for entry in second])
    await recount_binds(desk)
    entries = await open_entries(desk)
    assert [entry.id for entry in entries][:-1] == [entry.id for entry in first]
    assert entries[-1].binds == [(11, SMALL, [0], [2])]


async def test_a_reborn_task_is_bound_as_its_present_incarnation(desk: Desk) -> None:
    await settle(desk)
    await desk.record(StatusItem(TaskState.PENDING, GANG, [2], [1]))
    await desk.commit(statement(GANG, run([2], [3], group=1)))
    await acknowledge(desk)
    await recount_binds(desk)
    assert [(entry.binds, entry.incarnations) for entry in await open_entries(desk)] == [
        ([(GANG, SMALL, [2], [3])], {(GANG, 2): 1})
    ]


async def test_a_task_is_bound_with_its_devices(desk: Desk) -> None:
    await settle(desk)
    devices = ((GPU, (50, 0)),)
    await desk.store(job(14))
    await desk.commit(statement(14, replace(run([0], [3]), devices=devices)))
    await acknowledge(desk)
    await recount_binds(desk)
    assert [entry.devices for entry in await open_entries(desk)] == [{(14, 0): devices}]


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


async def test_open_entries_are_read_in_portions(desk: Desk) -> None:
    await desk.store(job(11))
    for tix in range(3):
        await desk.commit(statement(11, run([tix], [tix])))
    entries, goes_on = await desk.ledger.open_binds("0", count=2)
    rest, end = await desk.ledger.open_binds(goes_on, count=2)
    assert (len(entries), len(rest), end) == (2, 1, "")
