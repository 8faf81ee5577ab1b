"""A bind entry that was given out and never came is found again while the coordinator lives."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgpack
import pytest

from coordinator.cluster.protocol import BindAnswers, BindRequests
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.intake.changes import Changes
from coordinator.order.order import Order
from coordinator.service import bind_loop
from coordinator.service.bind_loop import Binding
from shard_worker.dialects.open_session import open_session
from shared.ledger.entries.stored import BindEntry, TaskRecord
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.keys import key
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import StatusItem, TaskState
from shared.model.model import Node, Queue
from shared.policy.volcano import DEFAULT_POLICY
from shared.units.slots import CPU
from tests.builders.rows import ONE, job

Surely = Callable[[], Awaitable[None]]


class OneEntry(MemoryLedger):
    """Its bind stream has one entry; the answer to the first read is lost."""

    def __init__(self, *, jid: int = 1) -> None:
        super().__init__()
        at_once(self.open())
        # One task of class 0 that is to be bound to row 5.
        packed = msgpack.packb([[jid, 0, 1, 0, 5], [], []])
        seal = hashlib.sha1(packed, usedforsecurity=False).hexdigest().encode()
        self.server.stream(key("binds")).add(b"p", packed, b"s", seal)
        self.state = TaskState.BINDING
        self.lost = 0
        self.acknowledged = asyncio.Event()

    async def read_binds(self, consumer: str, **options: Any) -> list[BindEntry]:
        await asyncio.sleep(0.002)
        entries = await super().read_binds(consumer, **options)
        if entries and not self.lost:
            self.lost += 1
            raise LedgerUnavailable("the answer was lost")
        return entries

    async def read_tasks(self, jids: list[int]) -> Any:
        return {1: (None, {0: TaskRecord(self.state, 5, 0, 1, 0)})}

    async def ack_binds(self, ids: list[str]) -> None:
        await super().ack_binds(ids)
        self.acknowledged.set()


class OneCluster(LocalCluster):
    async def bind(self, requests: BindRequests) -> BindAnswers:  # type: ignore[override]
        return super().bind(requests, 0.0)


class RecordedRun:
    def __init__(self) -> None:
        self.items: list[StatusItem] = []

    async def record(self, items: list[StatusItem]) -> None:
        self.items += items


async def _nobody_else_leads() -> None:
    pass


def _begin(
    group: asyncio.TaskGroup,
    ledger: OneEntry,
    recorded: RecordedRun,
    surely: Surely = _nobody_else_leads,
) -> asyncio.Task[None]:
    core = Coordinator(Order(open_session(DEFAULT_POLICY)), Dispatcher(1))
    node = Node(row=5, name="n5", allocatable=((CPU, 4000),))
    core.admitted(
        Changes(classes={0: ONE}, nodes=[node], queues=[Queue(qid=0, name="a")], jobs=[job(1)])
    )
    cluster: Any = OneCluster()
    recorder: Any = recorded
    binding = Binding(
        ledger, cluster, recorder, group=group, core=core, surely=surely, prebind=None
    )
    return group.create_task(binding.bind_forever())


async def _binding(ledger: OneEntry) -> RecordedRun:
    recorded = RecordedRun()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        task = _begin(group, ledger, recorded)
        await ledger.acknowledged.wait()
        task.cancel()
    return recorded


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bind_loop, "LOOK_BACK_SECONDS", 0.02)


async def test_entry_whose_answer_was_lost_is_driven_later() -> None:
    ledger = OneEntry()
    recorded = await _binding(ledger)
    assert ledger.lost == 1
    assert [item.state for item in recorded.items] == [TaskState.BOUND]


async def test_entry_that_somebody_saw_through_is_only_acknowledged() -> None:
    ledger = OneEntry()
    ledger.state = TaskState.BOUND
    assert (await _binding(ledger)).items == []
    assert await ledger.read_binds(bind_loop.CONSUMER, own=True) == []


async def test_an_unsure_leader_does_not_acknowledge_binds_of_unknown_jobs() -> None:
    ledger, sure, request_made = OneEntry(jid=2), asyncio.Event(), asyncio.Event()

    async def surely() -> None:
        request_made.set()
        await sure.wait()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        task = _begin(group, ledger, RecordedRun(), surely)
        await request_made.wait()
        assert [entry.id for entry in await ledger.read_binds("us", own=True)] == ["1-0"]
        sure.set()
        await ledger.acknowledged.wait()
        task.cancel()
