"""The connections to the ledger's server: one pool, one try, a limit on every answer."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import TimeoutError as RedisTimeoutError


class _Client(Redis):
    """A client whose every command must be answered within ``limit`` seconds.

    The library's own limit (``socket_timeout``) makes a task of each send and, before Python 3.12,
    may swallow the cancellation of its caller (``asyncio.wait_for`` does).
    """

    limit: float | None = None

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        call: Any = super().execute_command
        try:
            async with asyncio.timeout(self.limit):
                return await call(*args, **options)
        except TimeoutError:
            raise RedisTimeoutError(f"{args[0]} had none within {self.limit:g} s") from None


def open_client(url: str, password: str | None, *, limit: float | None, size: int) -> Any:
    """A client of at most ``size`` connections that answers in bytes (the library's own types leave
    open bytes or text). ``limit`` None: the caller limits its calls itself, as pipelines and
    blocking reads must be."""
    pool = BlockingConnectionPool.from_url(
        url,
        password=password,
        protocol=2,
        max_connections=size,
        timeout=30,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=None,
        socket_connect_timeout=5.0,
        decode_responses=False,
    )
    client = _Client(connection_pool=pool)
    client.limit = limit
    return client
