"""Workers that an earlier coordinator left, by their names; a Ray that is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import redis

from coordinator.shards import VERSION, RayLost, WorkerLost, _parse
from shard_worker.transport import WorkerConfig
from shared.ledger.server import EmbeddedServer
from tests.service.harness import DirectShards, running


def test_a_worker_of_this_version_is_known_by_its_name_and_no_other() -> None:
    assert _parse(f"shard-3-17-{VERSION}") == (3, 17)
    assert _parse("shard-3-17-0.0.0-other") == (-1, 0)
    assert _parse("shard-3-17") == (-1, 0)
    assert _parse("somebody") == (-1, 0)


class Nowhere(DirectShards):
    """Nothing starts, and nobody is there to ask why."""

    async def start(self, config: WorkerConfig) -> int:
        raise WorkerLost(f"shard {config.shard}: no answer")

    async def check(self) -> None:
        raise RayLost("Ray did not answer")


async def test_a_lost_ray_ends_the_coordinator(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    with redis.Redis.from_url(embedded_server.url) as client:
        client.flushall()
    with pytest.raises(ExceptionGroup) as caught:
        async with (
            asyncio.timeout(30.0),
            running(embedded_server.url, short_dir, workers=Nowhere(embedded_server.url)),
        ):
            pass
    assert caught.group_contains(RayLost)
