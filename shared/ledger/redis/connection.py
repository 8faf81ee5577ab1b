"""The connections to the ledger's server: one pool, one try, a limit on every answer."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis, SSLConnection
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import TimeoutError as RedisTimeoutError

from shared.ledger.redis.access import TLS, Access


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


class _VerifiedConnection(SSLConnection):
    """TLS that trusts only the named certificates: the library trusts the system's as well."""

    def __init__(self, *, rules: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)
        self._rules = rules

    def _connection_arguments(self) -> Any:
        return {**super()._connection_arguments(), "ssl": self._rules}


def tls_rules(access: Access) -> ssl.SSLContext:
    """The TLS context: the server must show a certificate for its name by a trusted authority. TLS
    1.2 or newer.

    Raises OSError where a file cannot be read or is not what it should be.
    """
    rules = ssl.create_default_context(cafile=access.ca or None)
    rules.minimum_version = ssl.TLSVersion.TLSv1_2
    if access.certificate:
        rules.load_cert_chain(access.certificate, access.key)
    return rules


def open_client(access: Access, *, limit: float | None, size: int) -> Any:
    """A client of at most ``size`` connections that answers in bytes (the library's own types leave
    open bytes or text). ``limit`` None: the caller limits its calls itself, as pipelines and
    blocking reads must be."""
    where: dict[str, Any] = dict(parse_url(access.url))
    if access.url.startswith(TLS):
        where |= {"connection_class": _VerifiedConnection, "rules": tls_rules(access)}
    if access.username:
        where["username"] = access.username
    pool = BlockingConnectionPool(
        **where,
        password=access.password,
        protocol=2,
        max_connections=size,
        timeout=30,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=None,
        socket_connect_timeout=5.0,
        decode_responses=False,
        driver_info=None,  # else each connection parses metadata of a package, for 2 ms
    )
    client = _Client(connection_pool=pool)
    client.limit = limit
    return client
