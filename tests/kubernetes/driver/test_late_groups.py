"""Pods on a real API server that are named a group once they exist: first the pods, then the
PodGroup, then a merge patch of each pod, as KAI's pod grouper and Volcano's PodGroup controller
write them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.kubernetes.definitions import install_kai, install_volcano
from tests.kubernetes.driver.harness import Followed, followed, node, pod, pod_group, until
from tests.kubernetes.driver.kai.objects import QUEUES, kai_pod
from tests.kubernetes.driver.kai.objects import gang as kai_gang

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]
Open = Callable[[], AbstractAsyncContextManager[Followed]]
PODS = "/api/v1/namespaces/default/pods"
NAMES = [f"p{i}" for i in range(10)]


async def name_group(cluster: ApiClient, name: str, group: str, annotation: str) -> None:
    await cluster.patch(f"{PODS}/{name}", {"metadata": {"annotations": {annotation: group}}})


async def check_gang(
    cluster: ApiClient, running: Followed, make: Callable[[str], Json], group: Json, annotation: str
) -> None:
    """A gang of ten on room for seven is bound in no part; with room for ten it is whole."""
    await cluster.create(*map(make, NAMES))
    await until(lambda: len(running.jobs()) == 10)
    await cluster.create(group)
    for name in NAMES:
        await name_group(cluster, name, "gang", annotation)
    await until(lambda: [state.job.tasks for state in running.jobs()] == [10])
    await cluster.create(node("n1", cpu=8), make("alone"))
    await running.until_bound("alone")
    assert set(await running.nodes_of()) == {"alone"}
    await cluster.create(node("n2", cpu=3))
    await running.until_bound(*NAMES)
    await until(lambda: running.states()["bound"] == 11)


async def test_pods_that_volcanos_controller_groups_are_a_gang(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    await install_volcano(cluster)
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig) as running:
        group = pod_group("gang", 10)
        await check_gang(cluster, running, pod, group, "scheduling.k8s.io/group-name")


async def test_pods_that_kais_pod_grouper_groups_are_a_gang(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    await install_kai(cluster)
    await cluster.create(*QUEUES)
    policy = short_dir / "policy.yaml"
    policy.write_text("dialect: kai\n")
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig, policy=policy) as running:
        await check_gang(cluster, running, kai_pod, kai_gang("gang", 10), "pod-group-name")


@pytest.mark.parametrize("form", ["volcano", "kai"])
async def test_pods_wait_for_their_group_beside_a_controller_that_names_groups(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path, form: str
) -> None:
    """There is room from the start: without a wait each pod would be bound at once. A PodGroup with
    an owner shows the controller. A pod that it passes over is bound all the same."""
    make: Callable[[str], Json] = pod
    annotation, group, policy = "scheduling.k8s.io/group-name", pod_group("gang", 10), None
    await (install_kai if form == "kai" else install_volcano)(cluster)
    if form == "kai":
        make, annotation, group = kai_pod, "pod-group-name", kai_gang("gang", 10)
        await cluster.create(*QUEUES)
        policy = short_dir / "policy.yaml"
        policy.write_text("dialect: kai\n")
    (owner,) = await cluster.create(pod("owner", scheduler="other"))
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "owner"}
    reference["uid"] = owner["metadata"]["uid"]
    metadata = group["metadata"] | {"name": "before", "ownerReferences": [reference]}
    before = group | {"metadata": metadata}
    await cluster.create(before, node("n1", cpu=8))
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig, policy=policy) as running:
        await until(lambda: running.jobs())
        await cluster.create(*map(make, NAMES), make("alone"))
        await until(lambda: len(running.jobs()) == 12)
        await cluster.create(group)
        for name in NAMES:
            await name_group(cluster, name, "gang", annotation)
        await running.until_bound("alone")
        assert set(await running.nodes_of()) == {"alone"}, "there is room for seven of ten"
        await cluster.create(node("n2", cpu=3))
        await running.until_bound(*NAMES)


async def test_a_pod_that_is_bound_stays_a_job_of_its_own_and_an_event_says_so(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    await install_volcano(cluster)
    await cluster.create(node("n1"))
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig) as running:
        await cluster.create(pod("p"))
        await running.until_bound("p")
        await until(lambda: running.states()["bound"] == 1)
        await cluster.create(pod_group("gang", 1))
        await name_group(cluster, "p", "gang", "scheduling.k8s.io/group-name")

        async def is_reported() -> bool:
            events = (await cluster.get("/api/v1/namespaces/default/events"))["items"]
            return any("named after it was bound" in event["message"] for event in events)

        await until(is_reported)
        jobs = {state.job.name: state.job.tasks for state in running.jobs()}
        assert jobs == {"p": 1, "gang": 0}
