"""Nodes and pods in large numbers, written to an API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from laboratory.local_kubernetes.client import ApiClient, Json
from laboratory.local_kubernetes.kubelets import ready_node
from laboratory.workloads.manifests import manifest

WRITERS = 48
GROUP = "scheduling.k8s.io/group-name"
AMOUNTS = {"cpu": "32", "memory": "256Gi", "pods": "110"}
"""Capacity of each node."""


def nodes(count: int) -> Iterator[Json]:
    return (ready_node(f"n{number}", AMOUNTS, {}) for number in range(count))


def waiting(pods: int, gang: int, scheduler: str, *, prefix: str = "p") -> Iterator[Json]:
    """Pods of one core. ``gang``: how many are in each PodGroup; 0: each is by itself."""
    for number in range(pods):
        group = f"g{number // gang}" if gang else ""
        if gang and number % gang == 0:
            minimum = min(gang, pods - number)
            yield manifest("PodGroup", group, {"minMember": minimum, "queue": "default"})
        yield _pod(f"{prefix}{number}", group, scheduler)


def running(pods: int, nodes: int, scheduler: str) -> Iterator[Json]:
    """Pods that are on their nodes from the first."""
    for number in range(pods):
        item = _pod(f"r{number}", "", scheduler)
        item["spec"]["nodeName"] = f"n{number % nodes}"
        yield item


async def create(cluster: ApiClient, items: Iterable[Json]) -> None:
    left = iter(items)

    async def writer() -> None:
        for item in left:
            await cluster.create(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(writer())


def _pod(name: str, group: str, scheduler: str) -> Json:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": scheduler, "containers": [container]}
    return manifest("Pod", name, spec, metadata={"annotations": {GROUP: group} if group else {}})
