"""A proxy before the API server that spoils what it is told to.

It ends TLS, so a client shows it a bearer token: a certificate would not get through. What is not
spoilt passes as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.identity import Identity
from laboratory.local_kubernetes.server_process import LOOPBACK
from laboratory.local_kubernetes.sockets import sockets
from tests.coordinator.api.client import SECONDS
from tests.kubernetes.faults.effects import (
    Answer,
    CutStream,
    Effect,
    Fault,
    HoldAnswer,
    HoldRequest,
    LoseAnswer,
    LoseRequest,
)

_BETWEEN_HOPS = ("Connection", "Host", "Keep-Alive", "Transfer-Encoding", "Content-Length")

_OURS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that the client of the proxy would add where its own client sent none."""


@dataclass(slots=True)
class _Stream:
    """A watch that is under way."""

    path: str
    cut: bool = False


class FaultyProxy:
    def __init__(self, control_plane: ControlPlane, server: aiohttp.ClientSession) -> None:
        self._control_plane = control_plane
        self._server = server
        self._faults: list[Fault] = []
        self._streams: list[_Stream] = []
        self._clients: WeakSet[asyncio.Transport] = WeakSet()
        self._held: set[asyncio.Task[Any]] = set()
        self.url = ""
        """The proxy's address, once it listens."""
        self.parts: list[bytes] = []
        """The part that was sent of each event in which a watch was cut."""

    def identity(self, name: str, token: str) -> Identity:
        """Identity that connects by way of the proxy."""
        return self._control_plane.bearer(name, token, server=self.url)

    def inject(
        self,
        effect: Effect,
        *,
        method: str = "GET",
        part: str = "",
        times: int = 1,
        watches: bool = False,
    ) -> Fault:
        """Spoil the next requests of this kind; ``met`` of the result counts them."""
        fault = Fault(effect, method, part, times, watches or isinstance(effect, CutStream))
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """From now on nothing is spoilt."""
        self._faults.clear()

    def cut_watches(self, part: str = "") -> int:
        """Cut watches that are under way in the middle of their next event. How many those are."""
        chosen = [stream for stream in self._streams if part in stream.path]
        for stream in chosen:
            stream.cut = True
        return len(chosen)

    async def until_met(self, fault: Fault, times: int = 1) -> None:
        async with asyncio.timeout(SECONDS):
            while fault.met < times:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def abort_clients(self) -> None:
        """Close what waits for a client's goodbye of TLS: the loop ends before it comes."""
        for client in self._clients:
            client.abort()
        await asyncio.sleep(0)

    # --- serving ------------------------------------------------------------------------------

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            self._clients.add(request.transport)
        watch = request.query.get("watch") in ("true", "1")
        body = await request.read()
        match effect := self._effect(request, watch=watch):
            case Answer():
                return _answered(effect)
            case LoseRequest():
                return _reset(request)
            case HoldRequest():
                return await self._held_back(request, body, effect)
            case _:
                return await self._pass_on(request, body, effect, watch=watch)

    def _effect(self, request: web.Request, *, watch: bool) -> Effect | None:
        for fault in self._faults:
            if fault.meets(request.method, request.path, watch=watch):
                fault.met += 1
                return fault.effect
        return None

    async def _pass_on(
        self, request: web.Request, body: bytes, effect: Effect | None, *, watch: bool
    ) -> web.StreamResponse:
        async with self._ask(request, body) as answer:
            if watch and answer.status == 200:
                return await self._stream(request, answer, effect)
            text = await answer.read()
            if isinstance(effect, LoseAnswer):
                return _reset(request)
            if isinstance(effect, HoldAnswer):
                await effect.released.wait()
            return web.Response(
                status=answer.status, body=text, headers=_end_to_end_headers(answer.headers)
            )

    async def _held_back(
        self, request: web.Request, body: bytes, effect: HoldRequest
    ) -> web.StreamResponse:
        async def later() -> web.Response:
            await effect.released.wait()
            async with self._ask(request, body) as answer:
                text = await answer.read()
                return web.Response(
                    status=answer.status, body=text, headers=_end_to_end_headers(answer.headers)
                )

        # A task of its own: a client that gives up does not take its request back.
        task = asyncio.create_task(later())
        self._held.add(task)
        task.add_done_callback(self._held.discard)
        return await asyncio.shield(task)

    async def _stream(
        self, request: web.Request, answer: aiohttp.ClientResponse, effect: Effect | None
    ) -> web.StreamResponse:
        reply = web.StreamResponse(
            status=answer.status, headers=_end_to_end_headers(answer.headers)
        )
        await reply.prepare(request)
        stream = _Stream(request.path)
        self._streams.append(stream)
        passed = 0
        # An event in protocol buffers does not end with a line, and passes as it comes.
        lines = answer.content_type == "application/json"
        try:
            async for line in answer.content if lines else answer.content.iter_any():
                cut = isinstance(effect, CutStream) and passed >= effect.events
                if stream.cut or cut:
                    self.parts.append(line[: len(line) // 2])
                    await reply.write(self.parts[-1])
                    return _reset(request)
                await reply.write(line)
                passed += 1
        finally:
            self._streams.remove(stream)
        return reply

    def _ask(self, request: web.Request, body: bytes) -> Any:
        return self._server.request(
            request.method,
            URL(request.raw_path, encoded=True),
            data=body or None,
            headers=_end_to_end_headers(request.headers),
            skip_auto_headers=_OURS,
        )

    async def stop(self) -> None:
        for task in list(self._held):
            task.cancel()
        await asyncio.gather(*self._held, return_exceptions=True)


@contextlib.asynccontextmanager
async def faulty_proxy(control_plane: ControlPlane) -> AsyncIterator[FaultyProxy]:
    """A proxy that listens as long as the block lasts."""
    rules = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    rules.load_cert_chain(*control_plane.serving)
    # Of the body nothing is decoded, and a watch may be silent for long.
    timeout = aiohttp.ClientTimeout(total=None)
    trust = control_plane.trust()
    async with (
        sockets() as make,
        aiohttp.ClientSession(
            control_plane.url,
            connector=aiohttp.TCPConnector(ssl=trust, limit=0, socket_factory=make),
            auto_decompress=False,
            timeout=timeout,
        ) as server,
    ):
        proxy = FaultyProxy(control_plane, server)
        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/{path:.*}", proxy.serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, LOOPBACK, 0, ssl_context=rules)
        await site.start()
        proxy.url = f"https://{LOOPBACK}:{runner.addresses[0][1]}"
        try:
            yield proxy
        finally:
            await proxy.stop()
            await runner.cleanup()
            await proxy.abort_clients()


def _end_to_end_headers(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Without those of one hop."""
    rest = CIMultiDict(headers)
    for name in _BETWEEN_HOPS:
        rest.popall(name, None)
    return rest


def _answered(effect: Answer) -> web.Response:
    reason = "TooManyRequests" if effect.code == 429 else "InternalError"
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": effect.message,
        "code": effect.code,
    }
    retry = {} if effect.retry_after is None else {"Retry-After": str(effect.retry_after)}
    return web.json_response(body, status=effect.code, headers=retry)


def _reset(request: web.Request) -> web.StreamResponse:
    """End the client's connection without a word more."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
