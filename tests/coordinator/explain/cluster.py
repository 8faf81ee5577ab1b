"""Objects for the tests, and the explainer of a service that runs in this process."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import ClientSession

from shared.ledger.redis.client import RedisLedger
from tests.builders import objects
from tests.builders.objects import Item, container, simple_job
from tests.end_to_end.one_process.harness import Running


def node(name: str, *, cpu: str = "64", **more: Any) -> Item:
    return objects.node(name, cpu=cpu, memory="256Gi", **more)


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
    return simple_job(
        name,
        tasks,
        namespace="default",
        role="worker",
        cpu=cpu,
        gpus=gpus,
        minimum=minimum,
        queue=queue,
        pod_spec=spec,
    )


def gang(name: str, roles: list[Item], *, minimum: int, queue: str = "default") -> Item:
    return objects.job(name, namespace="default", tasks=roles, minAvailable=minimum, queue=queue)


def pod(name: str, *, cpu: str = "1", group: str = "") -> Item:
    containers = [container(cpu, "")]
    return objects.pod(name, namespace="default", group=group, containers=containers)


def pod_group(name: str, minimum: int) -> Item:
    return objects.pod_group(name, namespace="default", minMember=minimum, queue="default")


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


async def tried(service: Running) -> None:
    """Until a turn found no place, and nothing is under way: what an open turn holds is missing
    from the totals."""
    await service.until(
        lambda status: status["outcomes"].get("infeasible", 0) > 0 and not status["open_turns"]
    )


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


async def explained(
    service: Running, name: str, *, kind: str = "jobs", with_receipt: bool = False
) -> Item:
    root = {
        "jobs": "/apis/batch.volcano.sh/v1alpha1",
        "podgroups": "/apis/scheduling.volcano.sh/v1beta1",
        "pods": "/api/v1",
    }[kind]
    async with (
        asking(service) as client,
        client.post(
            f"{root}/namespaces/default/{kind}/{name}/explain",
            params={"receipt": "true"} if with_receipt else {},
        ) as answer,
    ):
        body: Item = await answer.json()
        assert answer.status == 200, body
        return body
