"""The log and the bind stream: following, waiting, taking over, forgetting."""

from __future__ import annotations

import asyncio

import pytest

from shared.ledger.entries.log import CommitEntry, EpochEntry, IntakeEntry, StatusEntry
from shared.ledger.errors import LedgerTrimmed
from shared.ledger.memory.ledger import MemoryLedger
from shared.messages.messages import StatusItem, TaskState
from tests.shared.ledger.support import SMALL, Desk, entry_of_kind, job, run, statement


async def test_the_log_tells_every_change_in_order(desk: Desk) -> None:
    await desk.store(job(7))
    committed = await desk.commit(statement(7, run([0], [2])))
    reported = await desk.record(StatusItem(TaskState.BOUND, 7, [0], [2]))
    entries = await desk.ledger.read_log("0")
    kinds = [EpochEntry] * 3 + [IntakeEntry] * 2 + [CommitEntry, StatusEntry]
    assert [type(entry) for entry in entries] == kinds
    commit = entry_of_kind(entries[-2], CommitEntry)
    assert commit.accepted[0].core == [run([0], [2])]
    assert commit.fresh == committed.fresh
    assert entry_of_kind(entries[-1], StatusEntry).fresh == reported.fresh
    assert (commit.writer, commit.epoch, commit.sequence) == ("0", desk.epochs["0"], 1)


async def test_a_follower_reads_on_from_its_id(desk: Desk) -> None:
    first = await desk.ledger.read_log("0", count=2)
    rest = await desk.ledger.read_log(first[-1].id)
    assert len(first) == 2
    assert [*first, *rest] == await desk.ledger.read_log("0")
    assert await desk.ledger.log_tail() == rest[-1].id
    assert await desk.ledger.read_log(rest[-1].id, block=0.01) == []


async def test_a_waiting_follower_wakes(desk: Desk) -> None:
    if isinstance(desk.ledger, MemoryLedger):
        pytest.skip("a server in memory never waits")
    tail = await desk.ledger.log_tail()
    waiting = asyncio.create_task(desk.ledger.read_log(tail, block=60.0))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await desk.store(job(7))
    assert len(await asyncio.wait_for(waiting, 60)) == 1


async def test_binds_are_delivered_once_and_again_until_acknowledged(desk: Desk) -> None:
    assert await desk.ledger.read_binds("a") == []
    await desk.store(job(7), job(8))
    await desk.commit(statement(7, run([0], [0])), statement(8, run([0], [1])))
    await desk.commit(statement(7, run([1], [1]), tail=(run([2], [2]),)))
    entries = await desk.ledger.read_binds("a", block=0.1)
    assert [entry.binds for entry in entries] == [
        [(7, SMALL, [0], [0]), (8, SMALL, [0], [1])],
        [(7, SMALL, [1], [1]), (7, SMALL, [2], [2])],
    ]
    assert await desk.ledger.read_binds("a") == []
    assert await desk.ledger.read_binds("b", own=True) == entries
    await desk.ledger.ack_binds([entries[0].id])
    assert await desk.ledger.read_binds("a", own=True) == entries[1:]


async def test_trimming_keeps_open_binds_and_reports_late_readers(desk: Desk) -> None:
    await desk.store(job(7))
    for tix in range(4):
        await desk.commit(statement(7, run([tix], [tix])))
    entries = await desk.ledger.read_binds("a", count=3)
    await desk.ledger.ack_binds([entries[0].id, entries[2].id])
    log = await desk.ledger.read_log("0")
    await desk.ledger.trim(log_before=log[-2].id)
    assert await desk.ledger.read_log("0") == log[-2:]
    assert await desk.ledger.read_log(log[-3].id) == log[-2:]
    with pytest.raises(LedgerTrimmed, match="snapshot"):
        await desk.ledger.read_log(log[-4].id)
    assert await desk.ledger.read_binds("b", own=True) == [entries[1]]
    assert len(await desk.ledger.read_binds("b")) == 1
    tail = await desk.ledger.log_tail()
    await desk.ledger.trim(log_before="9999999999999-0")
    assert await desk.ledger.log_tail() == tail
    assert await desk.ledger.read_log(tail) == []
