"""A server that speaks TLS before the embedded one."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from shared.ledger.redis.server import EmbeddedServer


@contextlib.asynccontextmanager
async def tls_before(
    server: EmbeddedServer,
    certificate: tuple[Path, Path],
    *,
    clients: Path | None = None,
    address: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[int]:
    """Yields the port. ``clients``: who may issue the certificate that a client must show."""
    rules = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    rules.load_cert_chain(*certificate)
    if clients is not None:
        rules.verify_mode = ssl.CERT_REQUIRED
        rules.load_verify_locations(clients)

    links: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(1 << 16):
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()

    async def link(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner = await asyncio.open_unix_connection(server.socket)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(carry(reader, inner[1]))
                group.create_task(carry(inner[0], writer))
        finally:
            inner[1].close()

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link_task = asyncio.create_task(link(reader, writer))
        links.add(link_task)
        link_task.add_done_callback(links.discard)
        link_task.add_done_callback(lambda _: writer.close())  # also of one that never began

    listening = await asyncio.start_server(serve, address, port, ssl=rules)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for link_task in list(links):
            link_task.cancel()
        await asyncio.gather(*links, return_exceptions=True)
