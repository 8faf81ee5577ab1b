"""Requests as bytes, over sockets of our own: what no client library would send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from shared.ledger.redis.server import EmbeddedServer
from tests.conftest import flush


def empty(server: EmbeddedServer) -> str:
    """The address of the session's server, with nothing in it."""
    flush(server)
    return server.url


@dataclass(frozen=True)
class Wire:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *lines: str, body: bytes = b"") -> None:
        """A head with these lines, and what follows it."""
        self.writer.write("\r\n".join((*lines, "", "")).encode() + body)
        await self.writer.drain()

    async def answer(self) -> tuple[int, str]:
        """Status and body of the next answer, which says its length; (0, "") = it was closed."""
        try:
            async with asyncio.timeout(60.0):
                head = await self.reader.readuntil(b"\r\n\r\n")
                lines = head.decode().lower().split("\r\n")
                sizes = [one[16:] for one in lines if one.startswith("content-length: ")]
                body = await self.reader.readexactly(int(sizes[0]))
                return int(lines[0].split()[1]), body.decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0, ""

    async def ended(self) -> bytes:
        """Read until the server closes the connection."""
        try:
            async with asyncio.timeout(60.0):
                return await self.reader.read()
        except ConnectionError:
            return b""


@asynccontextmanager
async def wire(url: str, *, source: str | None = None) -> AsyncIterator[Wire]:
    """A connection to the server, from this address of our own."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    local = None if source is None else (source, 0)
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=local)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def ask(url: str, *lines: str, body: bytes = b"") -> tuple[int, str]:
    """The answer to one request over a connection of its own."""
    async with wire(url) as one:
        await one.send(*lines, *([f"Content-Length: {len(body)}"] if body else []), body=body)
        return await one.answer()
