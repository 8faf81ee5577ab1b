"""Queues of Volcano's on a real API server: those of its scheduler, and what they have."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.typing import EventDict

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.definitions import VOLCANO, install
from laboratory.local_kubernetes.identity import Identity
from tests.builders.objects import queue
from tests.kubernetes.driver.harness import followed, node, pod, pod_group, until
from tests.kubernetes.faults.effects import Answer
from tests.kubernetes.faults.proxy import FaultyProxy

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


async def queues_of(cluster: ApiClient) -> dict[str, Json]:
    items = (await cluster.get(QUEUES))["items"]
    return {item["metadata"]["name"]: item for item in items}


async def _names(cluster: ApiClient, *names: str) -> bool:
    return set(names) <= set(await queues_of(cluster))


async def _allocated(cluster: ApiClient, expected: dict[str, Json]) -> bool:
    queues = await queues_of(cluster)
    found = {name: (queues[name].get("status") or {}).get("allocated") for name in expected}
    return found == expected


async def test_default_and_root_are_created_and_parents_sum_up_their_children(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    await install(cluster, *VOLCANO)
    large = node("n1")
    for part in ("allocatable", "capacity"):
        large["status"][part] = large["status"][part] | {"nvidia.com/gpu": "4"}
    await cluster.create(large)
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig):
        await until(partial(_names, cluster, "default", "root"))
        root = (await queues_of(cluster))["root"]
        # Volcano's own definition adds its defaults.
        assert root["spec"].items() >= {"weight": 1, "reclaimable": False}.items()
        await cluster.create(queue("dept", weight=1), queue("team", weight=1, parent="dept"))
        member = pod("a", group="g")
        member["spec"]["containers"][0]["resources"] = {
            "requests": {"cpu": "2"},
            "limits": {"nvidia.com/gpu": "1"},
        }
        await cluster.create(pod_group("g", 1, "team"), member)
        amounts = {"cpu": "2", "memory": "0", "nvidia.com/gpu": "1", "pods": "1"}
        some = dict.fromkeys(("team", "dept", "root"), amounts)
        await until(partial(_allocated, cluster, some))
        none = {"cpu": "0", "memory": "0"}
        await until(partial(_allocated, cluster, {"default": none}))
        await cluster.delete("/api/v1/namespaces/default/pods/a", options={"gracePeriodSeconds": 0})
        await until(partial(_allocated, cluster, dict.fromkeys(some, none)))


async def test_queues_are_created_although_the_server_fails_for_a_while(
    cluster: ApiClient, proxied: Identity, proxy: FaultyProxy, redis_url: str, short_dir: Path
) -> None:
    await install(cluster, *VOLCANO)
    refusals = proxy.inject(Answer(500), method="POST", part="/queues", times=2)
    async with followed(redis_url, short_dir, cluster, proxied.kubeconfig):
        await proxy.until_met(refusals, 2)
        proxy.inject(Answer(503), part="/v1beta1")
        await until(partial(_names, cluster, "default", "root"))


async def test_a_queue_that_the_server_refuses_is_logged_and_asked_for_again(  # noqa: PLR0917
    cluster: ApiClient,
    proxied: Identity,
    proxy: FaultyProxy,
    redis_url: str,
    short_dir: Path,
    log_lines: list[EventDict],
) -> None:
    await install(cluster, *VOLCANO)
    proxy.inject(Answer(422, message="no queues today"), method="POST", part="/queues", times=2)
    async with followed(redis_url, short_dir, cluster, proxied.kubeconfig):
        await until(lambda: {"root", "default"} <= _refused_queues(log_lines, "no queues today"))
        await until(partial(_names, cluster, "default", "root"))


def _refused_queues(lines: list[EventDict], reason: str) -> set[str]:
    return {line["queue"] for line in lines if "queue" in line and line.get("why") == reason}
