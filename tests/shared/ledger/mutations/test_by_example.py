"""Checks of the scripts that the ledger's other examples do not reach; each has one here."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from redis.exceptions import ResponseError

from shared.codec.packed import replace
from shared.ledger import codec
from shared.ledger.entries.intake_batch import (
    DropJob,
    DropQueue,
    IntakeBatch,
    IntakeOp,
    PutClass,
    PutJob,
    PutNode,
    PutQueue,
)
from shared.ledger.errors import LedgerAltered, LedgerArgument, LedgerBehind
from shared.ledger.keys import key
from shared.ledger.schema import SCHEMA, TakeUpProgress
from shared.messages.messages import (
    NOMINATE,
    DomainOp,
    Epoch,
    EvictRun,
    Group,
    StatusItem,
    TaskState,
    Verdict,
)
from tests.shared.ledger.mutations.scripts import Scripts
from tests.shared.ledger.support import (
    COORDINATOR,
    CPU,
    LEAF,
    MEMORY,
    ROOT,
    SMALL,
    Desk,
    job,
    node,
    run,
    statement,
)

V, S = Verdict, TaskState

# --- what becomes of tasks ------------------------------------------------------------------------

CHANGES = {
    S.BINDING: {S.PENDING, S.BOUND, S.RUNNING, S.RELEASING, S.SUCCEEDED, S.FAILED, S.LOST},
    S.BOUND: {S.RUNNING, S.RELEASING, S.SUCCEEDED, S.FAILED, S.LOST},
    S.RUNNING: {S.RELEASING, S.SUCCEEDED, S.FAILED, S.LOST},
    S.RELEASING: {S.SUCCEEDED, S.FAILED, S.LOST},
    S.SUCCEEDED: set(),
    S.FAILED: set(),
    S.LOST: set(),
}
"""State -> the states that a task may reach from it; all else is old, and changes nothing."""


@pytest.mark.parametrize("current", CHANGES)
async def test_a_task_only_goes_forward(desk: Desk, current: TaskState) -> None:
    targets = [state for state in S if state is not S.BINDING]
    tasks = list(range(len(targets)))
    await desk.store(job(7))
    await desk.commit(statement(7, run(tasks, [0] * len(tasks))))
    if current is not S.BINDING:
        await desk.record(StatusItem(current, 7, tasks, [0] * len(tasks)))
    items = [StatusItem(target, 7, [t], [0]) for t, target in zip(tasks, targets, strict=True)]
    reply = await desk.record(*items)
    changed = {target for target, result in zip(targets, reply.applied, strict=True) if result}
    assert changed == CHANGES[current]


@pytest.mark.parametrize("tix", [-1, 0.5])
async def test_tasks_are_whole_numbers(scripts: Scripts, tix: Any) -> None:
    await scripts.desk.store(job(7))
    await scripts.rejected("record", codec.pack([[[int(S.FAILED), 7, [tix], [0]]], []]))


async def test_an_unknown_state_is_refused(scripts: Scripts) -> None:
    await scripts.rejected("record", codec.pack([[[8, 7, [0], [0]]], []]))


async def test_tasks_that_begin_anew_name_their_incarnations(scripts: Scripts) -> None:
    await scripts.rejected("record", codec.pack([[[int(S.PENDING), 7, [0], [0], 1]], []]))


async def test_a_task_is_adopted_though_its_queue_is_gone(desk: Desk) -> None:
    await desk.store(PutQueue(9, ROOT, None, b"short"), job(7, qid=9))
    await desk.store(DropQueue(9))
    reply = await desk.record(StatusItem(S.RUNNING, 7, [0], [1], cid=SMALL, group=0))
    assert reply.applied == [[0]]
    assert (await desk.slots(1))[CPU][1] == 1000


# --- statements -----------------------------------------------------------------------------------


async def test_a_job_without_a_queue_waits(desk: Desk) -> None:
    await desk.store(job(7, qid=-1))
    reply = await desk.commit(statement(7, run([0], [0]), qid=-1))
    assert reply.answers[0].verdict is V.QUEUE


async def test_a_task_is_promised_once(desk: Desk) -> None:
    await desk.store(job(7))
    reply = await desk.commit(statement(7, run([0, 0], [0, 1], kind=NOMINATE)))
    assert (reply.answers[0].verdict, reply.answers[0].at) == (V.TASK, 0)


async def test_nominations_and_empty_cores_hold_no_gang_member(desk: Desk) -> None:
    """Neither nominations nor a core without tasks come to stand below the minimum."""
    await desk.store(job(7, Group(-1, 3)))
    reply = await desk.commit(statement(7, run([0], [0], kind=NOMINATE)), statement(7, run([], [])))
    assert [a.verdict for a in reply.answers] == [V.COMMITTED, V.COMMITTED]
    assert (await desk.ledger.snapshot()).jobs[7].groups[0].held == 0


async def test_limits_beyond_the_lower_limb_count(desk: Desk) -> None:
    """A total whose low half is below the limit's and whose high half is above."""
    await desk.store(
        PutClass(9, [(MEMORY, 2**31, 0)], b"wide"),
        PutQueue(LEAF, ROOT, [(MEMORY, 2**30 + 5)], b"leaf"),
        job(7),
    )
    reply = await desk.commit(statement(7, run([0], [0], cid=9)))
    assert (reply.answers[0].verdict, reply.answers[0].at) == (V.QUEUE, LEAF)


@pytest.mark.parametrize("condition", ["ge1", "le", "eq0"])
async def test_a_counter_that_does_not_meet_its_condition(desk: Desk, condition: str) -> None:
    await desk.store(job(7), job(8))
    start = [DomainOp("term/a", 0 if condition == "ge1" else 2, "")]
    await desk.commit(replace(statement(7, run([0], [0])), domains=start))
    asks = [DomainOp("term/a", 1, condition, 1)]
    reply = await desk.commit(replace(statement(8, run([0], [1])), domains=asks))
    assert (reply.answers[0].verdict, reply.answers[0].at) == (V.DOMAIN, 0)


def columns(**changed: Any) -> bytes:
    """A batch with one statement of one run of one operation, some of it in another way."""
    number = struct.pack("<I", 1)
    parts = {
        "heads": struct.pack("<IIiiII", 7, 1, LEAF, 0, 1, 0),
        "runs": struct.pack("<IIII", 0, SMALL, 0, 1),
        "tasks": number,
        "rows": number,
        "versions": number,
        "specs": number,
        "levels": number,
        "extras": [],
    }
    return codec.pack(list((parts | changed).values()))


@pytest.mark.parametrize(
    "changed",
    [
        {"levels": b""},
        {"specs": b"\1\0\0\0\2\0\0\0"},
        dict.fromkeys(("tasks", "rows", "versions", "specs", "levels"), b"\1\0\0\0" * 2),
        {"runs": struct.pack("<IIII", 0, SMALL, 0, 1) + struct.pack("<IIII", 0, SMALL, 0, 0)},
        {"extras": [[1, [], [["term/a", 1, "never", 0]], 0.0]]},
        {"extras": [[1, [], [], 0.0, [[7, 1, SMALL, 0, [0], []]], 0, ""]]},
        {"extras": [[1, [], [], 0.0, [[7, 1, SMALL, 0, [], [0]]], 0, ""]]},
        {"extras": [[1, [], [], 0.0, [[7, 1, SMALL, 0, [0], [0], 0, [], [1], 5]], 0, ""]]},
        {"extras": [[1, [], [], 0.0, [[7, 1, SMALL, 0, [0], [0], 0, [1], [], 5]], 0, ""]]},
    ],
    ids=["short", "long", "operations", "runs", "condition", "victims", "rows", "new", "specs"],
)
async def test_a_batch_that_does_not_add_up_is_refused(scripts: Scripts, changed: Any) -> None:
    await scripts.desk.store(job(7))
    await scripts.rejected("commit", columns(**changed), b"")


# --- objects --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        PutClass(9, [(-1, 1, 0)], b""),
        PutClass(9, [(CPU, -1, 0)], b""),
        PutNode(0, [(CPU, -5)], 1, b""),
        PutNode(0, [(4096, 5)], 1, b""),
        PutJob(7, LEAF, 1, [Group(-2, 1)], b""),
        PutJob(7, LEAF, 1, [Group(0, 1)], b""),
        PutJob(7, LEAF, 1, [Group(-1, -1)], b""),
        PutJob(7, LEAF, 1, [Group(-1, 1), Group(-2, 1)], b""),
    ],
    ids=str,
)
async def test_numbers_of_objects_are_within_bounds(desk: Desk, op: IntakeOp) -> None:
    before = await desk.ledger.snapshot()
    with pytest.raises(LedgerArgument):
        await desk.store(job(5), op)
    assert await desk.ledger.snapshot() == before


@pytest.mark.parametrize(
    "op",
    [
        7,
        [99, 1],
        [12],
        [12, 1, 1],
        [12, "1"],
        [12, -2],
        [12, 0.5],
        [12, 2**53],
        [8, "name", 5],
        [1, 9, [0.5, 1, 0], b"", []],
        [1, 9, [0, 1.5, 0], b"", []],
        [1, 9, [0, 1], b"", []],
        [1, 9, [], b"", [5]],
        [1, 9, [], b"", [[5, [1], [1]]]],
        [1, 9, [], b"", [["a", 5, [1]]]],
        [1, 9, [], b"", [["a", [1], 5]]],
        [1, 9, [], b"", [["a", [0.5], [1]]]],
        [4, 0, [], [["a", [1.5]]]],
        [6, 7, LEAF, 1, [-1, 1], b""],
        [6, 7, LEAF, 1, [-0.5, 1, 0], b""],
    ],
    ids=str,
)
async def test_operations_have_their_form(scripts: Scripts, op: Any) -> None:
    await scripts.rejected("store", codec.pack([op]), codec.pack([]))


@pytest.mark.parametrize("documents", [["key"], [5, b"body"], ["key", 5], ["key", True]], ids=str)
async def test_documents_have_their_form(scripts: Scripts, documents: list[Any]) -> None:
    await scripts.rejected("store", codec.pack([]), codec.pack(documents))


async def test_a_key_of_another_type_stops_a_script_before_it_writes(scripts: Scripts) -> None:
    await scripts.ledger._writer.set(key("doc"), "a string")
    before = await scripts.ledger.snapshot(workload=False)
    w = COORDINATOR
    head = (w, scripts.desk.epochs[w], scripts.desk.next(w), scripts.desk.run_id)
    with pytest.raises(LedgerAltered, match="doc"):
        await scripts.ledger.store(IntakeBatch(*head, [node(7)], [("Job/default/a", b"{}")]))
    assert await scripts.ledger.snapshot(workload=False) == before


async def test_a_queue_with_usage_in_the_high_limb_alone_stays(desk: Desk) -> None:
    await desk.store(
        PutClass(9, [(MEMORY, 2**31, 0)], b"wide"),
        PutQueue(9, ROOT, None, b"short"),
        job(7, qid=9),
    )
    await desk.commit(statement(7, run([0], [0], cid=9), qid=9))
    with pytest.raises(LedgerArgument, match="queue 9"):
        await desk.store(DropQueue(9))


async def test_a_job_does_not_move_to_a_queue_that_is_not_there(desk: Desk) -> None:
    await desk.store(job(7))
    with pytest.raises(LedgerArgument, match="queue 77"):
        await desk.store(job(7, qid=77))


async def test_a_job_is_gone_once(desk: Desk) -> None:
    await desk.store(job(7))
    await desk.store(DropJob(7), DropJob(99))
    before = await desk.ledger.snapshot()
    await desk.store(DropJob(7))
    after = await desk.ledger.snapshot()
    assert (before.jobs, set(before.jobs)) == (after.jobs, {7})


# --- who may write --------------------------------------------------------------------------------


async def test_knowing_the_run_is_not_enough_before_it_is_blessed(scripts: Scripts) -> None:
    await scripts.write("meta", "run", "0" * 40)
    assert (await scripts.desk.store(job(7))).verdict is V.RUN


async def test_the_trimmed_part_of_the_log_counts_as_observed(scripts: Scripts) -> None:
    await scripts.write("meta", "trimmed", "77-3")
    ledger, leader = scripts.ledger, scripts.desk.epochs[COORDINATOR]
    for observed in ("76-9", "77-3"):
        ledger._newest = "0"
        assert await ledger.bless(leader, after=observed) == scripts.desk.run_id
    for later in ("77-4", "78-0"):
        ledger._newest = "0"
        with pytest.raises(LedgerBehind):
            await ledger.bless(leader, after=later)


async def test_the_ledger_of_another_cluster_is_not_blessed(scripts: Scripts) -> None:
    """Also where it became another's after the client had looked."""
    leader = str(scripts.desk.epochs[COORDINATOR])
    output = ("another", SCHEMA, "digest", 0, 0)
    code, result = await scripts.ledger._run("bless", COORDINATOR, leader, *output)
    assert (code, result.decode()) == (2, scripts.ledger.cluster)


async def test_records_of_another_schema_are_not_blessed(scripts: Scripts) -> None:
    leader = str(scripts.desk.epochs[COORDINATOR])
    output = (scripts.ledger.cluster, SCHEMA, "digest", 0, 0)
    await scripts.write("meta", "schema", str(SCHEMA - 1))
    assert await scripts.ledger._run("bless", COORDINATOR, leader, *output) == [4]
    await scripts.write("meta", "schema", str(SCHEMA))
    await scripts.write("meta", "take_up", TakeUpProgress(SCHEMA - 1).encode())
    assert await scripts.ledger._run("bless", COORDINATOR, leader, *output) == [4]


async def test_a_take_up_continues_for_the_leader_alone(scripts: Scripts) -> None:
    """Else nothing of it is written: by nobody else, and not from a schema or a progress before."""
    leader, begun = scripts.desk.epochs[COORDINATOR], TakeUpProgress(SCHEMA).encode()

    async def write(leader: Epoch, *stages: Any) -> int:
        packed = codec.pack([[5, b"7", b"record"], [6, b"7", False]])
        arguments = (*stages, packed, codec.pack([]))
        code: int = await scripts.ledger._run("take_up", COORDINATOR, str(leader), *arguments)
        return code

    before = await scripts.ledger._hash("node")
    now = (SCHEMA, "", SCHEMA + 1, begun)
    assert await write(Epoch(leader.counter, "another"), *now) == 1
    assert await write(leader, SCHEMA - 1, "", SCHEMA + 1, begun) == 2
    assert await write(leader, SCHEMA, begun, SCHEMA + 1, begun) == 2
    assert await scripts.ledger._hash("node") == before
    assert await scripts.read("meta", "run") == scripts.desk.run_id.encode()
    assert await write(leader, *now) == 0
    assert await scripts.read("node", "7") == b"record"
    assert await scripts.read("meta", "take_up") == begun.encode()
    assert await scripts.read("meta", "run") is None
    assert await write(leader, *now) == 2
    assert await write(leader, SCHEMA + 1, begun, SCHEMA + 1, "") == 0
    assert await scripts.read("meta", "take_up") is None
    assert await scripts.read("meta", "schema") == str(SCHEMA + 1).encode()


async def test_a_call_that_was_altered_on_its_way_is_refused(scripts: Scripts) -> None:
    printed = [*scripts.header(), codec.pack([]), codec.pack([])]
    with pytest.raises(ResponseError, match="QUADRANT-ALTERED"):
        await scripts.call("store", COORDINATOR, *printed, "0" * 40)


async def test_records_that_were_altered_are_not_taken(scripts: Scripts) -> None:
    desk = scripts.desk
    await desk.store(job(7), job(8))
    domains = [DomainOp("term/a", 1, "")]
    batch = desk.commit_batch(replace(statement(7, run([0], [0])), domains=domains))
    await desk.ledger.commit(batch)
    await scripts.alter("domain", "term/a", 0)
    with pytest.raises(LedgerAltered):
        await desk.commit(replace(statement(8, run([0], [1])), domains=domains))
    await scripts.alter("task", "7.0", 5)
    with pytest.raises(LedgerAltered):
        await desk.record(StatusItem(S.RUNNING, 7, [0], [0]))
    await scripts.alter("win:0", str(batch.sequence), 3)
    with pytest.raises(LedgerAltered):
        await desk.ledger.commit(batch)


@pytest.mark.parametrize("at", [20, 24, 30, -1], ids=["incarnation", "by", "why", "seal"])
async def test_an_altered_eviction_record_is_detected(scripts: Scripts, at: int) -> None:
    desk = scripts.desk
    await desk.store(job(7), job(8))
    await desk.commit(statement(7, run([0], [0])))
    await desk.record(StatusItem(S.RUNNING, 7, [0], [0]))
    victims = [EvictRun(7, 1, SMALL, 0, [0], [0], 0)]
    await desk.commit(replace(statement(8), evictions=victims, reason="preempt"))
    await scripts.alter("task", "7.0", at)
    with pytest.raises(LedgerAltered):
        await desk.record(StatusItem(S.PENDING, 7, [0], [0]))
    with pytest.raises(LedgerAltered):
        await desk.ledger.read_tasks([7])


async def test_a_task_record_of_another_length_is_not_taken(scripts: Scripts) -> None:
    await scripts.desk.store(job(7))
    await scripts.desk.commit(statement(7, run([0], [0])))
    await scripts.write("task", "7.0", (await scripts.read("task", "7.0"))[:15])
    with pytest.raises(LedgerAltered):
        await scripts.desk.record(StatusItem(S.RUNNING, 7, [0], [0]))
