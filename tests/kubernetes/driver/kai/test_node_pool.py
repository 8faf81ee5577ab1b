"""Requests of a service for one of several node pools."""

from __future__ import annotations

from pathlib import Path

import pytest

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.builders.objects import kai_queue
from tests.kubernetes.driver.kai.objects import Json, beside_binder, gpu_node, kai_pod, requests

pytestmark = pytest.mark.timeout(180)

POOL = {"kai.scheduler/node-pool": "blue"}


def in_pool(item: Json) -> Json:
    metadata = item["metadata"]
    return item | {"metadata": metadata | {"labels": metadata.get("labels", {}) | POOL}}


@pytest.mark.usefixtures("binder")
async def test_a_request_has_the_label_of_the_pool(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    queues = (kai_queue("blues"), kai_queue("blue", "blues"))
    await cluster.create(*map(in_pool, (*queues, gpu_node("n1", 1))), gpu_node("n2", 8))
    pod = in_pool(kai_pod("a"))
    pod["metadata"]["labels"]["kai.scheduler/queue"] = "blue"
    options = "options: {partition-label-value: blue}\n"
    async with beside_binder(
        redis_url, short_dir, cluster, control_plane.admin.kubeconfig, options=options
    ) as quadrant:
        await cluster.create(pod)
        assert await quadrant.until_bound("a") == {"a": "n1"}
        labels = (await requests(cluster))["a"]["metadata"]["labels"]
        assert labels.items() >= POOL.items()
