"""Readiness probes: whether a socket accepts connections, or a path returns 200."""

from __future__ import annotations

import asyncio
import contextlib
import socket

ANSWER_SECONDS = 2.0
"""Timeout of a probe."""


async def listens(path: str) -> bool:
    """Whether this unix socket accepts connections."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            _, writer = await asyncio.open_unix_connection(path)
            writer.close()
            return True
    return False


async def answers_well(host: str, port: int, path: str) -> bool:
    """Whether GET of this path, without a token, returns 200."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                lines = (f"GET {path} HTTP/1.1", f"Host: {authority}", "Connection: close")
                writer.write("\r\n".join((*lines, "", "")).encode())
                status = await reader.readline()
            finally:
                writer.close()
            return status.split()[1:2] == [b"200"]
    return False


def free_port(host: str) -> int:
    """A port that is free now; the caller should bind it at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
