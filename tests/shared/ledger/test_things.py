"""Named things of nodes: host ports, and parts of one device, by the rules that slots have."""

from __future__ import annotations

import pytest

from shared.ledger.entries.intake_batch import DropJob, DropNode, Observe, PutClass
from shared.ledger.entries.log import CommitEntry, IntakeEntry, StatusEntry
from shared.ledger.entries.stored import ThingAsk
from shared.ledger.errors import LedgerArgument
from shared.ledger.records import unpack_node, unpack_thing
from shared.messages.messages import NOMINATE, Group, Rows, StatusItem, TaskState
from shared.messages.messages import Verdict as V
from tests.shared.ledger.support import (
    CPU,
    DEVICE,
    HOST_PORT,
    NAMED,
    PODS,
    ROOT,
    SHARED,
    SMALL,
    Desk,
    entry_of_kind,
    job,
    node,
    run,
    statement,
)

Amounts = dict[str, list[tuple[int, ...]]]


def amounts(rows: Rows, row: int = 0) -> Amounts:
    """Things of a row: (allocatable, used, observed, releasing, nominated) by dimension."""
    results: Amounts = {}
    for at, name, record in rows.things:
        if at == row:
            flat = unpack_thing(record)[1]
            results[name] = [tuple(flat[i : i + 5]) for i in range(0, len(flat), 5)]
    return results


async def things(desk: Desk, row: int = 0) -> Amounts:
    return amounts((await desk.ledger.snapshot()).nodes, row)


async def ported(desk: Desk, *jids: int) -> list[V]:
    """Task 0 of each job on row 0, with the host port."""
    reply = await desk.commit(*(statement(j, run([0], [0], cid=NAMED)) for j in jids))
    return [answer.verdict for answer in reply.answers]


async def test_a_host_port_is_had_once_on_a_node_and_once_on_every_other(desk: Desk) -> None:
    await desk.store(job(7), job(8), job(9))
    assert await things(desk) == {}, "what nobody has is not written down"
    assert await ported(desk, 7, 8) == [V.COMMITTED, V.FIT]
    assert await things(desk) == {HOST_PORT: [(0, 1, 0, 0, 0)]}
    reply = await desk.commit(statement(8, run([0], [1], cid=NAMED)))
    assert reply.answers[0].verdict is V.COMMITTED
    for state in (TaskState.RUNNING, TaskState.SUCCEEDED):
        await desk.record(StatusItem(state, 7, [0], [0]))
    assert await things(desk) == {}, "what nobody has any more is forgotten"
    assert await ported(desk, 9) == [V.RECHECKED]


async def test_ports_count_for_no_queue_and_in_no_record_of_a_node(desk: Desk) -> None:
    await desk.store(job(7), *(PutClass(30 + n, [(PODS, 1, 0)], b"", port(n)) for n in range(4)))
    before = len((await desk.ledger.snapshot()).nodes.records[0])
    for n in range(4):
        reply = await desk.commit(statement(7, run([n], [0], cid=30 + n, version=1 + n)))
        assert reply.answers[0].verdict is V.COMMITTED
    snapshot = await desk.ledger.snapshot()
    assert len(snapshot.nodes.records[0]) == before
    assert snapshot.queues[ROOT].used == {PODS: 4}
    assert len(await things(desk)) == 4


def port(number: int) -> list[ThingAsk]:
    return [ThingAsk(f"port/TCP/{number}", (1,), (1,))]


async def test_a_device_is_shared_by_memory_and_cores_until_one_of_them_is_used_up(
    desk: Desk,
) -> None:
    """Three halves of the cores, and the memory of one alone: each dimension is a limit."""
    parts = PutClass(31, [(PODS, 1, 0)], b"", [ThingAsk(DEVICE, (300, 2), (1000, 5))])
    await desk.store(parts, job(7), job(8), job(9))
    for jid, expected in ((7, V.COMMITTED), (8, V.RECHECKED), (9, V.FIT)):
        reply = await desk.commit(statement(jid, run([0], [0], cid=31)))
        assert reply.answers[0].verdict is expected, jid
    assert await things(desk) == {DEVICE: [(0, 600, 0, 0, 0), (0, 4, 0, 0, 0)]}
    wide = PutClass(32, [(PODS, 1, 0)], b"", [ThingAsk(DEVICE, (500, 1), (1000, 5))])
    await desk.store(wide)
    reply = await desk.commit(statement(9, run([0], [0], cid=32)))
    assert reply.answers[0].verdict is V.FIT, "there are cores, but no memory"


async def test_a_releasing_port_can_be_nominated_and_is_kept_from_others(
    desk: Desk,
) -> None:
    await desk.store(job(6), job(7), job(8), job(9))
    assert await ported(desk, 6) == [V.COMMITTED]
    early = statement(7, run([0], [0], cid=NAMED, kind=NOMINATE))
    assert (await desk.commit(early)).answers[0].verdict is V.NOMINATION
    await desk.record(StatusItem(TaskState.RELEASING, 6, [0], [0]))
    assert await things(desk) == {HOST_PORT: [(0, 1, 0, 1, 0)]}
    assert (await desk.commit(early)).answers[0].verdict is V.RECHECKED
    again = statement(8, run([0], [0], cid=NAMED, kind=NOMINATE))
    assert (await desk.commit(again)).answers[0].verdict is V.NOMINATION
    assert await ported(desk, 8) == [V.FIT]
    await desk.record(StatusItem(TaskState.SUCCEEDED, 6, [0], [0]))
    assert await things(desk) == {HOST_PORT: [(0, 0, 0, 0, 1)]}
    assert await ported(desk, 8) == [V.NOMINATION], "it is idle, and promised"
    await desk.store(DropJob(7))
    assert await things(desk) == {}
    assert await ported(desk, 9) == [V.RECHECKED]


async def test_a_statement_that_is_refused_leaves_things_as_they_were(desk: Desk) -> None:
    await desk.store(job(7, Group(-1, 2)), job(8, Group(-1, 2)))
    both = run([0, 1], [1, 0], cid=NAMED)
    assert (await desk.commit(statement(7, both))).answers[0].verdict is V.COMMITTED
    reply = await desk.commit(statement(8, run([0, 1], [2, 0], cid=NAMED)))
    assert reply.answers[0].verdict is V.FIT
    assert await things(desk, 2) == {}
    assert amounts(reply.fresh, 0) == {HOST_PORT: [(0, 1, 0, 0, 0)]}, "the writer is shown why"


async def test_observed_usage_counts_and_unnamed_things_keep_theirs(desk: Desk) -> None:
    await desk.store(job(7), job(8))
    await desk.store(Observe(0, [], [(HOST_PORT, (1,)), (DEVICE, (400, 3))]))
    assert await ported(desk, 7) == [V.FIT]
    reply = await desk.commit(statement(8, run([0], [0], cid=SHARED)))
    assert reply.answers[0].verdict is V.FIT
    assert amounts(reply.fresh) == {
        HOST_PORT: [(0, 0, 1, 0, 0)],
        DEVICE: [(0, 0, 400, 0, 0), (0, 0, 3, 0, 0)],
    }
    await desk.store(Observe(0, [], [(HOST_PORT, (0,))]))
    assert await things(desk) == {DEVICE: [(0, 0, 400, 0, 0), (0, 0, 3, 0, 0)]}
    await desk.store(Observe(0, [], [(DEVICE, (0,))]))
    assert await things(desk) == {}, "a shorter vector says nothing of the rest: it is 0"
    assert await ported(desk, 7) == [V.RECHECKED]
    await desk.store(Observe(77, [], [(HOST_PORT, (1,))]))
    assert await things(desk, 77) == {}


async def test_an_adopted_task_takes_its_port_even_when_none_is_free(
    desk: Desk,
) -> None:
    await desk.store(job(7), job(8))
    assert await ported(desk, 7) == [V.COMMITTED]
    await desk.record(StatusItem(TaskState.RUNNING, 7, [0], [1], NAMED, 0))
    assert (await things(desk), await things(desk, 1)) == ({}, {HOST_PORT: [(0, 1, 0, 0, 0)]})
    await desk.record(StatusItem(TaskState.RELEASING, 8, [0], [1], NAMED, 0))
    assert await things(desk, 1) == {HOST_PORT: [(0, 2, 0, 1, 0)]}


async def test_the_log_tells_of_each_thing_that_moved_and_of_no_other(desk: Desk) -> None:
    await desk.store(job(7), job(8))
    await desk.store(Observe(0, [], [(DEVICE, (1,))]))
    await ported(desk, 7)
    await desk.record(StatusItem(TaskState.SUCCEEDED, 7, [0], [0]))
    *_, observed, committed, ended = await desk.ledger.read_log("0")
    assert amounts(entry_of_kind(observed, IntakeEntry).fresh) == {DEVICE: [(0, 0, 1, 0, 0)]}
    assert amounts(entry_of_kind(committed, CommitEntry).fresh) == {HOST_PORT: [(0, 1, 0, 0, 0)]}
    assert amounts(entry_of_kind(ended, StatusEntry).fresh) == {HOST_PORT: [(0, 0, 0, 0, 0)]}
    fresh = entry_of_kind(ended, StatusEntry).fresh
    assert fresh.things[0][:2] == (0, HOST_PORT)
    snapshot = await desk.ledger.snapshot()
    version = unpack_thing(fresh.things[0][2])[0]
    assert version == version_of_node(snapshot.nodes), "it has the version of its node"


def version_of_node(rows: Rows) -> int:
    return unpack_node(rows.records[rows.rows.index(0)])[0]


async def test_a_class_that_names_things_asks_for_something(desk: Desk) -> None:
    """Its members count for their gang once they are placed, like all that ask for anything."""
    await desk.store(job(7, Group(-1, 2)))
    reply = await desk.commit(statement(7, run([0], [0], cid=NAMED)))
    assert reply.answers[0].verdict is V.GANG
    reply = await desk.commit(statement(7, run([0, 1], [0, 1], cid=NAMED)))
    assert reply.answers[0].verdict is V.COMMITTED


async def test_things_of_a_node_that_went_are_given_back_like_its_slots(desk: Desk) -> None:
    await desk.store(job(7), job(8))
    await ported(desk, 7)
    await desk.store(DropNode(0))
    assert await ported(desk, 8) == [V.NODE]
    await desk.record(StatusItem(TaskState.FAILED, 7, [0], [0]))
    assert await things(desk) == {}
    await desk.store(node(0, spec=9))
    reply = await desk.commit(statement(8, run([0], [0], cid=NAMED, spec=9)))
    assert reply.answers[0].verdict is V.RECHECKED


BAD_NAMES = ("", "x" * 129, "a\0b")
BAD_AMOUNTS = ((), (1, 1, 1, 1, 1), (-1,), (2**53,))


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_a_thing_without_a_proper_name_is_refused(desk: Desk, name: str) -> None:
    with pytest.raises(LedgerArgument, match="without a proper name"):
        await desk.store(PutClass(40, [(CPU, 1, 0)], b"", [ThingAsk(name, (1,), (1,))]))
    with pytest.raises(LedgerArgument, match="without a proper name"):
        await desk.store(Observe(0, [], [(name, (1,))]))


@pytest.mark.parametrize("vector", BAD_AMOUNTS)
async def test_amounts_of_things_are_checked(desk: Desk, vector: tuple[int, ...]) -> None:
    for asks in ((vector, vector), ((1,) * len(vector), vector)):
        with pytest.raises(LedgerArgument, match=DEVICE):
            await desk.store(PutClass(40, [], b"", [ThingAsk(DEVICE, *asks)]))
    with pytest.raises(LedgerArgument, match=DEVICE):
        await desk.store(Observe(0, [], [(DEVICE, vector)]))


async def test_a_thing_is_named_once_with_as_many_amounts_as_it_offers(desk: Desk) -> None:
    twice = [ThingAsk(DEVICE, (1,), (1,)), ThingAsk(DEVICE, (1,), (1,))]
    with pytest.raises(LedgerArgument, match="named twice"):
        await desk.store(PutClass(40, [], b"", twice))
    with pytest.raises(LedgerArgument, match=DEVICE):
        await desk.store(PutClass(40, [], b"", [ThingAsk(DEVICE, (1, 1), (1,))]))


async def test_the_things_of_a_class_cannot_change(desk: Desk) -> None:
    put_class = PutClass(40, [(CPU, 1, 0)], b"a", port(80))
    await desk.store(put_class, PutClass(40, [(CPU, 1, 0)], b"b", port(80)))
    for others in (port(81), [], [*port(80), *port(81)], [ThingAsk("port/TCP/80", (1,), (2,))]):
        with pytest.raises(LedgerArgument, match="class 40: its requests cannot change"):
            await desk.store(PutClass(40, [(CPU, 1, 0)], b"a", others))


async def test_the_smallest_class_has_no_things(desk: Desk) -> None:
    """A class beside those that name things: nothing of theirs is read or told."""
    await desk.store(job(7), job(8))
    reply = await desk.commit(
        statement(7, run([0], [0], cid=SMALL)), statement(8, run([0], [1], cid=NAMED))
    )
    assert [answer.verdict for answer in reply.answers] == [V.COMMITTED, V.COMMITTED]
    assert [(row, name) for row, name, _ in reply.fresh.things] == [(1, HOST_PORT)]
