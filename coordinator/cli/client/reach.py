"""The client of the server that was named: Quadrant itself, or the API server of its cluster."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TypeVar

import orjson

from coordinator.cli.client.client import KubeClient, KubeError, RequestRefused
from coordinator.cli.client.connection import Connection
from coordinator.cli.client.kubeconfig import find_access
from coordinator.cli.client.service_proxy import (
    ACCOUNT,
    SERVICE,
    TOKEN_REQUEST,
    parse_account,
    parse_service,
    token_of,
    why_no_token,
)
from shared.kubeconfig import ConfigError

T = TypeVar("T")


def connected(connection: Connection, *, timeout: float) -> KubeClient:
    """Raises KubeError, ConfigError."""
    access = find_access(server=connection.server, context=connection.context, environ=os.environ)
    client = KubeClient(access, verbose=connection.verbose, timeout=timeout)
    try:
        if access.of_context and client.asks_an_api_server():
            _go_through(client, connection)
    except BaseException:
        client.close()
        raise
    return client


def _go_through(client: KubeClient, connection: Connection) -> None:
    """Ask Quadrant's service from now on, through the API server that the client asks."""
    text = connection.service or os.environ.get("QUADRANT_SERVICE") or SERVICE
    service = _named(text, parse_service(text), "--service", "QUADRANT_SERVICE")
    token, access = client.access.quadrant_token, client.access
    client.access = access = replace(access, token=access.user_token)
    if token is None:
        text = connection.service_account or os.environ.get("QUADRANT_SERVICE_ACCOUNT") or ACCOUNT
        account = _named(text, parse_account(text), "--service-account", "QUADRANT_SERVICE_ACCOUNT")
        try:
            body = orjson.dumps(TOKEN_REQUEST)
            token = token_of(client.ask("POST", account.tokens, body=body)[1])
        except RequestRefused as error:
            why = why_no_token(account, access.origin, error.code, str(error))
            raise KubeError(why) from None
    client.access = replace(access, service=service, quadrant_token=token)


def _named(text: str, parsed: T | None, option: str, variable: str) -> T:
    if parsed is None:
        raise ConfigError(f"{option} or {variable} is {text!r}; write NAMESPACE/NAME")
    return parsed
