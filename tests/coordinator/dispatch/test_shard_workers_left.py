"""Workers that an earlier coordinator left, by their names; a Ray that is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coordinator.dispatch.ray_connection import RayLost
from coordinator.dispatch.worker_client import VERSION, WorkerLost, _inherited, _parse
from shard_worker.worker.transport import WorkerConfig
from tests.end_to_end.one_process.harness import DirectShards, running


def test_a_worker_of_this_version_is_known_by_its_name_and_no_other() -> None:
    assert _parse(f"shard-3-17-{VERSION}") == (3, 17)
    assert _parse("shard-3-17-0.0.0-other") == (-1, 0)
    assert _parse("shard-3-17") == (-1, 0)
    assert _parse("somebody") == (-1, 0)


def test_the_newest_worker_of_each_shard_is_reused_and_others_end() -> None:
    old = ["shard-0-1-0.0.0-other", "shard-1-2-0.0.0-other", "somebody"]
    ours = [f"shard-{shard}-{counter}-{VERSION}" for shard, counter in ((0, 9), (0, 10), (1, 3))]
    beyond = f"shard-2-4-{VERSION}"
    assert _inherited([*old, *ours, beyond], 2) == {
        **dict.fromkeys([*old, ours[0], beyond]),
        ours[1]: 0,
        ours[2]: 1,
    }


class Nowhere(DirectShards):
    """Nothing starts, and nobody is there to ask why."""

    async def start(self, config: WorkerConfig) -> int:
        raise WorkerLost(f"shard {config.shard}: no answer")

    async def check(self) -> None:
        raise RayLost("Ray did not answer")


async def test_a_lost_ray_ends_the_coordinator(redis_url: str, short_dir: Path) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with (
            asyncio.timeout(60.0),
            running(redis_url, short_dir, workers=Nowhere(redis_url)),
        ):
            pass
    assert caught.group_contains(RayLost)
