"""Renewing a lease outside of any event loop: a connection of its own, and calls that block.

For the thread that keeps a leader's lease (:mod:`coordinator.service.leadership.lease_keeper`).
"""

from __future__ import annotations

import ssl
from typing import Any, Protocol

from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool, SSLConnection, parse_url
from redis.exceptions import NoScriptError
from redis.retry import Retry

from shared.ledger.redis.access import TLS, Access
from shared.ledger.redis.calls import errors_translated, script_call
from shared.ledger.redis.connection import tls_rules
from shared.ledger.redis.ownership import microseconds
from shared.messages.messages import Epoch


class Renewal(Protocol):
    """Not for several threads at once."""

    def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        """Restart the writer's lease of this many seconds; False where another claimed it.

        Errors: LedgerUnavailable where the ledger does not answer in time, LedgerError.
        """
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class _VerifiedRenewalConnection(SSLConnection):
    """TLS by our own rules; see :func:`shared.ledger.redis.connection.tls_rules`."""

    def __init__(self, *, rules: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)
        self._rules = rules

    def _wrap_socket_with_ssl(self, sock: Any) -> Any:
        return self._rules.wrap_socket(sock, server_hostname=self.host)


class RedisRenewal:
    """Renews over a connection of its own. ``timeout``: seconds within which the server must
    answer."""

    def __init__(self, access: Access, *, timeout: float) -> None:
        where: dict[str, Any] = dict(parse_url(access.url))  # type: ignore[no-untyped-call]
        if access.url.startswith(TLS):
            where |= {"connection_class": _VerifiedRenewalConnection, "rules": tls_rules(access)}
        if access.username:
            where["username"] = access.username
        self._pool = ConnectionPool(
            **where,
            password=access.password,
            protocol=2,
            max_connections=1,
            # One attempt: the keeper decides when to ask again, by how much of the lease is left.
            retry=Retry(NoBackoff(), 0),
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            driver_info=None,  # as in `open_client`
        )
        self._client: Any = Redis(connection_pool=self._pool)

    def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        text, call = script_call("renew", writer, str(epoch), microseconds(lease))
        with errors_translated():
            try:
                return bool(self._client.execute_command(*call))
            except NoScriptError:
                self._client.execute_command("SCRIPT LOAD", text)
                return bool(self._client.execute_command(*call))

    def close(self) -> None:
        self._client.close()
        self._pool.disconnect()
