"""Changed keys, by the log and by a new reading: of a real server and of one in memory."""

from __future__ import annotations

from shared.codec.packed import replace
from shared.ledger.entries.changes import ChangedKeys
from shared.ledger.entries.intake_batch import (
    DropJob,
    DropNode,
    DropQueue,
    IntakeBatch,
    IntakeOp,
    PurgeJob,
    PutClass,
    PutObject,
    PutPartition,
    PutQueue,
)
from shared.messages.messages import NOMINATE, Group, StatusItem, TaskState
from tests.shared.ledger.of_snapshot import part_of
from tests.shared.ledger.support import (
    COORDINATOR,
    CPU,
    LEAF,
    OTHER,
    Desk,
    job,
    node,
    run,
    statement,
)

DOCUMENT = "Pod/ns/p"


class ChangeFollower:
    def __init__(self, desk: Desk, log_id: str) -> None:
        self._desk = desk
        self._log_id = log_id

    async def moved(self) -> ChangedKeys:
        """Keys that changed since the last question; what is read of them equals the ledger's
        contents."""
        ledger, moved = self._desk.ledger, ChangedKeys()
        entries = await ledger.read_log(self._log_id)
        self._log_id = entries[-1].id
        moved.note(entries)
        read, whole = await ledger.read_moved(moved), await ledger.snapshot()
        assert replace(read, log_id=whole.log_id) == part_of(whole, moved)
        return moved


async def following(desk: Desk) -> ChangeFollower:
    return ChangeFollower(desk, await desk.ledger.log_tail())


async def test_tasks_that_moved_are_read_alone_and_jobs_that_changed_as_a_whole(
    desk: Desk,
) -> None:
    await desk.store(*(job(j, Group(-1, 1)) for j in (1, 2, 3)))
    follower = await following(desk)
    await desk.commit(statement(1, run([0, 1, 2], [0, 1, 2])), statement(2, run([5], [3])))
    moved = await follower.moved()
    assert (moved.jobs, moved.tasks) == (set(), {1: {0, 1, 2}, 2: {5}})
    await desk.record(StatusItem(TaskState.RUNNING, 1, [1], [1]))
    await desk.store(job(2, Group(-1, 2), version=2))
    moved = await follower.moved()
    assert (moved.jobs, moved.tasks) == ({2}, {1: {1}})
    await desk.record(StatusItem(TaskState.PENDING, 1, [0], [0]))  # its record is gone with that
    await desk.record(StatusItem(TaskState.RUNNING, 2, [5], [3]))
    moved = await follower.moved()
    assert (moved.jobs, moved.tasks) == (set(), {1: {0}, 2: {5}})


async def test_deleted_keys_are_named_as_changed_and_read_as_absent(desk: Desk) -> None:
    await desk.store(job(1), job(2), PutObject("a", b"1"), PutQueue(9, -1, None, b"nine"))
    follower = await following(desk)
    ops: list[IntakeOp] = [DropJob(1), PurgeJob(1), DropNode(3), DropQueue(9), PutObject("a", None)]
    await desk.store(*ops)
    moved = await follower.moved()
    assert (moved.jobs, moved.nodes, moved.queues, moved.objects) == ({1}, {3}, {9}, {"a"})
    part = await desk.ledger.read_moved(moved)
    assert not (part.jobs or part.node_specs or part.queue_specs or part.objects)
    await desk.store(DropJob(2))
    part = await desk.ledger.read_moved(await follower.moved())
    assert part.jobs[2].gone


async def test_everything_that_is_stored_is_named(desk: Desk) -> None:
    follower = await following(desk)
    partition = PutPartition(1, {0: [0, 1], 1: [2, 3]})
    ops: list[IntakeOp] = [
        PutClass(7, [(CPU, 1, 0)], b"seven"),
        node(4),
        PutQueue(OTHER, LEAF, None, b"moved"),
        PutObject("b", b"2"),
        partition,
    ]
    sequence, epoch = desk.next(COORDINATOR), desk.epochs[COORDINATOR]
    documents: list[tuple[str, bytes | None]] = [(DOCUMENT, b"text")]
    batch = IntakeBatch(COORDINATOR, epoch, sequence, desk.run_id, ops, documents)
    await desk.ledger.store(batch)
    moved = await follower.moved()
    assert (moved.classes, moved.nodes, moved.queues) == ({7}, {4}, {OTHER})
    assert (moved.objects, moved.documents, moved.partition) == ({"b"}, {DOCUMENT}, True)
    assert len(moved) == 6
    part = await desk.ledger.read_moved(moved)
    assert part.partition is not None
    assert part.partition.shards == partition.shards
    assert part.documents[DOCUMENT] == b"text"


async def test_nominations_move_no_task(desk: Desk) -> None:
    await desk.store(job(1), job(2))
    follower = await following(desk)
    await desk.commit(statement(1, run([0], [0], kind=NOMINATE), expiry=1_700_000_100.0))
    await desk.record(expired=(1,))
    assert len(await follower.moved()) == 0


async def test_a_follower_is_known_until_it_follows_no_more(desk: Desk) -> None:
    ledger = desk.ledger
    assert await ledger.readers() == {}
    await ledger.report_reader("a:1", "1-0")
    await ledger.report_reader("b:2", "5-1")
    await ledger.report_reader("a:1", "7-0")
    assert await ledger.readers() == {"a:1": "7-0", "b:2": "5-1"}
    await ledger.report_reader("b:2", None)
    await ledger.report_reader("b:2", None)
    assert await ledger.readers() == {"a:1": "7-0"}
