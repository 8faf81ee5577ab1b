"""The single writer of task states: reports of many sources are recorded in few script calls.

Single flight: while one batch is under way, the next one gathers. A batch whose answer is lost is
sent again under the same sequence number, for which the ledger returns the first answer.

Of a batch that the ledger refuses each item is recorded alone. An item that it refuses counts as
not applied: the task keeps its state until the cluster reports again or the audit compares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from coordinator.ledger_refusals import LedgerRefusals, WriteKind
from shared.ledger.errors import LedgerArgument, LedgerFault
from shared.ledger.protocol import COORDINATOR
from shared.ledger.retry import AcceptedRun, write
from shared.messages.messages import Epoch, StatusBatch, StatusItem, StatusReply

BATCH_TASKS = 2000
"""Tasks per batch: bounds how long the ledger's one thread is busy with it (about 10 ms)."""


class RecordsBatches(Protocol):
    """The ledger's methods that the status writer uses."""

    async def record(self, batch: StatusBatch) -> StatusReply: ...


@dataclass(slots=True)
class _RecordRequest:
    items: list[StatusItem]
    expired: list[int]
    written: asyncio.Future[None]
    tasks: int = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = sum(len(item.tasks) for item in self.items)


class Recorder:
    def __init__(
        self,
        ledger: RecordsBatches,
        *,
        epoch: Epoch,
        run: AcceptedRun,
        renew: Callable[[], Awaitable[bool]] | None = None,
        current: Callable[[list[StatusItem]], list[StatusItem]],
        applied: Callable[[list[StatusItem], list[list[int]]], None],
        guard: asyncio.Lock,
        refusals: LedgerRefusals | None = None,
        queue_size: int = 256,
    ) -> None:
        """``run``, ``renew``: as in :func:`write`. ``current`` drops what the previous batch made
        void; called right before a batch is sent. ``applied`` gets the changes, under ``guard``:
        nobody reads the ledger between a batch and its effect on the coordinator."""
        self._ledger = ledger
        self._epoch = epoch
        self._run = run
        self._renew = renew
        self._current = current
        self._applied = applied
        self._guard = guard
        self._refusals = refusals or LedgerRefusals()
        self._sequence = 0
        self.tasks_recorded = 0
        """Task states written so far; a task counts once for each."""
        self._queue: asyncio.Queue[_RecordRequest] = asyncio.Queue(queue_size)

    async def record(self, items: list[StatusItem], expired: list[int] | None = None) -> None:
        """Returns when the items are durable and applied. Waits while the queue is full."""
        request = _RecordRequest(items, expired or [], asyncio.get_running_loop().create_future())
        await self._queue.put(request)
        await request.written

    async def run(self) -> None:
        while True:
            # No timer gathers a batch: while one is at the ledger (an fsync) the next one fills by
            # itself, and a lone request waits for nobody.
            requests = [await self._queue.get()]
            tasks = requests[0].tasks
            while not self._queue.empty() and tasks < BATCH_TASKS:
                requests.append(self._queue.get_nowait())
                tasks += requests[-1].tasks
            try:
                await self._flush(requests)
            except asyncio.CancelledError:  # we were asked to stop: who waits stops too
                for request in requests:
                    request.written.cancel()
                raise
            except Exception as error:
                for request in requests:
                    if not request.written.done():
                        request.written.set_exception(error)
                        # Marked as retrieved: the caller may be gone, and asyncio would log an
                        # error that nobody can handle.
                        request.written.exception()
                raise
            for request in requests:
                if not request.written.done():
                    request.written.set_result(None)

    async def _flush(self, requests: list[_RecordRequest]) -> None:
        items = [item for request in requests for item in request.items]
        expired = [jid for request in requests for jid in request.expired]
        async with self._guard:
            # Here and not when they were queued: the batch before this one may have turned a victim
            # into its next incarnation, and no other can come in between.
            items = self._current(items)
            applied = await self._record(items, expired)
            self.tasks_recorded += sum(map(len, applied))
            # Without an await after the answer: nobody sees the ledger's new state with the old
            # books.
            self._applied(items, applied)

    async def _record(self, items: list[StatusItem], expired: list[int]) -> list[list[int]]:
        """The changed tasks of each item. Bisects a refused batch down to the refused item."""
        try:
            return (await self._send(items, expired)).applied
        except (LedgerArgument, LedgerFault) as error:
            count, jobs = len(items), len(expired)
            if count + jobs <= 1:
                subject = f"job {items[0].jid}" if items else f"nominations of job {expired[0]}"
                self._refusals.refused(WriteKind.RECORD, error, subject)
                return [[] for _ in items]
        # Apart by kind first: halving one item and one job would give nothing and the same again.
        if count and jobs:
            applied = await self._record(items, [])
            await self._record([], expired)
            return applied
        first = await self._record(items[: count // 2], expired[: jobs // 2])
        return first + await self._record(items[count // 2 :], expired[jobs // 2 :])

    async def _send(self, items: list[StatusItem], expired: list[int]) -> StatusReply:
        # Numbered once, before the first try: what is sent again after a lost answer has the same
        # number, and the ledger returns the first answer instead of recording twice.
        self._sequence += 1

        def send(run: str) -> Awaitable[StatusReply]:
            batch = StatusBatch(COORDINATOR, self._epoch, self._sequence, run, items, expired)
            return self._ledger.record(batch)

        return await write(send, run=self._run, renew=self._renew, call_name="record")
