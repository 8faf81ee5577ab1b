"""Taking the leadership: nothing may be acknowledged that the successor does not know (promise
6)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.service.service import INTAKE, Service
from shared.ledger.entries.intake_batch import IntakeBatch, PutQueue
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import CommitBatch, Epoch, StatusBatch, Verdict
from shared.settings.settings import load_settings
from tests.conftest import flush
from tests.end_to_end.one_process.harness import DirectCluster, DirectShards


class Overtaken(RedisLedger):
    """An earlier coordinator and its worker write in the moment before the snapshot is read."""

    earlier: dict[str, Epoch]
    run: str
    verdicts: list[Verdict]

    async def snapshot(self, *, workload: bool = True) -> Snapshot:
        put = PutQueue(7, -1, None, b"spec")
        epochs, run = self.earlier, self.run
        stored = await self.store(IntakeBatch(INTAKE, epochs[INTAKE], 1, run, [put]))
        status = StatusBatch(COORDINATOR, epochs[COORDINATOR], 1, run, [])
        committed = await self.commit(CommitBatch("0", epochs["0"], 1, run, []))
        recorded = await self.record(status)
        self.verdicts = [stored.verdict, recorded.verdict, committed.verdict]
        return await super().snapshot(workload=workload)


async def test_every_earlier_writer_is_deposed_before_the_snapshot_is_read(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    flush(embedded_server)
    ledger = Overtaken(embedded_server.url)
    try:
        await _take_leadership(ledger, embedded_server.url, short_dir)
    finally:
        await ledger.close()
    assert ledger.verdicts == [Verdict.EPOCH] * 3


async def _take_leadership(ledger: Overtaken, url: str, path: Path) -> None:
    leader = await ledger.claim(COORDINATOR)
    ledger.run = await ledger.bless(leader)
    ledger.earlier = {name: await ledger.claim(name, leader=leader) for name in (INTAKE, "0")}
    ledger.earlier[COORDINATOR] = leader
    service = Service(
        load_settings(run_dir=path, redis_url=url, shards=1),
        ledger=ledger,
        cluster=DirectCluster(LocalCluster()),
        shards=DirectShards(url),
    )
    async with asyncio.TaskGroup() as group:
        await service._take_leadership(group)
        for task in set(asyncio.all_tasks()) - {asyncio.current_task()}:
            task.cancel()
