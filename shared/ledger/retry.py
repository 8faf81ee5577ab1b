"""Retries: repeat a call until the ledger answers it, and a batch until it is accepted or refused
for good."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import structlog

from shared.ledger.entries.intake_batch import IntakeReply
from shared.ledger.errors import Deposed, LedgerUnavailable
from shared.messages.messages import CommitReply, StatusReply, Verdict

_T = TypeVar("_T")
R = TypeVar("R", CommitReply, StatusReply, IntakeReply)


async def insist(call: Callable[[], Awaitable[_T]], *, call_name: str) -> _T:
    """Repeat a call until the ledger answers. Safe for batches, which carry their
    sequence number."""
    wait = 0.05
    while True:
        try:
            return await call()
        except LedgerUnavailable as error:
            structlog.get_logger(__name__).warning(
                "Ledger did not answer", what=call_name, error=str(error)
            )
            await asyncio.sleep(wait)
            wait = min(wait * 2, 1.0)


class AcceptedRun:
    """The run of the ledger's server that a leader accepted last. It is not asked for before a
    write: the scripts refuse a batch that names another than the present one."""

    def __init__(self, bless: Callable[[], Awaitable[str]], run_id: str = "") -> None:
        """``bless`` accepts the present run, and returns its id. ``run_id``: one that was accepted
        before; "" for none."""
        self._bless = bless
        self.run_id = run_id

    async def accept(self) -> str:
        """Accept the present run. Raises what ``bless`` does."""
        self.run_id = await self._bless()
        return self.run_id


async def write(
    send: Callable[[str], Awaitable[R]],
    *,
    run: AcceptedRun,
    renew: Callable[[], Awaitable[bool]] | None = None,
    call_name: str,
) -> R:
    """Send one batch until it is in the ledger. ``send`` puts the given run id on it.

    ``renew`` restarts our expired lease where nobody else claimed the writer (None: the writer has
    no lease). Raises Deposed where the batch will never be accepted, and the errors of
    :meth:`AcceptedRun.accept`.
    """
    while True:
        reply = await insist(partial(send, run.run_id), call_name=call_name)
        match reply.verdict:
            case Verdict.COMMITTED | Verdict.RECHECKED:
                return reply
            case Verdict.RUN:
                # The server was started again. Before anything is added to it we look whether this
                # is the ledger that we know, and not an old copy.
                await insist(run.accept, call_name="bless")
            # The lease may have run out while we, or the server, stood still. Nobody claimed the
            # writer as long as it can be renewed, so that what we know is still true.
            case Verdict.EPOCH if renew is not None and await insist(renew, call_name="renew"):
                continue
            case _:
                raise Deposed(f"{call_name} refused: {reply.verdict.name}")
