"""Objects for the tests, and the explainer of a service that runs in this process."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import ClientSession

from laboratory.cli.stack import Sender
from laboratory.workloads.bulk_client import BulkClient
from shared.ledger.redis.client import RedisLedger
from tests.end_to_end.one_process.harness import Running

GPU = "nvidia.com/gpu"
Item = dict[str, Any]


def node(
    name: str, *, gpus: int = 0, cpu: str = "64", labels: dict[str, str] | None = None, **spec: Any
) -> Item:
    offer = {"cpu": cpu, "memory": "256Gi", "pods": "110"} | ({GPU: str(gpus)} if gpus else {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": offer},
    }


def queue(name: str, **spec: Any) -> Item:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1} | spec,
    }


def role(name: str, tasks: int, requests: dict[str, str], **spec: Any) -> Item:
    pod = {"containers": [{"name": "main", "resources": {"requests": requests}}]} | spec
    return {"name": name, "replicas": tasks, "template": {"spec": pod}}


def job(
    name: str,
    tasks: int = 1,
    *,
    gpus: int = 0,
    cpu: str = "1",
    minimum: int | None = None,
    queue: str = "default",
    **spec: Any,
) -> Item:
    """A gang of ``tasks`` pods of one role, for ever."""
    requests = {"cpu": cpu} | ({GPU: str(gpus)} if gpus else {})
    return gang(
        name, [role("worker", tasks, requests, **spec)], queue=queue, minimum=minimum or tasks
    )


def gang(name: str, roles: list[Item], *, minimum: int, queue: str = "default") -> Item:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": minimum, "queue": queue, "tasks": roles},
    }


def pod(name: str, *, cpu: str = "1", group: str = "") -> Item:
    notes = {"scheduling.k8s.io/group-name": group} if group else {}
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": notes},
        "spec": {"schedulerName": "volcano", "containers": [container]},
    }


def pod_group(name: str, minimum: int) -> Item:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": minimum, "queue": "default"},
    }


async def send(service: Running, *items: Item) -> None:
    async with BulkClient(service.url) as api:
        await Sender(api).send(list(items))


async def settled(service: Running, *, bound: int) -> None:
    """Until so many tasks run, every node has its shard, and nothing is under way."""
    core = service.service.core
    await service.until(
        lambda status: (
            status["tasks"]["bound"] == bound
            and not status["open_turns"]
            and sum(shard["nodes"] for shard in status["shards"]) == len(core.nodes)
        )
    )
    for _ in range(500):  # what the coordinator decided, workers read in the ledger
        if await _partition(service) == core.revision:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the partition was not stored")


async def _partition(service: Running) -> int:
    ledger = RedisLedger(service.service._settings.redis_url or "")
    try:
        snapshot = await ledger.snapshot(workload=False)
    finally:
        await ledger.close()
    return 0 if snapshot.partition is None else snapshot.partition.revision


def asking(service: Running) -> ClientSession:
    """HTTP to a service; to be entered."""
    return ClientSession(service.url)


async def explained(service: Running, name: str, *, kind: str = "jobs") -> Item:
    root = {
        "jobs": "/apis/batch.volcano.sh/v1alpha1",
        "podgroups": "/apis/scheduling.volcano.sh/v1beta1",
        "pods": "/api/v1",
    }[kind]
    async with (
        asking(service) as client,
        client.post(f"{root}/namespaces/default/{kind}/{name}/explain") as answer,
    ):
        body: Item = await answer.json()
        assert answer.status == 200, body
        return body
