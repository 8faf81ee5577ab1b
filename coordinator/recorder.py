"""The one writer of task states: what many parts report is recorded in few script calls.

Single flight: while one batch is on its way, the next gathers. A batch whose answer is lost is
sent again under the same sequence number, which the ledger answers without doing it twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import structlog

from shared.ledger.errors import Deposed, LedgerUnavailable
from shared.ledger.protocol import COORDINATOR, IntakeReply, Ledger
from shared.messages import Epoch, StatusBatch, StatusItem, StatusReply, Verdict

__all__ = ["BATCH_TASKS", "Deposed", "Recorder", "insist", "write"]

BATCH_TASKS = 2000
"""Tasks of one batch: bounds how long the ledger's one thread is busy with it (about 10 ms)."""

_T = TypeVar("_T")
R = TypeVar("R", StatusReply, IntakeReply)


async def insist(call: Callable[[], Awaitable[_T]], *, what: str) -> _T:
    """Send a batch until the ledger answers. Safe, because batches carry their sequence number."""
    wait = 0.05
    while True:
        try:
            return await call()
        except LedgerUnavailable as error:
            structlog.get_logger(__name__).warning(
                "Ledger did not answer", what=what, error=str(error)
            )
            await asyncio.sleep(wait)
            wait = min(wait * 2, 1.0)


async def write(
    send: Callable[[str], Awaitable[R]],
    *,
    run_id: Callable[[], Awaitable[str]],
    bless: Callable[[], Awaitable[str]],
    renew: Callable[[], Awaitable[bool]] | None = None,
    what: str,
) -> R:
    """Send one batch until it is in the ledger. ``send`` puts the given run id on it.

    A run of the server that nobody has accepted yet (it was restarted) is accepted here, by
    ``bless``. Where our lease had run out and nobody else claimed the writer, it begins anew by
    ``renew`` (None: the writer has none). Raises Deposed where the batch will never be taken, and
    what ``bless`` raises.
    """
    while True:
        run = await run_id()
        reply = await insist(partial(send, run), what=what)
        match reply.verdict:
            case Verdict.COMMITTED | Verdict.RECHECKED:
                return reply
            case Verdict.RUN:
                await insist(bless, what="bless")
            case Verdict.EPOCH if renew is not None and await insist(renew, what="renew"):
                continue
            case _:
                raise Deposed(f"{what} refused: {reply.verdict.name}")


@dataclass(slots=True)
class _Request:
    items: list[StatusItem]
    lapsed: list[int]
    done: asyncio.Future[None]
    tasks: int = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = sum(len(item.tasks) for item in self.items)


class Recorder:
    def __init__(
        self,
        ledger: Ledger,
        *,
        epoch: Epoch,
        run_id: Callable[[], Awaitable[str]],
        bless: Callable[[], Awaitable[str]],
        renew: Callable[[], Awaitable[bool]] | None = None,
        applied: Callable[[list[StatusItem], list[list[int]]], None],
        guard: asyncio.Lock,
        queue_size: int = 256,
    ) -> None:
        """``bless``, ``renew``: as in :func:`write`. ``applied`` is called with what changed, under
        ``guard``: nobody reads the ledger's truth between a batch and its effect on the
        coordinator."""
        self._ledger = ledger
        self._epoch = epoch
        self._run_id = run_id
        self._bless = bless
        self._renew = renew
        self._applied = applied
        self._guard = guard
        self._sequence = 0
        self._queue: asyncio.Queue[_Request] = asyncio.Queue(queue_size)

    async def record(self, items: list[StatusItem], lapsed: list[int] | None = None) -> None:
        """Returns when the items are durable and applied. Waits while the queue is full."""
        request = _Request(items, lapsed or [], asyncio.get_running_loop().create_future())
        await self._queue.put(request)
        await request.done

    async def run(self) -> None:
        while True:
            requests = [await self._queue.get()]
            tasks = requests[0].tasks
            while not self._queue.empty() and tasks < BATCH_TASKS:
                requests.append(self._queue.get_nowait())
                tasks += requests[-1].tasks
            try:
                await self._flush(requests)
            except asyncio.CancelledError:  # we were asked to stop: who waits stops too
                for request in requests:
                    request.done.cancel()
                raise
            except Exception as error:
                for request in requests:
                    if not request.done.done():
                        request.done.set_exception(error)
                        request.done.exception()
                raise
            for request in requests:
                if not request.done.done():
                    request.done.set_result(None)

    async def _flush(self, requests: list[_Request]) -> None:
        items = [item for request in requests for item in request.items]
        lapsed = [jid for request in requests for jid in request.lapsed]
        self._sequence += 1
        async with self._guard:
            reply = await self._send(items, lapsed)
            self._applied(items, reply.applied)

    async def _send(self, items: list[StatusItem], lapsed: list[int]) -> StatusReply:
        def send(run: str) -> Awaitable[StatusReply]:
            batch = StatusBatch(COORDINATOR, self._epoch, self._sequence, run, items, lapsed)
            return self._ledger.record(batch)

        return await write(
            send, run_id=self._run_id, bless=self._bless, renew=self._renew, what="record"
        )
