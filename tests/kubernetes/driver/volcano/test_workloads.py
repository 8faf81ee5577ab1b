"""Pods under Volcano's name that are no Job's of Volcano: bare ones, and those that Kubernetes'
controllers make. Volcano's controllers give each owner a PodGroup once its first pod is there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest
import pytest_asyncio

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.kubelets import DURATION
from tests.builders.objects import container, kube_object, queue
from tests.kubernetes.controllers import beside, kubernetes
from tests.kubernetes.driver.harness import Followed, pod, until
from tests.kubernetes.driver.volcano.conftest import VolcanoSurroundings
from tests.kubernetes.driver.volcano.objects import GROUPS, PODS, Json

pytestmark = pytest.mark.timeout(300)

BATCH = "/apis/batch/v1/namespaces/default/jobs"
APPS = "/apis/apps/v1/namespaces/default"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
MINIMUM = "scheduling.volcano.sh/group-min-member"


@pytest_asyncio.fixture
async def running(
    volcanos: VolcanoSurroundings,
    control_plane: ControlPlane,
    quadrant: AbstractAsyncContextManager[Followed],
) -> AsyncIterator[Followed]:
    """Quadrant beside Volcano's and Kubernetes' controllers."""
    with beside(control_plane, kubernetes(control_plane)):
        async with quadrant as running:
            yield running


def template(cpu: float = 1, *, annotations: dict[str, str] | None = None) -> Json:
    spec = {"schedulerName": "volcano", "containers": [container(cpu, "", image="i")]}
    return {"metadata": {"labels": {"app": "a"}, "annotations": annotations or {}}, "spec": spec}


def batch_job(name: str, pods: int, cpu: float = 1, *, seconds: float = 0.5) -> Json:
    made = template(cpu, annotations={DURATION: str(seconds)})
    made["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": pods, "completions": pods, "template": made}
    return kube_object("batch/v1", "Job", name, spec=spec)


def workload(kind: str, name: str, replicas: int, made: Json) -> Json:
    selector = {"matchLabels": {"app": "a"}}
    spec = {"replicas": replicas, "selector": selector, "template": made}
    return kube_object("apps/v1", kind, name, spec=spec)


async def test_a_bare_pod_is_bound_as_the_group_that_its_controller_makes(
    cluster: ApiClient, running: Followed
) -> None:
    [created] = await cluster.create(pod("alone", scheduler="volcano"))
    await running.until_bound("alone")
    [group] = (await cluster.get(GROUPS))["items"]
    assert group["metadata"]["name"] == f"podgroup-{created['metadata']['uid']}"
    await until(lambda: _phases(cluster, ["Running"]))


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment", "StatefulSet"])
async def test_replicas_start_and_those_of_a_larger_number_follow(
    cluster: ApiClient, running: Followed, kind: str
) -> None:
    """All are one PodGroup's, whose queue the pods name."""
    await cluster.create(queue("research", weight=1))
    await cluster.create(workload(kind, "w", 3, template(annotations={QUEUE_NAME: "research"})))
    await until(lambda: _running(cluster, 3))
    path = f"{APPS}/{kind.lower()}s/w"
    await cluster.patch(path, {"spec": {"replicas": 5}})
    await until(lambda: _running(cluster, 5))
    [group] = (await cluster.get(GROUPS))["items"]
    assert group["spec"]["queue"] == "research"
    await until(lambda: _ready(cluster, path, 5))


async def test_replicas_with_a_minimum_start_together_or_not_at_all(
    cluster: ApiClient, volcanos: VolcanoSurroundings, running: Followed
) -> None:
    """There is room for four of six pods; a third node makes room for all."""
    large = workload("ReplicaSet", "w", 6, template(8))
    large["metadata"]["annotations"] = {MINIMUM: "6"}
    await cluster.create(large, pod("alone", scheduler="volcano"))
    await running.until_bound("alone")
    assert await running.nodes_of() == await running.nodes_of("alone")
    await volcanos.kubelets.join(["n3", "n4"], {"cpu": "16", "memory": "64Gi"})
    await until(lambda: _running(cluster, 7))


async def test_thirteen_jobs_that_have_ended_leave_an_empty_cluster(
    cluster: ApiClient, running: Followed
) -> None:
    """Together they ask for more than the cluster has, and each has a PodGroup for good."""
    names = [f"j{number}" for number in range(13)]
    await cluster.create(*(batch_job(name, 1, 3) for name in names))
    await until(lambda: _succeeded(cluster, names))
    await cluster.create(batch_job("next", 2, 15))
    await until(lambda: _succeeded(cluster, ["next"]))
    assert len((await cluster.get(GROUPS))["items"]) == 14


async def _running(cluster: ApiClient, count: int) -> bool:
    pods = (await cluster.get(PODS))["items"]
    return [pod["status"].get("phase") for pod in pods].count("Running") == count


async def _ready(cluster: ApiClient, path: str, count: int) -> bool:
    return bool((await cluster.get(path))["status"].get("readyReplicas") == count)


async def _succeeded(cluster: ApiClient, names: list[str]) -> bool:
    items = {job["metadata"]["name"]: job for job in (await cluster.get(BATCH))["items"]}
    ended = [items[name]["status"].get("conditions") or [] for name in names]
    return all(any(c["type"] == "Complete" for c in conditions) for conditions in ended)


async def _phases(cluster: ApiClient, phases: list[str]) -> bool:
    groups = (await cluster.get(GROUPS))["items"]
    return [(group.get("status") or {}).get("phase") for group in groups] == phases
