"""Pods that KAI's pod grouper puts into PodGroups once they exist, bound by KAI's binder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.definitions import install
from laboratory.local_kubernetes.kubelets import HollowKubelets
from tests.builders.objects import container, kube_object, priority_class
from tests.kubernetes.controllers import beside, kai_pod_grouper, kubernetes
from tests.kubernetes.driver.harness import Followed, until
from tests.kubernetes.driver.kai.objects import SCHEDULER, Json, beside_binder, kai_pod

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("binder")]

GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
WAIT_SECONDS = 120.0
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_VERSION = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _ANYTHING}}
PYTORCH = kube_object(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "pytorchjobs.kubeflow.org",
    spec={
        "group": "kubeflow.org",
        "scope": "Namespaced",
        "names": {
            "plural": "pytorchjobs",
            "singular": "pytorchjob",
            "kind": "PyTorchJob",
            "listKind": "PyTorchJobList",
        },
        "versions": [_VERSION],
    },
)
"""Its operator is not here: the definition takes every field."""


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> AsyncIterator[Followed]:
    """Quadrant beside KAI's pod grouper and Kubernetes' controllers. A pod waits for its group."""
    await install(cluster, PYTORCH)
    await cluster.create(priority_class("train", 50))
    kubeconfig = control_plane.admin.kubeconfig
    with beside(control_plane, kubernetes(control_plane), kai_pod_grouper(control_plane)):
        async with beside_binder(
            redis_url, short_dir, cluster, kubeconfig, group_wait=WAIT_SECONDS
        ) as running:
            yield running


async def training(cluster: ApiClient, name: str, pods: int) -> list[Json]:
    """Create a PyTorchJob; the pods that its operator makes for it."""
    worker = {"Worker": {"replicas": pods, "template": {}}}
    labels = {"kai.scheduler/queue": "team"}
    job = kube_object("kubeflow.org/v1", "PyTorchJob", name, spec={"pytorchReplicaSpecs": worker})
    job["metadata"]["labels"] = labels
    [stored] = await cluster.create(job)
    owner: Json = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": name}
    owner |= {"uid": stored["metadata"]["uid"], "controller": True}
    made = [kai_pod(f"{name}-{number}") for number in range(pods)]
    for pod in made:
        pod["metadata"]["ownerReferences"] = [owner]
    return made


async def test_the_pods_of_a_gangs_owner_start_together_or_not_at_all(
    quadrant: Followed, cluster: ApiClient
) -> None:
    """There is room for seven of ten."""
    kubelets = HollowKubelets(cluster)
    await kubelets.join(["n1"], {"cpu": "8", "memory": "16Gi"})
    pods = await training(cluster, "ring", 10)
    await cluster.create(*pods, kai_pod("alone"))
    await quadrant.until_bound("alone")
    await until(lambda: _minimums(cluster, [1, 10]))
    assert set(await quadrant.nodes_of()) == {"alone"}
    await kubelets.join(["n2"], {"cpu": "8", "memory": "16Gi"})
    await quadrant.until_bound(*(pod["metadata"]["name"] for pod in pods))


async def test_each_pod_of_a_batch_job_is_a_group_of_its_own(
    quadrant: Followed, cluster: ApiClient
) -> None:
    """There is room for two of three at a time."""
    await HollowKubelets(cluster).join(["n1"], {"cpu": "8", "memory": "16Gi"})
    spec = {"schedulerName": SCHEDULER, "restartPolicy": "Never"}
    template = {
        "metadata": {"labels": {"kai.scheduler/queue": "team"}},
        "spec": spec | {"containers": [container(3, "", image="i")]},
    }
    await cluster.create(
        kube_object(
            "batch/v1", "Job", "j", spec={"parallelism": 3, "completions": 3, "template": template}
        )
    )
    await until(lambda: _bound(quadrant, 2))
    await until(lambda: _groups(cluster, 3))


async def _minimums(cluster: ApiClient, expected: list[int]) -> bool:
    """Whether the groups that the pod grouper made have these."""
    groups = (await cluster.get(GROUPS))["items"]
    return sorted(group["spec"]["minMember"] for group in groups) == expected


async def _bound(quadrant: Followed, count: int) -> bool:
    return len(await quadrant.nodes_of()) == count


async def _groups(cluster: ApiClient, count: int) -> bool:
    return len((await cluster.get(GROUPS))["items"]) == count
