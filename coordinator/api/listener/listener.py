"""The HTTP listener: it keeps accepting, however many connections are open.

aiohttp limits idle time, but neither the number of connections nor the time for a request's head,
and asyncio pauses for a second after a failed ``accept``. So sockets are accepted here, and
:class:`coordinator.api.listener.connections.Connections` chooses the connection to close for a new
one (decision 0043).
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
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
from coordinator.api.listener.certificate import ServingCertificate, serving_certificate
from coordinator.api.listener.connections import Connections, TooManyConnections, WaitingFor
from coordinator.api.listener.provenance import AllowedHosts, allowed_hosts
from coordinator.errors import Problem, rendered
from shared.byte_cache import MIB, byte_cache
from shared.settings.addresses import Network, parse_networks
from shared.settings.settings import Settings

log = structlog.get_logger(__name__)

MOST_CONNECTIONS = 4096
"""Maximum connections, if the limit of open files allows it. An idle one takes 5.5 KB (M); watches
are limited to 128, and other requests hold a connection for milliseconds."""

FILES_OF_THE_SERVICE = 192
FILES_OF_A_SHARD = 2
"""File descriptors reserved for everything else: for the service, and in addition for each shard.

An idle coordinator has 41 open with 4 shard workers and 52 with 12 (M), for Ray's channels; the
rest is for files that are opened occasionally.
"""

FEWEST_CONNECTIONS = 32
"""Minimum limit on connections, however low the limit of open files."""

IDLE_SECONDS = 120.0
"""Idle connections are closed after this time. It exceeds the clients' own (Go 90 s, aiohttp 15 s),
so that clients close first and no request meets a closing connection."""

STALLED_SECONDS = 30.0
"""A client that reads nothing of its answer for this long is disconnected. Streams use 10 s."""

HANDSHAKE_SECONDS = 10.0
"""For TLS to be agreed on. It counts to the time for a first byte."""

SWEEP_SECONDS = 1.0
"""Interval of the check for expired deadlines."""

BACKLOG = 1024
"""Connections that the kernel queues until they are accepted. The default of 128 fills within 10 ms
of a flood; then the client's own retry takes a second."""

ACCEPTS_PER_TURN = 16
"""Connections accepted before other tasks run: 80 us each (M)."""

LONGEST_LINE = 8190
"""Maximum bytes of a request's first line, and of each header."""

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_SECONDS = 0.05
"""Pause when the system has no descriptor left, after one was released."""


class CannotListen(Exception):
    """The address is taken, or none of this machine's; ``str()`` names the settings."""


def most_connections(shards: int) -> int:
    """The connection limit: the limit of open files minus the service's own."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    remaining = limit - FILES_OF_THE_SERVICE - FILES_OF_A_SHARD * shards
    return max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, remaining))


class Proxies:
    """Addresses shared by many clients: this machine's, and configured proxies."""

    def __init__(self, networks: tuple[Network, ...] = ()) -> None:
        self._networks = networks
        # Asked for each connection; what a flood of addresses costs is bounded.
        self.include = byte_cache("client-addresses", MIB)(self._include)
        """Whether an address is one of them. True for one that cannot be parsed (a unix
        socket's)."""

    def _include(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return True
        if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
            return self._include(str(parsed.ipv4_mapped))
        return parsed.is_loopback or any(parsed in network for network in self._networks)


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """The operator's settings for listeners. ``shards``: number of workers that need
    descriptors. ``authenticated``: who asks has to show a token. ``tls`` None: plain HTTP."""

    hosts: AllowedHosts = field(default_factory=AllowedHosts)
    proxies: Proxies = field(default_factory=Proxies)
    shards: int = 0
    authenticated: bool = False
    tls: ServingCertificate | None = None


def listener_options(settings: Settings) -> ListenerOptions:
    """Raises SettingsError where the certificate cannot be used."""
    return ListenerOptions(
        allowed_hosts(settings),
        Proxies(parse_networks(settings.proxies)),
        settings.shards,
        authenticated=settings.access_reviews or settings.tokens_file is not None,
        tls=serving_certificate(settings),
    )


class Listener:
    """Serves an application. ``shutdown_seconds``: time for open requests to finish at the end."""

    def __init__(
        self, app: web.Application, options: ListenerOptions, *, shutdown_seconds: float
    ) -> None:
        logging.getLogger("aiohttp.server").addFilter(ONE_LINE)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=shutdown_seconds)
        self._connections: Connections[_ClientConnection] = Connections(
            most=most_connections(options.shards), uncounted=options.proxies.include
        )
        self._tls = options.tls
        self._accepted: set[socket.socket] = set()
        """Accepted sockets without a transport, which would close them."""

    @asynccontextmanager
    async def open(self, host: str, port: int, group: asyncio.TaskGroup) -> AsyncIterator[None]:
        """Listen on all addresses of ``host`` inside the context; tasks run in ``group``. Raises
        CannotListen."""
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
            if self._tls is not None:
                tasks.append(group.create_task(self._tls.follow_forever()))
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
                    self._connect(connection, accepted, group)
            # sock_accept does not wait while connections are there: others get their turn here
            await asyncio.sleep(0)

    def _connect(
        self, connection: _ClientConnection, accepted: socket.socket, group: asyncio.TaskGroup
    ) -> None:
        """Give the socket to the connection, after a handshake where TLS is spoken."""
        self._accepted.add(accepted)
        connecting = group.create_task(self._connected(connection, accepted))

        def ended(task: asyncio.Task[bool]) -> None:
            # Here and not in the task: one that is cancelled before its first step runs no line.
            self._accepted.discard(accepted)
            connection.connecting = None
            if task.cancelled() or task.exception() is not None or not task.result():
                connection.abort()
                accepted.close()

        connection.connecting = connecting
        connecting.add_done_callback(ended)

    async def _connected(self, connection: _ClientConnection, accepted: socket.socket) -> bool:
        tls = None if self._tls is None else self._tls.context
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
            )
        except OSError as error:  # it left meanwhile, or speaks no TLS
            log.debug("Lost a connection before it was served", why=str(error))
            return False
        return True

    def _admit(
        self, server: web.Server, accepted: socket.socket, address: str
    ) -> _ClientConnection | None:
        """The protocol of a new connection; None = it was refused and closed."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        try:
            # The new connection is taken and a waiting one closed: a refusal at the bound would let
            # whoever holds the places keep all others out (decision 0043).
            if (longest_waiting := self._connections.make_room(address, now)) is not None:
                longest_waiting.abort()
        except TooManyConnections:
            if self._tls is None:
                _turn_away(accepted, address, len(self._connections))
            else:  # an answer would have to wait for a handshake
                accepted.close()
            return None
        connection = _ClientConnection(server, loop, self._connections)
        self._connections.opened(connection, address, now)
        return connection

    async def _exhausted(self, error: OSError) -> None:
        """Handle a lack of descriptors, here or in the whole system: release one, then retry."""
        log.warning(
            "Closed a waiting connection: no descriptor is left for a new one",
            why=error.strerror,
            connections=len(self._connections),
        )
        now = asyncio.get_running_loop().time()
        if (longest_waiting := self._connections.longest_waiting(now)) is not None:
            longest_waiting.abort()
        # asyncio's own listener stops accepting for a second at each EMFILE, which silences it
        # under a flood (decision 0043).
        await asyncio.sleep(_EXHAUSTED_SECONDS)

    async def _sweep_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for connection, owed in self._connections.overdue(loop.time()):
                connection.time_out(owed)


class _ClientConnection(web.RequestHandler):
    """aiohttp's connection handler, which reports what the client owes."""

    __slots__ = ("_book", "_clock", "_socket", "_stalled", "connecting")

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
        self.connecting: asyncio.Task[bool] | None = None
        """While TLS is agreed on: then nothing else has the socket."""

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
        """The client does not read its answer."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self._clock.call_later(STALLED_SECONDS, self.abort)

    def resume_writing(self) -> None:
        self._cancel_stalled()
        super().resume_writing()

    def abort(self) -> None:
        """Close at once; unsent data is lost. Counts as closed from now on."""
        self._book.closed(self)
        self.force_close()
        self._stop_connecting()
        if self._socket is not None:
            self._socket.abort()

    def time_out(self, owed: WaitingFor) -> None:
        """Close after the deadline. A client that sent part of a head gets an answer."""
        if owed is WaitingFor.HEAD and self._socket is not None:
            problem = Problem(
                HTTPStatus.REQUEST_TIMEOUT,
                "the head of the request did not arrive in time; send it again, at once",
            )
            self._socket.write(answer_bytes(problem))
        self._book.closed(self)
        self.force_close()
        self._stop_connecting()

    def _stop_connecting(self) -> None:
        if self._socket is None and self.connecting is not None:
            self.connecting.cancel()

    def _cancel_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


def _noting(runner: web.AppRunner, book: Connections[_ClientConnection]) -> web.Server:
    """The application's server, with requests noted in the book."""
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
    """Listening sockets; asyncio binds all addresses of a name. Raises CannotListen."""
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(asyncio.Protocol, host, port, start_serving=False)
    except OSError as error:
        reason = error.strerror
        if error.errno is not None and not isinstance(error, socket.gaierror):
            reason = os.strerror(error.errno)  # asyncio's text says the address a second time
        raise CannotListen(
            f"listen_host {host}, listen_port {port}: {reason}; end what listens there, or set "
            "QUADRANT_LISTEN_HOST or QUADRANT_LISTEN_PORT"
        ) from error
    try:
        sockets = [listener.dup() for listener in server.sockets]
    finally:
        server.close()
    for listener in sockets:
        listener.setblocking(False)
        listener.listen(BACKLOG)
    return sockets


def _address(peer: Any) -> str:
    """The host of a peer's address; "" if it has none."""
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def _turn_away(accepted: socket.socket, address: str, connections: int) -> None:
    """Answer without reading the request; the client may be gone by then."""
    problem = Problem(
        HTTPStatus.TOO_MANY_REQUESTS,
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
    """A complete HTTP/1.1 answer that closes the connection."""
    code, headers, body = rendered(problem, "/api")
    lines = [f"HTTP/1.1 {code} {problem.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body
