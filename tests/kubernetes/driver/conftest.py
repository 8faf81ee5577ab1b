"""Empty ledgers for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from shared.ledger.redis.server import EmbeddedServer


@pytest.fixture
def ledger_url(embedded_server: EmbeddedServer) -> str:
    with redis.Redis.from_url(embedded_server.url, protocol=2) as client:
        client.flushall()
    return embedded_server.url


@pytest.fixture
def second_ledger(short_dir: Path) -> Iterator[str]:
    server = EmbeddedServer(short_dir, short_dir / "second")
    server.start(30.0)
    yield server.url
    server.stop(10.0)
