"""Errors of the adapter with a server that is not, or no longer, the expected one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from shared.ledger.entries.intake_batch import IntakeBatch, PutQueue
from shared.ledger.errors import LedgerFault, LedgerIdentity
from shared.ledger.keys import key
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from tests.conftest import flush


@pytest.fixture
async def ledger(embedded_server: EmbeddedServer) -> AsyncIterator[RedisLedger]:
    flush(embedded_server)
    redis_ledger = RedisLedger(embedded_server.url)
    yield redis_ledger
    await redis_ledger.close()


async def test_a_server_that_comes_back_empty_is_not_founded_anew(
    ledger: RedisLedger, embedded_server: EmbeddedServer
) -> None:
    await ledger.open()
    flush(embedded_server)
    with pytest.raises(LedgerIdentity, match="identity record"):
        await ledger.open()


async def test_a_trim_of_a_server_that_came_back_empty_names_the_remedy(
    ledger: RedisLedger, embedded_server: EmbeddedServer
) -> None:
    await ledger.open()
    flush(embedded_server)
    with pytest.raises(LedgerIdentity, match="quadrant ledger restore"):
        await ledger.trim(log_before="5-0")


async def test_a_failure_that_would_repeat_is_not_taken_for_a_silent_server(
    ledger: RedisLedger, embedded_server: EmbeddedServer
) -> None:
    """A client that repeats a batch until it is accepted must not repeat this one for ever."""
    leader = await ledger.claim(COORDINATOR)
    run_id = await ledger.bless(leader)
    epoch = await ledger.claim("intake", leader=leader)
    client = Redis.from_url(embedded_server.url)
    await client.set(key("queue"), b"not a hash")
    await client.aclose()
    batch = IntakeBatch("intake", epoch, 1, run_id, [PutQueue(0, -1, None, b"spec")])
    with pytest.raises(LedgerFault, match="WRONGTYPE"):
        await ledger.store(batch)
