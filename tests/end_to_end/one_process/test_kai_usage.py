"""Usage over time in a running service: by its own samples, through a change of leader, and from
Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

from coordinator.cli.scheduling.explain_text import explanation
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import kai_group, kai_queue
from tests.conftest import flush
from tests.coordinator.service.metrics.test_queue_usage import QueuePrometheus, vector
from tests.end_to_end.one_process.harness import PATIENCE, Running, running
from tests.end_to_end.one_process.test_kai_walk import NODES, member, read, submit

Json = dict[str, Any]
TREE = "/apis/quadrant.dev/v1alpha1/queuetree"
OVER_QUOTA = {"quota": 0, "overQuotaWeight": 1, "limit": -1}
QUEUES = [kai_queue(name, gpu=OVER_QUOTA) for name in ("red", "blue")]
FULL = [kai_group("first", "red", minMember=12), *(member(f"f{i}", "first") for i in range(12))]
WAITING = [
    item
    for queue in ("red", "blue")
    for name in (f"next-{queue}",)
    for item in (
        kai_group(name, queue, minMember=12),
        *(member(f"{name}-{i}", name) for i in range(12)),
    )
]
BY_LEDGER = """
dialect: kai
actions: allocate
usageDBConfig:
  clientType: ledger
  usageParams: {windowSize: 1h, extraParams: {queryResolution: 1s}}
"""


async def gpus(http: aiohttp.ClientSession, service: Running) -> dict[str, Json]:
    """Queue -> its figures of GPUs."""
    tree = await read(http, service, TREE)
    return {queue["name"]: queue["resources"]["gpu"] for queue in tree["queues"]}


async def until(
    http: aiohttp.ClientSession, service: Running, done: Callable[[dict[str, Json]], bool]
) -> dict[str, Json]:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not done(figures := await gpus(http, service)):
        assert asyncio.get_running_loop().time() < deadline, figures
        await asyncio.sleep(0.05)
    return figures


def shares(figures: dict[str, Json]) -> dict[str, str]:
    return {name: figures[name]["fairShare"] for name in ("red", "blue")}


async def test_own_samples_correct_the_shares_and_outlive_their_leader(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    flush(embedded_server)
    file = tmp_path / "kai.yaml"
    file.write_text(BY_LEDGER)
    async with (
        running(embedded_server.url, tmp_path, shards=3, policy=str(file)) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(http, service, *NODES, *QUEUES, *FULL)
        await service.until(lambda status: status["tasks"]["running"] == 12)
        await submit(http, service, *WAITING)
        used = await until(http, service, lambda now: float(now["red"].get("usage", 0)) > 0.9)
        assert used["blue"].get("usage", "0") == "0"
        assert shares(used) != {"red": "6", "blue": "6"}
        explained = await read(
            http,
            service,
            "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/next-red/explain",
        )
        (red,) = explained["quota"]
        assert float(red["usage"]["nvidia.com/gpu"]) > 0.9
        (line,) = [
            text for text in explanation(explained, columns=400, now=0.0) if "red: has" in text
        ]
        assert "used over time, as a part of the cluster, " in line
    # As slow as no sample of the next leader can have come: what it says is what the ledger has.
    file.write_text(BY_LEDGER.replace("1s", "1h"))
    async with (
        running(embedded_server.url, tmp_path, shards=3, policy=str(file)) as service,
        aiohttp.ClientSession() as http,
    ):
        after = await until(http, service, lambda now: "usage" in now["red"])
        assert float(after["red"]["usage"]) > 0.9
        async with http.get(f"{service.url}/metrics") as answer:
            text = await answer.text()
        kind = 'kind="usage",queue="red",resource="nvidia.com/gpu"'
        (line,) = [line for line in text.splitlines() if kind in line]
        assert float(line.split()[1]) > 0.9


async def test_prometheus_corrects_the_shares_and_its_silence_is_reported(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    flush(embedded_server)
    server = QueuePrometheus(
        {
            "kai_queue_allocated_gpus": vector(({"queue_name": "red"}, "90")),
            'resource="nvidia_com_gpu"': vector(({}, "120")),
        }
    )
    file = tmp_path / "kai.yaml"
    async with server.served() as address:
        config = {"connectionString": address, "usageParams": {"fetchInterval": "1s"}}
        file.write_text(f"dialect: kai\nactions: allocate\nusageDBConfig: {config}\n")
        async with (
            running(embedded_server.url, tmp_path, policy=str(file)) as service,
            aiohttp.ClientSession() as http,
        ):
            assert len(server.asked) >= 6, "before the first turn"
            await submit(http, service, *NODES, *QUEUES, *FULL)
            await service.until(lambda status: status["tasks"]["running"] == 12)
            await submit(http, service, *WAITING)
            figures = await until(http, service, lambda now: now["red"]["fairShare"] == "2")
            assert shares(figures) == {"red": "2", "blue": "10"}, "1/2 - 1/4 against 1/2 + 1/2"
            assert figures["red"]["usage"] == "0.75"
            server.status = 503
            await until_told(http, service)
            assert shares(await gpus(http, service)) == {"red": "2", "blue": "10"}


async def until_told(http: aiohttp.ClientSession, service: Running) -> None:
    """Health, and whoever asks about a job, say that old figures count."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    path = "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/next-red/explain"
    while not (report := (await read(http, service, path)).get("withoutAnswers")):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)
    (entry,) = report
    assert entry["message"].startswith("usage over time from http://127.0.0.1:")
    assert "queues share by figures of" in entry["message"]
    async with http.get(f"{service.url}/readyz?verbose") as answer:
        assert answer.status == 200
        assert "usage_over_time" in await answer.text()
