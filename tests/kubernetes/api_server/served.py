"""The double on a socket, so that one and the same client asks it and the real server."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator

import aiohttp

from laboratory.api_server.http_edge import HttpEdge
from laboratory.api_server.server import ApiServer
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.server_process import LOOPBACK


@contextlib.asynccontextmanager
async def served_double() -> AsyncIterator[tuple[ApiServer, HttpEdge, ApiClient]]:
    server = ApiServer(clock=time.time, new_uid=lambda: str(uuid.uuid4()))
    edge = HttpEdge(server)
    protocols = edge.protocols()
    listener = await asyncio.get_running_loop().create_server(protocols, LOOPBACK, 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        async with aiohttp.ClientSession(f"http://{LOOPBACK}:{port}") as session:
            yield server, edge, ApiClient(session)
    finally:
        await protocols.shutdown(0.1)
        listener.close()
