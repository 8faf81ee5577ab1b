"""The hollow kubelets do what the tests of the driver need of real ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial

import pytest_asyncio

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.kubelets import DURATION, LEASES, HollowKubelets
from tests.coordinator.api.client import Json
from tests.kubernetes.driver.harness import pod

PODS = "/api/v1/namespaces/default/pods"


@pytest_asyncio.fixture
async def kubelets(cluster: ApiClient) -> AsyncIterator[HollowKubelets]:
    """Two nodes of four processors."""
    async with running(HollowKubelets(cluster)) as kubelets:
        await kubelets.join(["n1", "n2"], {"cpu": "4", "memory": "8Gi"})
        yield kubelets


@contextlib.asynccontextmanager
async def running(kubelets: HollowKubelets) -> AsyncIterator[HollowKubelets]:
    task = asyncio.create_task(kubelets.run())
    try:
        yield kubelets
    finally:
        task.cancel()
        await asyncio.wait([task])


async def bound(cluster: ApiClient, name: str, node: str, cpu: str = "1", **notes: str) -> Json:
    """A pod that was created and bound; ``notes`` are annotations of the prefix quadrant.dev."""
    annotations = {f"quadrant.dev/{key.replace('_', '-')}": text for key, text in notes.items()}
    item = pod(name, cpu=cpu, scheduler="ours", annotations=annotations)
    (stored,) = await cluster.create(item)
    await cluster.bind(stored, node)
    return stored


async def phase(cluster: ApiClient, name: str, expected: str) -> Json:
    """The pod in this phase."""
    return await cluster.until(
        f"{PODS}/{name}", lambda pod: pod.get("status", {}).get("phase") == expected
    )


async def gone(cluster: ApiClient, name: str) -> None:
    await cluster.until(f"{PODS}/{name}", lambda answer: answer.get("code") == 404)


async def test_a_pod_runs_and_ends_as_its_annotations_say(
    cluster: ApiClient, kubelets: HollowKubelets
) -> None:
    await bound(cluster, "stays", "n1")
    await bound(cluster, "ends", "n1", duration="0.1")
    await bound(cluster, "fails", "n2", duration="0.1", exit_code="3")
    pod = await phase(cluster, "stays", "Running")
    conditions = {c["type"]: c["status"] for c in pod["status"]["conditions"]}
    assert conditions["Ready"] == conditions["PodScheduled"] == "True"
    await phase(cluster, "ends", "Succeeded")
    failed = await phase(cluster, "fails", "Failed")
    (container,) = failed["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 3


async def test_pods_that_do_not_fit_or_are_refused_fail(
    cluster: ApiClient, kubelets: HollowKubelets
) -> None:
    await bound(cluster, "first", "n1", cpu="3")
    await phase(cluster, "first", "Running")
    await bound(cluster, "second", "n1", cpu="2")
    assert (await phase(cluster, "second", "Failed"))["status"]["reason"] == "OutOfcpu"

    kubelets.refuse("n2", "NodeBroken")
    await bound(cluster, "unlucky", "n2")
    assert (await phase(cluster, "unlucky", "Failed"))["status"]["reason"] == "NodeBroken"
    await bound(cluster, "lucky", "n2")
    await phase(cluster, "lucky", "Running")


async def test_room_comes_back_when_a_pod_went(
    cluster: ApiClient, kubelets: HollowKubelets
) -> None:
    await bound(cluster, "first", "n1", cpu="4")
    await phase(cluster, "first", "Running")
    await cluster.delete(f"{PODS}/first")
    await gone(cluster, "first")
    await bound(cluster, "second", "n1", cpu="4")
    await phase(cluster, "second", "Running")


async def test_a_pod_that_is_held_stays_while_it_is_being_deleted(
    cluster: ApiClient, kubelets: HollowKubelets
) -> None:
    kubelets.hold("default/stuck")
    for name in ("stuck", "free"):
        await bound(cluster, name, "n1")
        await phase(cluster, name, "Running")
        await cluster.delete(f"{PODS}/{name}")
    await gone(cluster, "free")
    assert "deletionTimestamp" in (await cluster.get(f"{PODS}/stuck"))["metadata"]


async def test_a_silent_node_starts_and_renews_nothing(cluster: ApiClient) -> None:
    async with running(HollowKubelets(cluster, lease_seconds=0.05)) as kubelets:
        await kubelets.join(["n1", "n2"], {"cpu": "4"})
        kubelets.silence("n2")
        for _ in range(2):  # a renewal of both nodes may be under way
            last = await renewed(cluster, "n1")
            await cluster.until(f"{LEASES}/n1", partial(_renewed_since, last))
        before = {name: await renewed(cluster, name) for name in ("n1", "n2")}
        await bound(cluster, "ignored", "n2")
        await bound(cluster, "served", "n1")
        await phase(cluster, "served", "Running")
        await cluster.until(f"{LEASES}/n1", lambda lease: lease["spec"]["renewTime"] > before["n1"])
        assert await renewed(cluster, "n2") == before["n2"]
        assert (await cluster.get(f"{PODS}/ignored"))["status"]["phase"] == "Pending"


def _renewed_since(last: str, lease: Json) -> bool:
    return bool(lease["spec"]["renewTime"] > last)


async def renewed(cluster: ApiClient, node: str) -> str:
    return str((await cluster.get(f"{LEASES}/{node}"))["spec"]["renewTime"])


async def test_they_go_on_after_the_api_server_was_away(
    cluster: ApiClient, kubelets: HollowKubelets, control_plane: ControlPlane
) -> None:
    await bound(cluster, "before", "n1")
    await phase(cluster, "before", "Running")
    ends = {"metadata": {"annotations": {DURATION: "0.5"}}}
    await cluster.patch(f"{PODS}/before", ends)
    control_plane.api_server.kill()
    control_plane.launch()
    await asyncio.to_thread(control_plane.wait)
    await phase(cluster, "before", "Succeeded")
    await bound(cluster, "after", "n2")
    await phase(cluster, "after", "Running")
