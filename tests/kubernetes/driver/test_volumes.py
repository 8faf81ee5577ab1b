"""Volumes on a real API server: asked for as kube-scheduler does, made and bound by others, and
bound to before the pod is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from coordinator.service.observed import volumes
from coordinator.service.observed.volumes import BOUND_HERE, SELECTED
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from shared.messages.messages import TaskState
from tests.kubernetes.access import grant, user
from tests.kubernetes.audit import requests_of
from tests.kubernetes.definitions import install_volcano
from tests.kubernetes.driver.harness import Followed, followed, node, pod, pod_group, until

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
HOSTNAME = "kubernetes.io/hostname"
PROVISIONER = "disks.example.com"
WATCHER = "watches-volumes"
READING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> AsyncIterator[Followed]:
    await install_volcano(cluster)
    await cluster.create(*(node(name, labels={HOSTNAME: name}) for name in ("n1", "n2")))
    await cluster.create(storage_class("made", PROVISIONER), storage_class("local"))
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig) as running:
        yield running


def storage_class(name: str, provisioner: str = "kubernetes.io/no-provisioner") -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str, storage: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": storage,
        },
    }


def volume(name: str, storage: str, at: str, **spec: Any) -> Json:
    here = {"key": HOSTNAME, "operator": "In", "values": [at]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        | spec,
    }


def using(name: str, *claims: str, group: str = "", cpu: int = 1) -> Json:
    pod_item = pod(name, group=group, cpu=cpu)
    pod_item["spec"]["volumes"] = [
        {"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims
    ]
    return pod_item


async def selected(cluster: ApiClient, name: str) -> str:
    """The node that the claim's provisioner is told, once it is told one."""

    async def look() -> str | None:
        meta = (await cluster.get(f"{CLAIMS}/{name}"))["metadata"]
        return (meta.get("annotations") or {}).get(SELECTED)

    node_name: str = await until(look)
    return node_name


async def reserved(cluster: ApiClient, name: str) -> Json:
    """The volume, once it names a claim."""

    async def look() -> Json | None:
        result: Json = await cluster.get(f"{VOLUMES}/{name}")
        return result if result["spec"].get("claimRef") else None

    volume: Json = await until(look)
    return volume


async def bind(cluster: ApiClient, name: str, to: str) -> None:
    """Bind a claim to its volume, as the volume controller does."""
    fields = {
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": to},
    }
    await cluster.patch(f"{CLAIMS}/{name}", fields)
    await cluster.patch(f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound"}})


async def provision(cluster: ApiClient, name: str, at: str) -> None:
    """Provision a claim's volume on a node, as its provisioner and the volume controller do."""
    uid = (await cluster.get(f"{CLAIMS}/{name}"))["metadata"]["uid"]
    to = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default"}
    reference = to | {"name": name, "uid": uid}
    await cluster.create(volume(f"pvc-{uid}", "made", at, claimRef=reference))
    await bind(cluster, name, f"pvc-{uid}")


async def test_a_provisioner_gets_the_node_and_the_pod_is_bound_afterwards(
    quadrant: Followed, cluster: ApiClient
) -> None:
    """A gang of two; a pod without volumes does not wait with them."""
    await cluster.create(claim("a", "made"), claim("b", "made"), pod_group("ring", 2))
    await cluster.create(using("one", "a", group="ring"), using("two", "b", group="ring"))
    at = {name: await selected(cluster, name) for name in ("a", "b")}
    await cluster.create(pod("plain"))
    await quadrant.until_bound("plain")
    assert await quadrant.nodes_of("one", "two") == {}
    await provision(cluster, "a", at["a"])
    await quadrant.until_bound("one")
    await provision(cluster, "b", at["b"])
    assert await quadrant.until_bound("one", "two") == {"one": at["a"], "two": at["b"]}


async def test_a_volume_that_is_there_is_reserved_for_its_claim(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(volume("disk", "local", "n2"), claim("data", "local"))
    await cluster.patch(f"{VOLUMES}/disk/status", {"status": {"phase": "Available"}})
    await cluster.create(using("reader", "data"))
    disk = await reserved(cluster, "disk")
    uid = (await cluster.get(f"{CLAIMS}/data"))["metadata"]["uid"]
    reference = disk["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"], reference["uid"]) == ("default", "data", uid)
    assert disk["metadata"]["annotations"][BOUND_HERE] == "yes"
    assert await quadrant.nodes_of("reader") == {}
    await bind(cluster, "data", "disk")
    assert await quadrant.until_bound("reader") == {"reader": "n2"}


async def test_a_place_is_given_back_where_no_volume_can_be_made(
    quadrant: Followed, cluster: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provisioner takes its node off the claim; the pod says why it waits, and is placed
    anew."""
    monkeypatch.setattr(volumes, "AGAIN_SECONDS", 0.2)
    await cluster.create(claim("data", "made"), using("reader", "data"))
    await selected(cluster, "data")
    await asyncio.sleep(0.5)  # looked at meanwhile, and nothing is wrong yet
    await cluster.patch(f"{CLAIMS}/data", {"metadata": {"annotations": {SELECTED: None}}})
    waiting = await until(lambda: _why(quadrant))
    assert 'no volume could be made for persistentvolumeclaim "data"' in waiting
    at = await selected(cluster, "data")
    await provision(cluster, "data", at)
    assert await quadrant.until_bound("reader") == {"reader": at}


def _why(quadrant: Followed) -> str | None:
    """Reason of the only job's last refused place; None before there is one."""
    [state] = quadrant.jobs()
    return state.refused_by or None


async def test_a_claim_keeps_the_node_that_somebody_else_selected(
    quadrant: Followed, cluster: ApiClient
) -> None:
    asking = claim("data", "made")
    asking["metadata"]["annotations"] = {SELECTED: "n2"}
    await cluster.create(asking, using("reader", "data"))
    await until(lambda: [s.states[0] for s in quadrant.jobs()] == [TaskState.BINDING])
    assert await quadrant.nodes_of("reader") == {}
    await provision(cluster, "data", "n2")
    assert await quadrant.until_bound("reader") == {"reader": "n2"}


async def test_a_shadow_decides_without_a_volume_and_writes_nothing(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    await cluster.create(node("n1"), storage_class("made", PROVISIONER), claim("data", "made"))
    await grant(cluster, user(WATCHER), READING)
    kubeconfig = control_plane.user(WATCHER).kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig, shadow=True) as quadrant:
        await cluster.create(using("reader", "data"))
        await until(lambda: [s.states[0] for s in quadrant.jobs()] == [TaskState.BOUND])
    requests = requests_of(control_plane.audit_log, WATCHER)
    assert {request.verb for request in requests} <= {"get", "list", "watch"}
