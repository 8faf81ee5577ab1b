"""A cluster with Volcano's definitions and controllers, and Quadrant for its scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.kubelets import HollowKubelets
from tests.kubernetes.controllers import beside, volcano
from tests.kubernetes.definitions import install_volcano
from tests.kubernetes.driver.harness import Followed, followed
from tests.kubernetes.driver.volcano.objects import GroupPhases

ROOM = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8", "ephemeral-storage": "100Gi"}
POLICY = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


@dataclass(slots=True)
class VolcanoSurroundings:
    """The programs that run beside Quadrant."""

    kubelets: HollowKubelets
    phases: GroupPhases


@pytest_asyncio.fixture
async def volcanos(
    cluster: ApiClient, control_plane: ControlPlane
) -> AsyncIterator[VolcanoSurroundings]:
    await install_volcano(cluster)
    parts = VolcanoSurroundings(HollowKubelets(cluster), GroupPhases(cluster))
    await parts.kubelets.join(["n1", "n2"], ROOM)
    with beside(control_plane, volcano(control_plane)):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part.run()) for part in (parts.kubelets, parts.phases)]
            yield parts
            for task in tasks:
                task.cancel()


@pytest.fixture
def quadrant(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> AbstractAsyncContextManager[Followed]:
    """Quadrant under Volcano's name, to be entered. The first pods, too, wait for their group."""
    policy = short_dir / "policy.yaml"
    policy.write_text(POLICY)
    settings = {"policy": policy, "scheduler_names": "volcano", "group_wait": 30.0}
    return followed(redis_url, short_dir, cluster, control_plane.admin.kubeconfig, **settings)
