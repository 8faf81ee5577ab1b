"""An empty ledger for each test."""

from __future__ import annotations

import pytest
import redis

from shared.ledger.redis.server import EmbeddedServer


@pytest.fixture
def ledger_url(embedded_server: EmbeddedServer) -> str:
    with redis.Redis.from_url(embedded_server.url, protocol=2) as client:
        client.flushall()
    return embedded_server.url
