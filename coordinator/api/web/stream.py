"""``GET /apis/quadrant.dev/v1alpha1/frames``: the one stream that a page reads.

Server-sent events: ``snapshot`` with everything, then ``delta`` with what changed; another
``snapshot`` resets a page that was too slow for the deltas. Where nothing changes, ``alive`` says
every few seconds what time it is. It is read with ``fetch``: an ``EventSource`` sends no token.
"""

from __future__ import annotations

import asyncio
import time

from aiohttp import ClientConnectionResetError, web

from coordinator.api.auth.roles import FRAMES
from coordinator.api.read.streaming import LOOK_SECONDS, Streams, send
from coordinator.api.read.watch import LONGEST_SECONDS
from coordinator.api.web.frames import Frames
from coordinator.intake.principal import CALLER

HEARTBEAT_SECONDS = 5.0
PIECE_BYTES = 256 * 1024
"""A reader has the time of a whole send for each piece: a large picture over a slow line is no slow
reader."""


def frame_routes(frames: Frames, streams: Streams) -> list[web.RouteDef]:
    async def handler(request: web.Request) -> web.StreamResponse:
        with streams.one(), frames.opened():
            response = web.StreamResponse(
                headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
            )
            await response.prepare(request)
            await _FrameStream(frames, streams, request, response).run()
            return response

    return [web.get(FRAMES, handler, allow_head=False)]


class _FrameStream:
    def __init__(
        self,
        frames: Frames,
        streams: Streams,
        request: web.Request,
        response: web.StreamResponse,
    ) -> None:
        self._frames = frames
        self._streams = streams
        self._request = request
        self._response = response
        self._clock = asyncio.get_running_loop().time

    async def run(self) -> None:
        """Run until the server stops, the token is no longer valid, or an hour is over."""
        clock, reach = self._clock, CALLER.get().namespaces
        begun = sent = clock()
        number: int | None = None
        while not self._streams.ended and clock() < begun + LONGEST_SECONDS:
            message = await self._frames.after(number, reach, seconds=LOOK_SECONDS)
            transport = self._request.transport
            if transport is None or transport.is_closing():
                raise ClientConnectionResetError("the client left")
            if message is not None:
                number, sent = message.number, clock()
                await self._send(message.parts)
            elif clock() >= sent + HEARTBEAT_SECONDS:
                sent = clock()
                await self._send([b'event: alive\ndata: {"at":%.3f}\n\n' % time.time()])

    async def _send(self, parts: list[bytes]) -> None:
        """Send in pieces of bounded size."""
        held, size = list[bytes](), 0
        for part in parts:
            held.append(part)
            size += len(part)
            if size >= PIECE_BYTES:
                await self._flush(held)
                held, size = [], 0
        await self._flush(held)

    async def _flush(self, held: list[bytes]) -> None:
        seconds = self._streams.send_seconds
        if held:
            await send(self._request, self._response, b"".join(held), seconds=seconds)
