"""The command that measures rates, small: every pod is bound, and each process is told apart."""

from __future__ import annotations

import pytest

from coordinator.verification.local_kubernetes.client import ApiClient
from coordinator.verification.local_kubernetes.control_plane import ControlPlane
from coordinator.verification.local_kubernetes.definitions import VOLCANO, install
from tests.kubernetes.driver.harness import node
from tests.kubernetes.rates.__main__ import bind_all, create, waiting


@pytest.mark.timeout(180)
async def test_all_are_bound_and_the_time_of_each_process_is_told(
    cluster: ApiClient, control_plane: ControlPlane
) -> None:
    await install(cluster, *VOLCANO)
    await create(cluster, (node(f"n{i}") for i in range(10)), "Nodes")
    await create(cluster, waiting(20, gang=5), "Pods")
    first, last = await bind_all(control_plane.admin.kubeconfig, 20, shards=1)
    assert last.at > first.at
    assert last.spent.keys() >= {"coordinator", "etcd", "kube-apiserver", "ledger", "workers"}
    pods = (await cluster.get("/api/v1/pods"))["items"]
    assert all(pod["spec"].get("nodeName") for pod in pods)
