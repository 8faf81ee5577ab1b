"""A ledger on the real server only: for what the scripts do with arguments no client would send."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from tests.conftest import flush
from tests.shared.ledger.conftest import NOW
from tests.shared.ledger.mutations.scripts import Scripts
from tests.shared.ledger.support import Desk, cluster


@pytest.fixture
async def scripts(embedded_server: EmbeddedServer) -> AsyncIterator[Scripts]:
    flush(embedded_server)
    ledger = RedisLedger(embedded_server.url, clock=lambda: NOW)
    desk = await Desk(ledger).open("1")
    await desk.store(*cluster())
    yield Scripts(desk, ledger)
    await ledger.close()
