"""A cluster with KAI's definitions, queues and binder, and Quadrant beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.identity import Identity
from tests.builders.objects import kube_object
from tests.kubernetes.definitions import install_kai
from tests.kubernetes.driver.harness import Followed
from tests.kubernetes.driver.kai.binder import RESERVATIONS, KaiBinder
from tests.kubernetes.driver.kai.objects import QUEUES, beside_binder


@pytest_asyncio.fixture
async def binder(
    cluster: ApiClient, control_plane: ControlPlane, proxied: Identity
) -> AsyncIterator[KaiBinder]:
    """It reaches the API server by way of the proxy."""
    await install_kai(cluster)
    await cluster.create(*QUEUES, kube_object("v1", "Namespace", RESERVATIONS))
    binder = KaiBinder(control_plane, cluster, proxied)
    binder.process.start()
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(binder.name_devices())
            yield binder
            task.cancel()
        binder.process.check()
    finally:
        binder.process.kill()


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient,
    control_plane: ControlPlane,
    binder: KaiBinder,
    redis_url: str,
    short_dir: Path,
) -> AsyncIterator[Followed]:
    kubeconfig = control_plane.admin.kubeconfig
    async with beside_binder(redis_url, short_dir, cluster, kubeconfig) as running:
        yield running
