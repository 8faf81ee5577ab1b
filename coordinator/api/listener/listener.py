"""The HTTP listener: it goes on accepting, whatever connections are open already.

The library bounds the time that a connection may be idle. It has no bound on their number, none on
the time for a request's head, and after a failed ``accept`` asyncio pauses for a second. So the
sockets are accepted here, and :class:`coordinator.api.listener.connections.Connections` says which
connection is closed for a new one (decision 0043).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import structlog
from aiohttp import web

from coordinator.api.http.failures import ONE_LINE
from coordinator.api.listener.connections import Connections, TooManyConnections, WaitingFor
from coordinator.api.listener.provenance import AllowedHosts, allowed_hosts
from coordinator.api.listener.proxies import Proxies
from coordinator.errors import Problem, rendered
from shared.settings.addresses import parse_networks
from shared.settings.settings import Settings

log = structlog.get_logger(__name__)

MOST_CONNECTIONS = 4096
"""Connections in all, where the limit of files allows so many. One that is idle holds 5.5 KB (M);
watches are bounded at 128, and what asks and goes holds a connection for milliseconds."""

FILES_OF_THE_SERVICE = 192
FILES_OF_A_SHARD = 2
"""Descriptors that are kept for everything else. A coordinator at rest has 41 open with 4 shard
workers and 52 with 12 (M): channels of Ray; the rest is for files that are opened now and then."""

FEWEST_CONNECTIONS = 32
"""Connections that are allowed however low the limit of files is."""

IDLE_SECONDS = 120.0
"""An idle connection is closed after so long. Longer than clients keep one (Go 90 s, aiohttp 15 s),
so that they end it, and no request meets a connection that is being closed."""

STALLED_SECONDS = 30.0
"""A client that takes nothing of its answer for so long is cut. Streams cut theirs after 10 s."""

SWEEP_SECONDS = 1.0
"""How often connections are looked through for deadlines that are over."""

BACKLOG = 1024
"""Connections that the kernel keeps until they are accepted; the default of 128 is full within
10 ms of a flood, and then the client's own retry takes a second."""

ACCEPTS_PER_TURN = 16
"""Connections that are taken before others get their turn on the loop: 80 us each (M)."""

LONGEST_LINE = 8190
"""Bytes of a request's first line, and of each of its headers."""

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_SECONDS = 0.05
"""Pause where the system has no descriptor left, after one was given back."""


def most_connections(shards: int) -> int:
    """The bound on connections: what the limit of files leaves beside the service's own."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    remaining = limit - FILES_OF_THE_SERVICE - FILES_OF_A_SHARD * shards
    return max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, remaining))


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """What the operator says of the listeners; ``shards``: how many workers need descriptors."""

    hosts: AllowedHosts = field(default_factory=AllowedHosts)
    proxies: Proxies = field(default_factory=Proxies)
    shards: int = 0


def listener_options(settings: Settings) -> ListenerOptions:
    proxies = Proxies(parse_networks(settings.proxies))
    return ListenerOptions(allowed_hosts(settings), proxies, settings.shards)


class Listener:
    """Serves an application. ``shutdown_seconds``: how long open requests may take at the end."""

    def __init__(
        self, app: web.Application, options: ListenerOptions, *, shutdown_seconds: float
    ) -> None:
        logging.getLogger("aiohttp.server").addFilter(ONE_LINE)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=shutdown_seconds)
        self._connections: Connections[_ClientConnection] = Connections(
            most=most_connections(options.shards), uncounted=options.proxies.include
        )
        self._accepted: set[socket.socket] = set()
        """Those that have no transport yet, which would close them."""

    @asynccontextmanager
    async def open(self, host: str, port: int, group: asyncio.TaskGroup) -> AsyncIterator[None]:
        """Listen on all addresses of ``host`` while the context is open; its tasks run in
        ``group``. Raises OSError where that is not possible."""
        tasks: list[asyncio.Task[None]] = []
        listening: list[socket.socket] = []
        await self._runner.setup()
        try:
            server = _noting(self._runner, self._connections)
            listening = await _bound(host, port)
            tasks += [
                group.create_task(self._accept_forever(server, listener, group))
                for listener in listening
            ]
            tasks.append(group.create_task(self._sweep_forever()))
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for listener in (*listening, *self._accepted):
                listener.close()
            await self._runner.cleanup()

    async def _accept_forever(
        self, server: web.Server, listening: socket.socket, group: asyncio.TaskGroup
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            for _ in range(ACCEPTS_PER_TURN):
                try:
                    accepted, peer = await loop.sock_accept(listening)
                except ConnectionAbortedError:  # it left before it was taken
                    continue
                except OSError as error:
                    if error.errno not in _EXHAUSTED:
                        raise
                    await self._exhausted(error)
                    continue
                if connection := self._admit(server, accepted, _address(peer)):
                    self._accepted.add(accepted)
                    group.create_task(self._connect(connection, accepted))
            # sock_accept does not wait while connections are there: others get their turn here
            await asyncio.sleep(0)

    async def _connect(self, connection: _ClientConnection, accepted: socket.socket) -> None:
        connected = False
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
            connected = True
        except OSError as error:  # it left meanwhile
            log.debug("Lost a connection before it was served", why=error.strerror)
        finally:
            self._accepted.discard(accepted)
            if not connected:
                connection.abort()
                accepted.close()

    def _admit(
        self, server: web.Server, accepted: socket.socket, address: str
    ) -> _ClientConnection | None:
        """The protocol of a new connection; None = it was turned away and is closed."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        try:
            if (longest_waiting := self._connections.make_room(address, now)) is not None:
                longest_waiting.abort()
        except TooManyConnections:
            _turn_away(accepted, address, len(self._connections))
            return None
        connection = _ClientConnection(server, loop, self._connections)
        self._connections.opened(connection, address, now)
        return connection

    async def _exhausted(self, error: OSError) -> None:
        """No descriptor is left, here or in the whole system: give one back, then try again."""
        log.warning(
            "Closed a waiting connection: no descriptor is left for a new one",
            why=error.strerror,
            connections=len(self._connections),
        )
        now = asyncio.get_running_loop().time()
        if (longest_waiting := self._connections.longest_waiting(now)) is not None:
            longest_waiting.abort()
        await asyncio.sleep(_EXHAUSTED_SECONDS)

    async def _sweep_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for connection, owed in self._connections.overdue(loop.time()):
                connection.time_out(owed)


class _ClientConnection(web.RequestHandler):
    """One connection of the library, which says what the client owes."""

    __slots__ = ("_book", "_clock", "_socket", "_stalled")

    def __init__(
        self,
        server: web.Server,
        loop: asyncio.AbstractEventLoop,
        book: Connections[_ClientConnection],
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # None switches it off
            keepalive_timeout=IDLE_SECONDS,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            auto_decompress=False,  # a small body must not become a large one
        )
        self._book = book
        self._clock = loop
        self._socket: asyncio.Transport | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._book.closed(self)
        self._cancel_stalled()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._book.received(self, self._clock.time())
        super().data_received(data)

    def pause_writing(self) -> None:
        """The client takes nothing of its answer."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self._clock.call_later(STALLED_SECONDS, self.abort)

    def resume_writing(self) -> None:
        self._cancel_stalled()
        super().resume_writing()

    def abort(self) -> None:
        """End it at once; what was not sent yet is lost. Counts as closed from now on."""
        self._book.closed(self)
        self.force_close()
        if self._socket is not None:
            self._socket.abort()

    def time_out(self, owed: WaitingFor) -> None:
        """Its deadline is over. A client that sent part of a head is told."""
        if owed is WaitingFor.HEAD and self._socket is not None:
            problem = Problem(
                HTTPStatus.REQUEST_TIMEOUT,
                "Timeout",
                "the head of the request did not arrive in time; send it again, at once",
            )
            self._socket.write(answer_bytes(problem))
        self._book.closed(self)
        self.force_close()

    def _cancel_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


def _noting(runner: web.AppRunner, book: Connections[_ClientConnection]) -> web.Server:
    """The server of the application, whose requests are noted in the book."""
    server = runner.server
    assert server is not None
    handle = server.request_handler
    clock = asyncio.get_running_loop().time

    async def noted(request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, _ClientConnection)
        if request.content.is_eof():
            book.request_received(connection)
        else:
            book.head_received(connection, clock())
            request.content.on_eof(lambda: book.body_received(connection))
        try:
            return await handle(request)
        finally:
            book.answered(connection, clock())

    server.request_handler = noted
    return server


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Listening sockets; asyncio knows how to bind all addresses of a name."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, host, port, start_serving=False)
    try:
        sockets = [listener.dup() for listener in server.sockets]
    finally:
        server.close()
    for listener in sockets:
        listener.setblocking(False)
        listener.listen(BACKLOG)
    return sockets


def _address(peer: Any) -> str:
    """The host of a peer's address; "" where it has none."""
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def _turn_away(accepted: socket.socket, address: str, connections: int) -> None:
    """Answer without looking at the request; the client may be gone before it reads that."""
    problem = Problem(
        HTTPStatus.TOO_MANY_REQUESTS,
        "TooManyRequests",
        f"{connections} connections are open and every one of them, or of those of {address}, has "
        "a request; come again later, or reuse connections",
        retry_after=1.0,
    )
    try:
        accepted.setblocking(False)
        accepted.send(answer_bytes(problem))
    except OSError as error:
        log.debug("Turned a client away that had left", why=error.strerror)
    finally:
        accepted.close()


def answer_bytes(problem: Problem) -> bytes:
    """A whole answer of HTTP/1.1, after which the connection ends."""
    code, headers, body = rendered(problem, "/api")
    lines = [f"HTTP/1.1 {code} {problem.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body
