"""The sockets of a client session, closed before its loop ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable

from aiohttp.connector import AddrInfoType

from laboratory.local_kubernetes.errors import LocalClusterFailed

SECONDS = 60.0


@contextlib.asynccontextmanager
async def sockets() -> AsyncIterator[Callable[[AddrInfoType], socket.socket]]:
    """Makes the sockets of a session that ends within the block.

    One whose request was cancelled, or whose answer was not read to its end, is still open after
    the session's end: it waits for the server's goodbye of TLS, and the loop would end before.
    """
    opened: list[socket.socket] = []

    def make(address: AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        opened.append(socket.socket(family, kind, protocol))
        return opened[-1]

    try:
        yield make
    finally:
        await _close([opened_socket for opened_socket in opened if opened_socket.fileno() != -1])


async def _close(still_open: list[socket.socket]) -> None:
    for opened_socket in still_open:
        with contextlib.suppress(OSError):
            opened_socket.shutdown(socket.SHUT_RDWR)
    deadline = time.monotonic() + SECONDS
    while any(opened_socket.fileno() != -1 for opened_socket in still_open):
        if time.monotonic() > deadline:
            raise LocalClusterFailed("a socket to the API server stayed open")
        await asyncio.sleep(0)
