"""The two writers of the coordinator on a ledger that restarts or that another one takes over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coordinator.bind.status_writer import Recorder
from coordinator.intake.changes import Changes
from coordinator.intake.intake import Intake
from coordinator.intake.writer import QUEUE_REQUESTS, IntakeFull, IntakeWriter
from coordinator.ledger_refusals import LedgerRefusals, WriteKind
from shared.ledger.errors import Deposed, LedgerArgument, LedgerError, LedgerFault
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.protocol import COORDINATOR
from shared.ledger.retry import AcceptedRun
from shared.messages.messages import Epoch, StatusBatch, StatusItem, StatusReply, TaskState
from tests.builders.objects import node, pod

INTAKE = "intake"


async def lead(ledger: MemoryLedger) -> Epoch:
    """The epoch of the one coordinator both writers belong to."""
    leader = await ledger.leader()
    epoch = await ledger.claim(COORDINATOR) if leader is None else leader.epoch
    await ledger.bless(epoch)
    return epoch


@asynccontextmanager
async def recording(
    ledger: MemoryLedger, applied: list[Any], refusals: LedgerRefusals | None = None
) -> AsyncIterator[Recorder]:
    leader = await lead(ledger)
    recorder = Recorder(
        ledger,
        epoch=leader,
        run=AcceptedRun(lambda: ledger.bless(leader), await ledger.run_id()),
        current=lambda items: items,
        applied=lambda items, changed: applied.append((len(items), changed)),
        guard=asyncio.Lock(),
        refusals=refusals,
    )
    task = asyncio.create_task(recorder.run())
    yield recorder
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def writing(ledger: MemoryLedger, stored: list[Changes]) -> AsyncIterator[IntakeWriter]:
    leader = await lead(ledger)
    writer = IntakeWriter(
        Intake(),
        ledger,
        writer=INTAKE,
        epoch=await ledger.claim(INTAKE, leader=leader),
        run=AcceptedRun(lambda: ledger.bless(leader), await ledger.run_id()),
        stored=stored.append,
    )
    task = asyncio.create_task(writer.run())
    yield writer
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def ended(jid: int) -> StatusItem:
    return StatusItem(TaskState.FAILED, jid, [0], [0])


async def test_waiting_reports_are_recorded_in_one_batch() -> None:
    applied: list[Any] = []
    async with recording(MemoryLedger(), applied) as recorder:
        await asyncio.gather(*(recorder.record([ended(jid)]) for jid in range(3)))
    assert [count for count, _ in applied] == [3]


async def test_a_restarted_server_is_accepted_and_nothing_is_lost_or_done_twice() -> None:
    ledger, applied, stored = MemoryLedger(), list[Any](), list[Changes]()
    async with recording(ledger, applied) as recorder, writing(ledger, stored) as writer:
        await recorder.record([ended(1)])
        await writer.submit([node("a")])
        ledger.restart()
        await recorder.record([ended(2)])
        await writer.submit([node("b")])
        ledger.restart()
        await writer.submit([pod("p")])
    assert [count for count, _ in applied] == [1, 1]
    assert [[n.name for n in changes.nodes] for changes in stored] == [["a"], ["b"], []]
    snapshot = await ledger.snapshot()
    assert len(snapshot.node_specs) == 2
    assert len(snapshot.jobs) == 1


async def test_a_deposed_recorder_stops_and_raises_deposed_in_its_callers() -> None:
    ledger, applied = MemoryLedger(), list[Any]()
    async with recording(ledger, applied) as recorder:
        await ledger.claim(COORDINATOR)
        with pytest.raises(Deposed, match="record refused: EPOCH"):
            await recorder.record([ended(1)])
    assert applied == []


async def test_stopping_the_recorder_cancels_its_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger, sent = MemoryLedger(), asyncio.Event()

    async def silent(batch: StatusBatch) -> StatusReply:
        sent.set()
        return await asyncio.Future()

    monkeypatch.setattr(ledger, "record", silent)
    async with recording(ledger, list[Any]()) as recorder:
        waiting = asyncio.create_task(recorder.record([ended(1)]))
        await asyncio.wait_for(sent.wait(), 60.0)
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize("error", [LedgerFault("it fails"), LedgerArgument("it is wrong")])
async def test_a_record_that_the_ledger_refuses_is_refused_alone(
    error: LedgerError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batch is recorded without it; it counts as not applied, and the recorder goes on."""
    ledger = MemoryLedger()
    record = ledger.record

    async def broken(batch: StatusBatch) -> StatusReply:
        if any(item.jid in (3, 6) for item in batch.items) or 9 in batch.expired:
            raise error
        return await record(batch)

    monkeypatch.setattr(ledger, "record", broken)
    applied: list[Any] = []
    refusals = LedgerRefusals()
    async with writing(ledger, []) as writer, recording(ledger, applied, refusals) as recorder:
        await writer.submit([pod(f"p{i}") for i in range(8)])
        for jids, expired in (([*range(8)], [9]), ([3], []), ([], [9, 5]), ([1], [])):
            await recorder.record([ended(jid) for jid in jids], expired)
    assert applied == [
        (8, [[0], [0], [0], [], [0], [0], [], [0]]),
        (1, [[]]),
        (0, []),
        (1, [[]]),
    ]
    assert refusals.count == {WriteKind.RECORD: 5}


async def test_objects_of_a_deposed_intake_are_never_acknowledged() -> None:
    ledger, stored = MemoryLedger(), list[Changes]()
    async with writing(ledger, stored) as writer:
        await ledger.claim(INTAKE, leader=await ledger.claim(COORDINATOR))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await writer.submit([pod("p")])
    assert stored == []
    assert (await ledger.snapshot()).jobs == {}


async def test_too_many_waiting_requests_are_turned_away_at_once() -> None:
    async with writing(MemoryLedger(), []) as writer:
        requests = [asyncio.create_task(writer.submit([])) for _ in range(QUEUE_REQUESTS + 1)]
        result = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(answer) for answer in result].count(IntakeFull) == 1
