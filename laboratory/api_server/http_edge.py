"""The double over HTTP: aiohttp's server protocol, on sockets or on any transport of a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

import orjson
from aiohttp import web

from laboratory.api_server.answers import Answer, NotServed
from laboratory.api_server.effects import (
    CutStream,
    DelayAnswer,
    DelayRequest,
    Effect,
    LoseAnswer,
    LoseRequest,
)
from laboratory.api_server.server import ApiServer, Request, Watch

BOOKMARK_SECONDS = 60.0
_WATCH_SECONDS = 1800.0
"""How long a watch lasts whose client does not say it."""

Later = Callable[[float, Callable[[], None]], object]


class HttpEdge:
    """Serves while its loop runs. What the double does not know ends the connection without an
    answer, and stands in :attr:`failures`: a test or a run looks there."""

    def __init__(
        self,
        server: ApiServer,
        *,
        effect: Callable[[Request], Effect | None] = lambda request: None,
        later: Later | None = None,
    ) -> None:
        """``effect``: what a request meets. ``later``: calls something after so many seconds,
        whoever serves by then; by itself the loop that serves now."""
        self.failures: list[Exception] = []
        """Requests that the double has no rule for, and its own errors."""
        self._server, self._effect, self._later = server, effect, later
        self._changed = asyncio.Event()
        self._cuts = 0

    def cut_watches(self) -> None:
        """Reset the connections of watches that are under way, in the middle of their next
        events."""
        self._cuts += 1

    def protocols(self) -> web.Server:
        """What makes the protocol of each connection, in the loop that serves from now on."""
        self._changed = asyncio.Event()
        return web.Server(self._serve, access_log=None, handler_cancellation=True)

    async def _serve(self, given: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(given)
        except ConnectionError:  # the client is gone
            return reset(given)
        except Exception as error:
            self.failures.append(error)
            return reset(given)

    async def _answer(self, given: web.BaseRequest) -> web.StreamResponse:
        request = Request(
            method=given.method,
            path=given.path,
            query=dict(given.query),
            body=await given.read(),
            form=given.content_type,
            accept=given.headers.get("Accept", ""),
        )
        effect = self._effect(request)
        match effect:
            case Answer():
                return response(effect)
            case LoseRequest():
                return reset(given)
            case DelayRequest(seconds):
                self._hold(request, seconds)
                await asyncio.sleep(seconds)
                return reset(given)
            case _:
                pass
        answer = self.handle(request)
        match effect:
            case LoseAnswer():
                return reset(given)
            case DelayAnswer(seconds):
                await asyncio.sleep(seconds)
            case _:
                pass
        if isinstance(answer, Answer):
            return response(answer)
        cut = effect.events if isinstance(effect, CutStream) else None
        return await self._stream(given, answer, cut)

    def _hold(self, request: Request, seconds: float) -> None:
        def arrive() -> None:
            try:
                self.handle(request)
            except NotServed as error:
                self.failures.append(error)

        (self._later or asyncio.get_running_loop().call_later)(seconds, arrive)

    def handle(self, request: Request) -> Answer | Watch:
        """Raises NotServed."""
        version = self._server.store.version
        try:
            return self._server.handle(request)
        finally:
            if self._server.store.version != version:
                self._changed.set()
                self._changed = asyncio.Event()

    async def _stream(
        self, given: web.BaseRequest, watch: Watch, cut: int | None
    ) -> web.StreamResponse:
        """``cut``: the number of the event in whose middle the connection is reset."""
        reply = web.StreamResponse(headers={"Content-Type": "application/json"})
        reply.enable_chunked_encoding()
        await reply.prepare(given)
        seconds = float(given.query.get("timeoutSeconds", _WATCH_SECONDS))
        loop, cuts = asyncio.get_running_loop(), self._cuts
        ends, marked, told = loop.time() + seconds, loop.time(), 0
        while (now := loop.time()) < ends:
            changed = self._changed
            for event in watch.lines():
                line = orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)
                if told == cut or cuts != self._cuts:
                    await reply.write(line[: len(line) // 2])
                    return reset(given)
                await reply.write(line)
                told += 1
            if watch.over:
                break
            if watch.bookmarks and now >= marked + BOOKMARK_SECONDS:
                marked = now
                await reply.write(orjson.dumps(watch.bookmark(), option=orjson.OPT_APPEND_NEWLINE))
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(ends, marked + BOOKMARK_SECONDS)):
                    await changed.wait()
        await reply.write_eof()
        return reply


def response(answer: Answer) -> web.Response:
    retry = {"Retry-After": str(answer.retry_after)} if answer.retry_after else {}
    if isinstance(answer.body, str):
        return web.Response(status=answer.code, text=answer.body, headers=retry)
    return web.json_response(answer.body, status=answer.code, headers=retry)


def reset(request: web.BaseRequest) -> web.StreamResponse:
    """End the client's connection without a word more."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=HTTPStatus.NOT_IMPLEMENTED)
