"""A worker and the lease of its shard: kept while it works, over here before anywhere else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shard_worker.worker.server import ShardServer
from shard_worker.worker.transport import WorkerConfig
from shared.codec.packed import replace
from shared.ledger.errors import Deposed, LedgerUnavailable
from shared.ledger.redis.access import Access
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import Epoch
from tests.conftest import flush
from tests.shared.ledger.support import Desk

LEASE = 0.3


class DeafLedger(RedisLedger):
    """One whose answers to renewals do not arrive while it is deaf."""

    deaf = False
    renewed = 0

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        if self.deaf:
            raise LedgerUnavailable("no answer")
        self.renewed += 1
        return await super().renew(writer, epoch, lease=lease)


class HeldLeases:
    def __init__(self, desk: Desk, ledger: DeafLedger, server: ShardServer) -> None:
        self.desk = desk
        self.ledger = ledger
        self.server = server

    async def left(self) -> float:
        """Seconds until the ledger takes its lease for over; below 0 it is."""
        return (await self.ends() - await self.now()) / 1e6

    async def now(self) -> int:
        """The server's clock, in microseconds."""
        seconds, micros = await self.ledger._writer.time()
        return int(seconds * 10**6 + micros)

    async def ends(self) -> int:
        """When its lease is over, in microseconds of the server's clock."""
        stored = await self.ledger._writer.hget("{quadrant}:epoch", "0/lease")
        return int(stored.split()[0])


@pytest.fixture
async def held(embedded_server: EmbeddedServer) -> AsyncIterator[HeldLeases]:
    flush(embedded_server)
    ledger = DeafLedger(embedded_server.url)
    try:
        yield await hold(ledger, embedded_server.url)
    finally:
        await ledger.close()


async def hold(ledger: DeafLedger, url: str) -> HeldLeases:
    desk = await Desk(ledger).open()
    epoch = await desk.claim("0", lease=LEASE)
    config = WorkerConfig(
        shard=0,
        epoch=epoch,
        run_id=desk.run_id,
        mode="soft",
        seed=0,
        policy=None,
        access=Access(url),
        nomination_seconds=10.0,
        lease_seconds=LEASE,
    )
    server = ShardServer(config, ledger)
    await server.load()
    return HeldLeases(desk, ledger, server)


async def test_it_is_renewed_by_calls_alone(held: HeldLeases) -> None:
    for _ in range(8):
        before = await held.ends()
        await asyncio.sleep(LEASE / 3)
        assert await held.server.serve([]) == []
        assert await held.ends() > before
    assert held.ledger.renewed >= 5


async def test_once_it_is_over_and_cannot_be_renewed_the_worker_fails(held: HeldLeases) -> None:
    await held.server.serve([])
    held.ledger.deaf = True
    await asyncio.sleep(LEASE + 0.05)
    with pytest.raises(LedgerUnavailable, match="lease of writer 0 is over"):
        await held.server.serve([])


async def test_a_worker_that_slept_goes_on_only_where_nobody_claimed_its_shard(
    held: HeldLeases,
) -> None:
    await asyncio.sleep(LEASE + 0.05)
    assert await held.left() < 0
    now = await held.now()
    await held.server.serve([])
    assert await held.ends() >= now + LEASE * 1e6, "it begins anew, as a whole"
    await held.desk.claim("0", lease=LEASE)
    await asyncio.sleep(LEASE / 2)
    with pytest.raises(Deposed, match="writer 0"):
        await held.server.serve([])


async def test_a_worker_that_begins_late_has_its_whole_lease(held: HeldLeases) -> None:
    """Between the claim and the start of a process more time may pass than a lease."""
    epoch = await held.desk.claim("0", lease=LEASE)
    await asyncio.sleep(LEASE + 0.05)
    config = replace(held.server._config, epoch=epoch, lease_seconds=60.0)
    server = ShardServer(config, held.ledger)
    await server.load()
    assert await held.left() > 0
    await server.serve([])
