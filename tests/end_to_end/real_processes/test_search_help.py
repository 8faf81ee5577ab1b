"""Workers as Ray actors: what an idle one found of a search is committed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from coordinator.supervisor.supervisor import Supervisor
from laboratory.workloads.bulk_client import BulkClient
from shared.settings.settings import load_settings
from tests.coordinator.intake.test_kai_objects import kai_group
from tests.coordinator.service.metrics.scrape import scrape, total
from tests.end_to_end.one_process.test_kai_order import leaf, single
from tests.end_to_end.one_process.test_kai_search_help import NODES, WIDE
from tests.end_to_end.one_process.test_kai_walk import member
from tests.end_to_end.real_processes.test_killed_mover import WITHIN, Pods


async def until_all_are_up(api: BulkClient) -> None:
    deadline = time.monotonic() + WITHIN
    while not all(shard["up"] for shard in (await api.status())["shards"]):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_what_an_idle_worker_found_is_done(short_dir: Path, tmp_path: Path) -> None:
    policy = tmp_path / "kai.yaml"
    policy.write_text("dialect: kai\n")
    settings = load_settings(run_dir=short_dir, shards=3, policy=str(policy), grace=0.05)
    async with Supervisor(settings) as parts, BulkClient(*parts.urls) as api:
        await until_all_are_up(api)
        pods = Pods(api)
        reds = [f"r{at:02}" for at in range(4 * len(NODES))]
        queues = [leaf("red", 0, parent=""), leaf("blue", len(reds), parent="")]
        await pods.submit(*NODES, *queues, *(single(name, "red") for name in reds))
        await pods.until_running(*reds)
        blues = [f"b{at}" for at in range(WIDE)]
        gang = [kai_group("gang", "blue", minMember=WIDE)]
        await pods.submit(*gang, *(member(name, "gang", gpus=4) for name in blues))
        running = await pods.until_running(*blues)
        assert len({running[name] for name in blues}) == WIDE
        assert len(running.keys() & set(reds)) == len(reds) - 4 * WIDE
        series = await scrape(parts.urls[0])
        # Of two workers that read the log at the same moment one may see an entry more: then it was
        # done alone.
        helps = {
            result: total(series, "search_helps_total", result=result)
            for result in ("committed", "nothing", "unneeded", "failed")
        }
        assert helps["committed"] + helps["failed"] >= 1, helps
        assert not helps["nothing"], helps
