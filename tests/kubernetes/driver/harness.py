"""A service in this process that follows a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator.jobs.state import JobState
from coordinator.service.observed.kubernetes import open_kubernetes
from coordinator.service.observed.observed import ObservedCluster
from laboratory.local_kubernetes.client import ApiClient
from shared.settings.settings import Settings
from tests.builders import objects
from tests.builders.objects import container
from tests.end_to_end.one_process.harness import PATIENCE, Running, running

Json = dict[str, Any]

QUADRANT = "quadrant"


@dataclass(slots=True)
class Followed:
    """A service and the cluster that it follows."""

    service: Running
    cluster: ApiClient
    observed: ObservedCluster

    async def pods(self) -> dict[str, Json]:
        listed = await self.cluster.get("/api/v1/pods")
        return {pod["metadata"]["name"]: pod for pod in listed["items"]}

    async def nodes_of(self, *names: str) -> dict[str, str]:
        """Pod -> node, of pods that have one, as the API server has them."""
        pods = await self.pods()
        return {
            name: node
            for name, pod in pods.items()
            if (not names or name in names) and (node := pod["spec"].get("nodeName"))
        }

    async def until_bound(self, *names: str) -> dict[str, str]:
        async def bound() -> dict[str, str] | None:
            nodes = await self.nodes_of(*names)
            return nodes if len(nodes) == len(names) else None

        nodes: dict[str, str] = await until(bound)
        return nodes

    def jobs(self) -> list[JobState]:
        """In the books."""
        return list(self.service.service.core.order.jobs.values())

    def states(self) -> dict[str, int]:
        """State -> number of tasks, in the books."""
        tasks: dict[str, int] = self.service.service.status()["tasks"]
        return tasks


async def until(look: Callable[[], Any], within: float = PATIENCE) -> Any:
    """Poll ``look`` until its result is not None or False, and return it."""
    deadline = time.monotonic() + within
    while True:
        result = look()
        if asyncio.iscoroutine(result):
            result = await result
        if result is not None and result is not False:
            return result
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def followed(
    redis_url: str, path: Path, cluster: ApiClient, kubeconfig: Path, **settings: Any
) -> AsyncIterator[Followed]:
    opened: list[ObservedCluster] = []

    def observe(settings: Settings) -> ObservedCluster:
        opened.append(open_kubernetes(settings))
        return opened[0]

    async with running(
        redis_url, path, observe=observe, kubeconfig=kubeconfig, **settings
    ) as service:
        yield Followed(service, cluster, opened[0])


def node(name: str, *, cpu: int = 4, labels: dict[str, str] | None = None) -> Json:
    """A node whose kubelet is there."""
    item = objects.node(name, cpu=cpu, memory="16Gi", labels=labels)
    item["status"]["capacity"] = item["status"]["allocatable"]
    item["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return item


def pod(
    name: str, *, cpu: float | str = 1, group: str = "", scheduler: str = QUADRANT, **metadata: Any
) -> Json:
    spec: Json = {"schedulerName": scheduler, "containers": [container(cpu, "", image="i")]}
    item = objects.pod(name, namespace="default", group=group, **spec)
    item["metadata"] |= metadata
    return item


def pod_group(name: str, minimum: int, queue: str = "default") -> Json:
    return objects.pod_group(name, namespace="default", minMember=minimum, queue=queue)
