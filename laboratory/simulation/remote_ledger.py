"""The ledger as the service's coroutines reach it in a seeded run: by messages that are late, lost
and repeated."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from laboratory.simulation.long_poll import LongPolls
from laboratory.simulation.process import Process, RepeatedCall, Reply
from laboratory.simulation.virtual_time import Place
from shared.ledger.entries.changes import ChangedKeys
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeReply
from shared.ledger.entries.log import LogEntry
from shared.ledger.entries.snapshot import Nomination, Snapshot
from shared.ledger.entries.stored import BindEntry, JobRecord, TaskRecord
from shared.ledger.errors import LedgerError, LedgerUnavailable
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.ledger.residents import Residents
from shared.ledger.schema import SchemaState, TakeUpProgress
from shared.messages.messages import CommitBatch, CommitReply, Epoch, Rows, StatusBatch, StatusReply

T = TypeVar("T")


class RemoteLedger:
    """Requests of one process to the ledger. Requests under way at the same time may overtake each
    other; one whose answer is lost is sent again, as the client of the real server does."""

    sent_once: frozenset[str] = frozenset()
    """Requests that are not sent again: who asks does that."""

    def __init__(self, process: Process, ledger: MemoryLedger) -> None:
        self._process = process
        self._ledger = ledger
        self._polls = LongPolls(process, Place.LEDGER, what="read binds", lost=LedgerUnavailable)
        self._delivered: set[str] = set()
        self.redelivered = 0
        """Entries of the bind stream that were delivered before, and not to this process."""

    async def run_id(self) -> str:
        """Without a message: it is part of the connection."""
        return at_once(self._ledger.run_id())

    async def claim(
        self, writer: str, *, leader: Epoch | None = None, lease: float = 0.0, holder: str = ""
    ) -> Epoch:
        return await self._ask(
            "claim",
            lambda: self._ledger.claim(writer, leader=leader, lease=lease, holder=holder),
        )

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        return await self._ask("renew", lambda: self._ledger.renew(writer, epoch, lease=lease))

    async def release(self, writer: str, epoch: Epoch) -> None:
        await self._ask("release", lambda: self._ledger.release(writer, epoch))

    async def bless(self, leader: Epoch, *, after: str) -> str:
        return await self._ask("bless", lambda: self._ledger.bless(leader, after=after))

    async def store(self, batch: IntakeBatch) -> IntakeReply:
        return await self._ask("store", lambda: self._ledger.store(batch))

    async def commit(self, batch: CommitBatch) -> CommitReply:
        async def ask() -> CommitReply:
            reply = await self._ledger.commit(batch)
            self.entries_added()
            return reply

        return await self._ask("commit", ask)

    async def record(self, batch: StatusBatch) -> StatusReply:
        return await self._ask("record", lambda: self._ledger.record(batch))

    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]:
        return await self._ask("reread", lambda: self._ledger.read_tasks(jids))

    async def read_domains(self) -> dict[str, int]:
        return await self._ask("read domains", self._ledger.read_domains)

    async def read_nominations(self) -> dict[int, Nomination]:
        return await self._ask("read nominations", self._ledger.read_nominations)

    async def log_tail(self) -> str:
        return await self._ask("read tail", self._ledger.log_tail)

    async def snapshot(self, *, workload: bool = True) -> Snapshot:
        call_name = "snapshot" if workload else "read nodes"
        return await self._ask(call_name, lambda: self._ledger.snapshot(workload=workload))

    async def read_moved(self, changed: ChangedKeys) -> Snapshot:
        return await self._ask("read moved", lambda: self._ledger.read_moved(changed))

    async def read_nodes(self, rows: list[int]) -> Rows:
        return await self._ask("read nodes", lambda: self._ledger.read_nodes(rows))

    # --- who stands by --------------------------------------------------------------------------

    async def schema(self) -> SchemaState:
        return await self._ask("schema", self._ledger.schema)

    async def take_up(self, leader: Epoch, on_progress: Callable[[TakeUpProgress], None]) -> str:
        return await self._ask("take up", lambda: self._ledger.take_up(leader, on_progress))

    async def read_log(
        self,
        after: str,
        *,
        count: int = 512,
        block: float | None = None,
        rows_only: bool = False,
    ) -> list[LogEntry]:
        """At once: nobody here waits for the log's next entry."""
        return await self._ask(
            "read log", lambda: self._ledger.read_log(after, count=count, rows_only=rows_only)
        )

    async def has_entry(self, log_id: str) -> bool:
        return await self._ask("look for entry", lambda: self._ledger.has_entry(log_id))

    async def report_reader(self, reader: str, log_id: str | None) -> None:
        await self._ask("report reader", lambda: self._ledger.report_reader(reader, log_id))

    # --- the bind stream ------------------------------------------------------------------------

    async def read_binds(
        self, consumer: str, *, count: int = 64, block: float | None = None, own: bool = False
    ) -> list[BindEntry]:
        """New entries whose answer is lost count as delivered, as they do for the real server."""
        ledger = self._ledger
        if own:
            entries = await self._ask(
                "look back", lambda: ledger.read_binds(consumer, count=count, own=True)
            )
            self.redelivered += sum(entry.id not in self._delivered for entry in entries)
        else:
            entries = await self._polls.ask(
                lambda: at_once(ledger.read_binds(consumer, count=count)),
                empty=lambda entries: not entries,
                seconds=block or 0.0,
            )
        self._delivered.update(entry.id for entry in entries)
        return entries

    def entries_added(self) -> None:
        """At the ledger: who waits for new entries may have some."""
        self._polls.wake()

    async def ack_binds(self, ids: list[str]) -> None:
        await self._ask("acknowledge binds", lambda: self._ledger.ack_binds(ids))

    # --------------------------------------------------------------------------------------------

    async def read_residents(self) -> Residents:
        return await self._ask("read residents", self._ledger.read_residents)

    async def _ask(self, what: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Errors: LedgerUnavailable where the request or its answer is lost, if it is one of those
        that are sent once."""
        reply: Reply[T] = Reply()

        def ask() -> T | LedgerError:
            try:
                return at_once(call())
            # It travels back like any other answer, and leaves the frames of the other end there:
            # they have it too, and only the garbage collector would find such a circle.
            except LedgerError as error:
                return error.with_traceback(None)

        def answer(result: T | LedgerError) -> None:
            if isinstance(result, LedgerError):
                reply.fail(result)
            else:
                reply.give(result)

        def fail() -> None:
            reply.fail(LedgerUnavailable(f"{what} had no answer"))

        lost = fail if what in self.sent_once else None
        RepeatedCall(self._process, Place.LEDGER, what, ask, answer, lost).send()
        return await reply
