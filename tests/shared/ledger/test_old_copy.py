"""An old copy in the place of the ledger's data, on a real server and on one in memory."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
import redis

from shared.ledger.entries.log import EpochEntry
from shared.ledger.errors import LedgerBehind
from shared.ledger.keys import key
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.protocol import COORDINATOR, Ledger
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from tests.conftest import flush

Restore = Callable[[], None]


@dataclass
class CopiedLedger:
    client: Callable[[], Ledger]
    """One that knows nothing of what others saw."""
    copy: Callable[[], Restore]
    """Copy the data; what it returns puts the copy in their place."""


def _of_server(server: EmbeddedServer) -> Callable[[], Restore]:
    def copy() -> Restore:
        with redis.Redis.from_url(server.url, protocol=2) as client:
            data = {name: client.dump(name) for name in client.keys("*")}

        def restore() -> None:
            with redis.Redis.from_url(server.url, protocol=2) as client:
                client.flushall()
                for name, value in data.items():
                    client.restore(name, 0, value)
                client.hdel(key("meta"), "run")  # the same process goes on: as if it were another

        return restore

    return copy


@pytest.fixture(params=["server", "memory"])
async def place(
    request: pytest.FixtureRequest, embedded_server: EmbeddedServer
) -> AsyncIterator[CopiedLedger]:
    if request.param == "memory":
        memory = MemoryLedger(random.Random(1))

        def copy() -> Restore:
            copied = memory.copy()
            return lambda: memory.bring_back(copied)

        yield CopiedLedger(lambda: memory, copy)
        return
    flush(embedded_server)
    async with contextlib.AsyncExitStack() as closing:

        def client() -> Ledger:
            redis_ledger = RedisLedger(embedded_server.url)
            closing.push_async_callback(redis_ledger.close)
            return redis_ledger

        yield CopiedLedger(client, _of_server(embedded_server))


async def old_copy(place: CopiedLedger) -> str:
    """A copy came back that lacks three entries; the newest of them."""
    ledger = place.client()
    leader = await ledger.claim(COORDINATOR)
    await ledger.bless(leader)
    restore = place.copy()
    for _ in range(3):
        await ledger.claim("0", leader=leader)
    observed = await ledger.log_tail()
    restore()
    return observed


async def test_claims_in_an_old_copy_do_not_hide_what_it_lacks(place: CopiedLedger) -> None:
    """A follower that reads on in it finds nothing, however many claim; and a process that saw more
    rejects it."""
    observed = await old_copy(place)
    ledger = place.client()
    before = await ledger.log_tail()
    leader = await ledger.claim(COORDINATOR)
    for _ in range(5):
        await ledger.claim("0", leader=leader)
    assert await ledger.read_log(observed) == []
    assert await ledger.log_tail() == before
    with pytest.raises(LedgerBehind):
        await place.client().bless(leader, after=observed)
    assert await ledger.log_tail() == before


async def test_an_accepted_copy_is_still_old_to_a_reader_ahead_of_it(
    place: CopiedLedger,
) -> None:
    """Its log ends later than the one that was lost, and what was seen in that is not in it."""
    observed = await old_copy(place)
    ledger = place.client()
    leader = await ledger.claim(COORDINATOR)
    await ledger.bless(leader)
    for _ in range(5):
        await ledger.claim("0", leader=leader)
    entries = await place.client().read_log(observed)
    assert [e.writer for e in entries if isinstance(e, EpochEntry)] == [COORDINATOR, *"0" * 5]
    with pytest.raises(LedgerBehind):
        await place.client().bless(leader, after=observed)
    assert await place.client().bless(leader, after=entries[-1].id)


async def test_which_entries_a_log_has(place: CopiedLedger) -> None:
    observed = await old_copy(place)
    ledger = place.client()
    leader = await ledger.claim(COORDINATOR)
    await ledger.bless(leader)
    await ledger.claim("0", leader=leader)
    entries = [entry.id for entry in await ledger.read_log("0")]
    assert not await ledger.has_entry(observed), "newer ones do not show it"
    for position in ("0", *entries):
        assert await ledger.has_entry(position)
    await ledger.trim(log_before=entries[-1])
    for position in ("0", *entries):
        assert await ledger.has_entry(position), "also what was cut off"
