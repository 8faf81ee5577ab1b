"""What all long answers share: how many there may be, when they end, who is too slow for them."""

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

T = TypeVar("T")

MOST_STREAMS = 128
"""Watches and event streams that may be open at once."""
MOST_WAITING = 1 << 20
"""Lists that wait for a turn: nobody is refused for it, connections are bounded where they are
accepted."""
RETRY_SECONDS = 5.0
"""Retry-After where there are too many."""
SEND_SECONDS = 10.0
"""A client that has not taken what was sent for so long is cut; it may come again and list."""
LOOK_SECONDS = 1.0
"""How often a stream that has nothing to say looks whether its client is still there."""
PART_BYTES = 50_000
"""What is written of a stream before others get their turn: 2 ms of rendering."""
GATHER_SECONDS = 0.05
"""Changes that follow one another are told together."""


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
        """Streams by the token that opened them."""
        self.stopped = False

    @property
    def open(self) -> int:
        return self._held.total()

    @property
    def ended(self) -> bool:
        """The server stops, or the token of who is being served does not count any more."""
        return self.stopped or not STANDS.get()()

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """A place for one more stream of who is being served. Raises Problem (429) where he has
        his share: half of the places where he is alone; the first one is always given."""
        caller = CALLER.get()
        own_streams, free = self._held[caller.name], self._most - self.open
        if free <= 0 if caller is ANYONE else own_streams >= max(1, free):
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "TooManyRequests",
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
        """Tell all streams to end: the server waits for them."""
        self.stopped = True
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            wait.reschedule(now)

    async def moved(self, request: web.BaseRequest, since: int, seconds: float) -> None:
        """Until there is a newer version, ``seconds`` or a moment are over, or the server stops.

        Raises ClientConnectionResetError where the client left."""
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
        """A turn at a piece of a list: one in each round of the loop, whoever and however many ask,
        and the time shared between the tokens."""
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
        """Rendering takes turns, and no more than a third of the time: the scheduler runs in the
        same loop."""
        async with self._rendering:
            clock = asyncio.get_running_loop().time
            started = clock()
            yield
            await asyncio.sleep(2 * (clock() - started))


def next_part(items: Iterator[T], *, size: Callable[[T], int]) -> list[T]:
    """The next items, as many as may be made in one go: up to PART_BYTES of them together."""
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
    """Write, and wait until the client has taken most of it. Raises ClientConnectionResetError
    where the client left, or was cut because it took too long."""
    try:
        async with asyncio.timeout(seconds):
            await response.write(data)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ClientConnectionResetError("the client was too slow") from None
