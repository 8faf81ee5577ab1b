"""A gang that only the policy's second generator of scenarios finds victims for, on a running
service with one shard and with several."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import kai_group, node
from tests.conftest import flush
from tests.coordinator.service.metrics.scrape import scrape, total
from tests.end_to_end.one_process.harness import running_pods
from tests.end_to_end.one_process.test_kai_evictions import service_of
from tests.end_to_end.one_process.test_kai_order import leaf, single
from tests.end_to_end.one_process.test_kai_walk import GPUS, member, nodes_of, submit

NODES = [node(f"n{at}") | {"status": {"allocatable": GPUS}} for at in range(6)]
WIDE = 5
"""Victims of one node after the other are enough for a gang of four whole nodes, not for five."""


@pytest.mark.parametrize("shards", [1, 3])
async def test_victims_of_the_second_generator_make_room_for_a_wide_gang(
    shards: int, embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    flush(embedded_server)
    async with (
        service_of(embedded_server.url, tmp_path, "dialect: kai\n", shards=shards) as service,
        aiohttp.ClientSession() as http,
    ):
        queues = [leaf("red", 0, parent=""), leaf("blue", 24, parent="")]
        reds = {f"r{at:02}" for at in range(24)}
        await submit(http, service, *NODES, *queues, *(single(n, "red") for n in sorted(reds)))
        await service.until(lambda _: running_pods(service) == reds)
        blues = {f"b{at}" for at in range(WIDE)}
        gang = [kai_group("gang", "blue", minMember=WIDE)]
        gang += [member(name, "gang", gpus=4) for name in sorted(blues)]
        await submit(http, service, *gang)
        await service.until(lambda _: blues <= running_pods(service))
        assert len(running_pods(service) & reds) == 24 - 4 * WIDE
        placed = await nodes_of(http, service)
        assert len({placed[name] for name in blues}) == WIDE
        series = await scrape(service.url)
        assert total(series, "searches_total", action="reclaim", result="solved") == 1
        assert total(series, "evictions_total", action="reclaim") == 4 * WIDE
