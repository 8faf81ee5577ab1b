"""A ledger of today's schema on a real server, which is emptied afterwards."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from tests.shared.ledger.migration.busy_ledger import BusyLedger, record
from tests.shared.ledger.migration.next_schema import become_next_version


@pytest.fixture
def client(embedded_server: EmbeddedServer) -> Iterator[Any]:
    with redis.Redis.from_url(embedded_server.url, protocol=2) as client:
        yield client
        client.flushall()


@pytest.fixture
async def ledger(embedded_server: EmbeddedServer) -> AsyncIterator[RedisLedger]:
    ledger = RedisLedger(embedded_server.url)
    yield ledger
    await ledger.close()


@pytest.fixture(scope="session")
def busy() -> BusyLedger:
    with tempfile.TemporaryDirectory(prefix="qt-") as directory:
        return asyncio.run(record(Path(directory)))


@pytest.fixture
def next_version(busy: BusyLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """``busy`` is written before, by the version of today."""
    become_next_version(monkeypatch)
