"""Trees of Kubernetes' own groups on a real API server, under a policy of KAI's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.builders.objects import kai_queue
from tests.conftest import ROOT
from tests.kubernetes.definitions import install_kai
from tests.kubernetes.driver.harness import followed
from tests.kubernetes.driver.kai.objects import QUEUES
from tests.native_groups.tree_walks import TREE_WALKS
from tests.native_groups.walks import GroupCluster

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("walk", TREE_WALKS, ids=lambda walk: walk.__name__)
async def test_on_a_real_api_server(
    walk: Callable[[GroupCluster], Awaitable[None]],
    shards: int,
    cluster: ApiClient,
    control_plane: ControlPlane,
    *,
    redis_url: str,
    short_dir: Path,
) -> None:
    await install_kai(cluster)
    await cluster.create(*QUEUES, kai_queue("default", "all"))
    policy, kubeconfig = ROOT / "examples/policies/kai-default.yaml", control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig, shards=shards, policy=policy):
        await walk(GroupCluster(cluster))
