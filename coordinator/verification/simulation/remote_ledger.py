"""The ledger as the service's coroutines reach it in a seeded run: by messages that are late, lost
and repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from coordinator.verification.simulation.process import Lane, Process
from coordinator.verification.simulation.virtual_time import Place
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeReply
from shared.ledger.entries.repair import RepairBatch, RepairReply
from shared.ledger.entries.snapshot import Nomination
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.ledger.errors import LedgerError
from shared.ledger.memory.ledger import LedgerDouble
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import Epoch, StatusBatch, StatusReply

T = TypeVar("T")


class RemoteLedger:
    """What one process asks. Requests under way at the same time may overtake each other; one whose
    answer is lost is sent again, as the client of the real server does."""

    def __init__(self, process: Process, ledger: LedgerDouble) -> None:
        self._process = process
        self._ledger = ledger

    async def run_id(self) -> str:
        """Without a message: it is part of the connection."""
        return at_once(self._ledger.run_id())

    async def bless(self, leader: Epoch, *, after: str) -> str:
        return await self._ask("bless", lambda: self._ledger.bless(leader, after=after))

    async def store(self, batch: IntakeBatch) -> IntakeReply:
        return await self._ask("store", lambda: self._ledger.store(batch))

    async def record(self, batch: StatusBatch) -> StatusReply:
        return await self._ask("record", lambda: self._ledger.record(batch))

    async def repair(self, batch: RepairBatch) -> RepairReply:
        return await self._ask("repair", lambda: self._ledger.repair(batch))

    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]:
        return await self._ask("reread", lambda: self._ledger.read_tasks(jids))

    async def read_domains(self) -> dict[str, int]:
        return await self._ask("read domains", self._ledger.read_domains)

    async def read_nominations(self) -> dict[int, Nomination]:
        return await self._ask("sweep", self._ledger.read_nominations)

    async def log_tail(self) -> str:
        return await self._ask("read tail", self._ledger.log_tail)

    async def _ask(self, what: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def ask() -> T | LedgerError:
            try:
                return at_once(call())
            except LedgerError as error:  # it travels back like any other answer
                return error

        def answer(found: T | LedgerError) -> None:
            if answered.cancelled():
                return
            if isinstance(found, LedgerError):
                answered.set_exception(found)
            else:
                answered.set_result(found)

        Lane(self._process, Place.LEDGER).push(what, ask, answer)
        return await answered
