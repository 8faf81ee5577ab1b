"""A cancelled call to the ledger ends, whatever moment it was."""

from __future__ import annotations

import asyncio

import pytest

from shared.ledger.errors import LedgerUnavailable
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer


async def test_a_call_is_cancelled_at_any_step_of_it(embedded_server: EmbeddedServer) -> None:
    ledger = RedisLedger(embedded_server.url)
    swallowed = []
    for steps in range(40):
        await ledger.run_id()  # a connection is open
        call = asyncio.create_task(ledger.run_id())
        for _ in range(steps):
            await asyncio.sleep(0)
        if not call.cancel():
            continue  # it had ended before
        await asyncio.wait([call])
        if not call.cancelled():
            swallowed.append(steps)
    await ledger.close()
    assert swallowed == []


async def test_a_server_that_does_not_answer_is_given_up(embedded_server: EmbeddedServer) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hung_up.wait()
        writer.close()

    hung_up = asyncio.Event()
    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    ledger = RedisLedger(f"redis://{host}:{port}", timeout=0.5)
    with pytest.raises(LedgerUnavailable, match=r"HGET.*0\.5 s"):
        await ledger.run_id()
    await ledger.close()
    hung_up.set()
    server.close()
    await asyncio.sleep(0.01)
