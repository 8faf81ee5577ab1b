"""The same tests run against the scripts on a real server and on one in memory."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.protocol import Ledger
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from tests.conftest import flush
from tests.shared.ledger.support import Desk, cluster

NOW = 1_700_000_000.25


@pytest.fixture(params=["server", "memory"])
async def ledger(
    request: pytest.FixtureRequest, embedded_server: EmbeddedServer
) -> AsyncIterator[Ledger]:
    if request.param == "memory":
        yield MemoryLedger(random.Random(1), clock=lambda: NOW)
        return
    flush(embedded_server)
    real = RedisLedger(embedded_server.url, clock=lambda: NOW)
    yield real
    await real.close()


@pytest.fixture
async def desk(ledger: Ledger) -> Desk:
    """Four nodes of 8 cores, three classes, queue 0 above 1 and 2."""
    opened = await Desk(ledger).open("1")
    await opened.store(*cluster())
    return opened
