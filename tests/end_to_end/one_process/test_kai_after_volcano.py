"""A ledger whose nodes came under Volcano's policy, and a start under KAI's: their GPUs are devices
from then on, which pods share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import kai_queue, node
from tests.conftest import flush
from tests.end_to_end.one_process.harness import running
from tests.end_to_end.one_process.test_kai_walk import GPUS, gpu_pod, nodes_of, read, submit

Json = dict[str, Any]


def sharing(name: str) -> Json:
    pod_item = gpu_pod(name, labels={"kai.scheduler/queue": "all"})
    pod_item["metadata"]["annotations"] = {"gpu-fraction": "0.6"}
    del pod_item["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"]
    return pod_item


async def test_gpus_of_nodes_of_before_are_shared(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    flush(embedded_server)
    async with (
        running(embedded_server.url, short_dir) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(http, service, node("n0") | {"status": {"allocatable": GPUS}}, node("bare"))
    policy = tmp_path / "kai.yaml"
    policy.write_text("dialect: kai\n")
    async with (
        running(embedded_server.url, short_dir, policy=policy) as service,
        aiohttp.ClientSession() as http,
    ):
        pods = [sharing(f"part-{number}") for number in range(5)]
        await submit(http, service, kai_queue("all"), *pods)
        await service.until(lambda status: status["tasks"]["running"] == 4)
        await service.until(lambda status: sum(status["pending_reasons"].values()) == 1)
        nodes = await nodes_of(http, service)
        assert list(nodes.values()) == ["n0"] * 4
        labels = [
            (await read(http, service, f"/api/v1/namespaces/ns/pods/{name}"))["metadata"]["labels"]
            for name in nodes
        ]
        assert len({each["runai-gpu-group"] for each in labels}) == 4
        service.service.core.validate()
