"""Fair sharing of a scarce resource by time used: the least served caller goes first.

The rule of :mod:`coordinator.intake.fair_queue`, in processor seconds: one line per token, and a
line accepts a caller only while it is shorter than the room that is left. The next turn goes to the
caller that has used the least time; a caller that returns after being idle starts at the current
level, so that idling saves up nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator

from coordinator.intake.fair_queue import LineFull
from coordinator.intake.time_used import TimeUsed


class FairTurns:
    """``slots``: concurrent turns. ``size``: how many callers may wait in all lines together."""

    def __init__(self, *, slots: int, size: int) -> None:
        self._free = slots
        self._size = size
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        """Waiting callers; an empty line is not kept."""
        self._waiting = 0
        self._used = TimeUsed()

    @property
    def waiting(self) -> int:
        return self._waiting

    async def take(self, caller: str) -> None:
        """Wait for a turn; :meth:`give_back` must follow. Raises LineFull."""
        if self._free and not self._waiting:
            self._free -= 1
            self._used.serve(caller)
            return
        line = self._lines.get(caller, ())
        if len(line) >= self._size - self._waiting:
            raise LineFull(f"{len(line)} requests of {caller} wait")
        ticket = asyncio.get_running_loop().create_future()
        self._lines.setdefault(caller, deque()).append(ticket)
        self._waiting += 1
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():
                self.give_back(caller, 0.0)  # it was called up and cancelled in one moment
            else:
                self._leave(caller, ticket)
            raise

    @contextlib.asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """A turn, which counts with the time that passes in it. Raises LineFull."""
        await self.take(caller)
        began = time.monotonic()
        try:
            yield
        finally:
            self.give_back(caller, time.monotonic() - began)

    def give_back(self, caller: str, seconds: float) -> None:
        """End the turn, which took this many processor seconds."""
        self._used.charge(caller, seconds)
        self._free += 1
        while self._free and self._waiting:
            self._free -= 1
            self._call_up()

    def _call_up(self) -> None:
        caller = min(self._lines, key=self._used.of)
        self._used.serve(caller)
        ticket = self._lines[caller][0]
        self._leave(caller, ticket)
        ticket.set_result(None)

    def _leave(self, caller: str, ticket: asyncio.Future[None]) -> None:
        line = self._lines[caller]
        line.remove(ticket)
        self._waiting -= 1
        if not line:
            del self._lines[caller]
