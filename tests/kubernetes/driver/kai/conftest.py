"""A cluster with KAI's definitions and queues, a double of its binder, and Quadrant beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.definitions import KAI, install
from tests.kubernetes.driver.harness import Followed
from tests.kubernetes.driver.kai.objects import QUEUES, beside_binder
from tests.kubernetes.kai_binder import KaiBinder


@pytest_asyncio.fixture
async def binder(cluster: ApiClient) -> AsyncIterator[KaiBinder]:
    await install(cluster, *KAI)
    await cluster.create(*QUEUES)
    binder = KaiBinder(cluster)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(binder.run())
        yield binder
        task.cancel()


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
