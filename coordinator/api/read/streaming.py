"""Shared by all long answers: their number, their end, and the handling of slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from http import HTTPStatus
from typing import TypeVar

from aiohttp import ClientConnectionResetError, web

from coordinator.api.read.source import Source
from coordinator.errors import Problem
from coordinator.intake.fair_turns import FairTurns
from coordinator.intake.principal import ANYONE, CALLER, STANDS
from shared.slices import Steps, one_slice

T = TypeVar("T")

MOST_STREAMS = 128
"""Maximum number of open watches and event streams."""
MOST_WAITING = 1 << 20
"""Maximum number of waiting lists: in effect unlimited, since connections are limited."""
RETRY_SECONDS = 5.0
"""Retry-After if there are too many streams."""
SEND_SECONDS = 10.0
"""A client that has not read what was sent for this long is disconnected; it may list again."""
LOOK_SECONDS = 1.0
"""Interval at which an idle stream checks whether its client is still connected."""
PART_BYTES = 50_000
"""Bytes of a stream written before other tasks run: 2 ms of rendering."""
GATHER_SECONDS = 0.05
"""Changes within this time are sent together."""


class Streams:
    """The open streams of one server."""

    def __init__(
        self, objects: Source, *, most: int = MOST_STREAMS, send_seconds: float = SEND_SECONDS
    ) -> None:
        self._objects = objects
        self._most = most
        self._waits: set[asyncio.Timeout] = set()
        self._rendering = asyncio.Lock()
        self._pieces = FairTurns(slots=1, size=MOST_WAITING)
        self.send_seconds = send_seconds
        self._held: Counter[str] = Counter()
        """Number of streams by the token that opened them."""
        self.stopped = False

    @property
    def open(self) -> int:
        return self._held.total()

    @property
    def ended(self) -> bool:
        """Whether the server is stopping, or the caller's token is no longer valid."""
        return self.stopped or not STANDS.get()()

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """A slot for one more stream of the caller. Raises Problem (429) if their share is used up.

        The share is half of the slots for a single caller; a token's first stream is always
        allowed. Where no tokens are required, all slots may be taken.
        """
        caller = CALLER.get()
        own_streams, free = self._held[caller.name], self._most - self.open
        if free <= 0 if caller is ANYONE else own_streams >= max(1, free):
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{self.open} watches and streams are open, {own_streams} of {caller.name}; "
                "close some, or come again later",
                retry_after=RETRY_SECONDS,
            )
        self._held[caller.name] += 1
        try:
            yield
        finally:
            self._held[caller.name] -= 1
            if not self._held[caller.name]:
                del self._held[caller.name]

    async def stop(self, _: web.Application) -> None:
        """End all streams, which the server waits for."""
        self.stopped = True
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            wait.reschedule(now)

    async def moved(self, request: web.BaseRequest, since: int, seconds: float) -> None:
        """Wait for a newer version, the server's stop, or the end of the shorter of ``seconds`` and
        LOOK_SECONDS. Raises ClientConnectionResetError if the client left."""
        if request.transport is None or request.transport.is_closing():
            raise ClientConnectionResetError("the client left")
        if self.ended:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, LOOK_SECONDS)) as wait:
                self._waits.add(wait)
                try:
                    await self._objects.wait(since)
                    await asyncio.sleep(GATHER_SECONDS)
                finally:
                    self._waits.discard(wait)

    @contextlib.asynccontextmanager
    async def piece(self) -> AsyncIterator[None]:
        """A turn to render a piece of a list: one per round of the loop, with time shared between
        tokens."""
        caller = CALLER.get().name
        await self._pieces.take(caller)
        began = time.thread_time()
        try:
            yield
        finally:
            self._pieces.give_back(caller, time.thread_time() - began)
        await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A turn to render a stream. Streams get at most a third of the time, since the scheduler
        runs in the same loop."""
        async with self._rendering:
            clock = asyncio.get_running_loop().time
            started = clock()
            yield
            # Inside the lock: the rest belongs to the loop, not to the next stream.
            await asyncio.sleep(2 * (clock() - started))

    async def in_turns(self, steps: Steps[T]) -> T:
        """Run long work of a stream to its end, a slice in each turn."""
        while True:
            async with self.turn():
                ended = one_slice(steps)
            if ended is not None:
                return ended.result


def next_part(items: Iterator[T], *, size: Callable[[T], int]) -> list[T]:
    """The next items to render at once: up to PART_BYTES in total."""
    part: list[T] = []
    total = 0
    for item in items:
        part.append(item)
        total += size(item)
        if total >= PART_BYTES:
            break
    return part


async def send(
    request: web.BaseRequest,
    response: web.StreamResponse,
    data: bytes,
    *,
    seconds: float = SEND_SECONDS,
) -> None:
    """Write, and wait until the client has read most of it. Raises ClientConnectionResetError if
    the client left, or was disconnected for being slow."""
    try:
        async with asyncio.timeout(seconds):
            await response.write(data)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ClientConnectionResetError("the client was too slow") from None
