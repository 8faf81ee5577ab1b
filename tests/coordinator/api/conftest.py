"""A whole service with some objects in it, and stock kubectl against it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from coordinator.intake.documents.kinds import EVENT
from tests.builders.objects import (
    Item,
    budget,
    hyper_node,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
    simple_job,
)
from tests.coordinator.api.client import Client
from tests.coordinator.api.kubectl import Kubectl, found
from tests.coordinator.intake.world_objects import WORLD
from tests.end_to_end.one_process.harness import Running, running, submit

DURATION = {"quadrant.dev/duration": "600"}


def running_pod(name: str, /, *, group: str = "", **labels: str) -> dict[str, Any]:
    pod_item = pod(name, group=group)
    pod_item["metadata"]["annotations"] |= DURATION
    pod_item["metadata"]["labels"] = labels
    return pod_item


def job(name: str, replicas: int, /, **labels: str) -> Item:
    return simple_job(name, replicas, seconds=600, labels=labels)


ITEMS = [
    node("n1", labels={"zone": "a"}),
    node("n2", labels={"zone": "b"}),
    queue("research", weight=2),
    pod_group("gang", minMember=2),
    running_pod("p1", group="gang", tier="web"),
    running_pod("p2", group="gang", tier="db"),
    job("train", 3, tier="train"),
    pod("big", containers=[{"name": "c", "resources": {"requests": {"cpu": "100"}}}]),
    priority_class("high", 1000),
    budget("keep", "50%", tier="web"),
    hyper_node("rack", "n1", "n2"),
    *(
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "beside", "namespace": "ns"}}
        for kind in ("ConfigMap", "Secret", "Service", "ServiceAccount")
    ),
    *(written for name, (written, _) in WORLD.items() if name != "budget"),
]


@pytest_asyncio.fixture
async def service(
    redis_url: str, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Running]:
    """Two nodes, five pods that run, one that never will; nothing of them changes any more."""
    # What it finds is waited for below.
    monkeypatch.setattr("coordinator.service.service.SWEEP_SECONDS", 0.02)
    async with running(redis_url, short_dir) as service:
        await submit(service, *ITEMS)
        await service.until(partial(at_rest, service))
        yield service


def at_rest(service: Running, status: dict[str, Any]) -> bool:
    """Whether no object changes any more. A pod may run before its turn has ended, which gives it
    the time of its placement, and before its node has a shard, which its annotation names."""
    return (
        status["tasks"]["running"] == 5
        and not status["open_turns"]
        and sum(shard["nodes"] for shard in status["shards"]) == 2
        and "FailedScheduling" in happened(service)
    )


def happened(service: Running) -> set[str]:
    """Reasons of all events."""
    page = service.service.objects.list(EVENT, namespace=None, limit=None)
    return {entry.field("reason") for entry in page.items}


@pytest_asyncio.fixture
async def client(service: Running) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(service.url) as session:
        yield Client(session)


@pytest.fixture
def kubectl(service: Running, tmp_path: Path) -> Kubectl:
    if found() is None:
        pytest.skip("no kubectl in PATH or $KUBECTL")
    return Kubectl(service.url, tmp_path)
