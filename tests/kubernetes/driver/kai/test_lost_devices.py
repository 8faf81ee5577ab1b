"""A ledger that is filled from the cluster has the devices of running pods again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from shared.model.gpu_request import WHOLE
from shared.units.things import Things
from tests.conftest import flush
from tests.kubernetes.driver.harness import Followed, node, until
from tests.kubernetes.driver.kai.binder import KaiBinder
from tests.kubernetes.driver.kai.objects import Json, beside_binder, gpu_node, kai_pod

pytestmark = pytest.mark.timeout(180)


def devices(quadrant: Followed) -> dict[str, Things]:
    """Pod -> its devices, in the books."""
    return {
        job.job.pod_name(tix): task_devices
        for job in quadrant.jobs()
        for tix, task_devices in job.devices.items()
    }


@pytest.mark.parametrize("by", ["quadrant", "kai"])
async def test_no_share_is_given_twice_after_a_lost_ledger(  # noqa: PLR0917
    cluster: ApiClient,
    control_plane: ControlPlane,
    binder: KaiBinder,
    redis_url: str,
    short_dir: Path,
    by: str,
) -> None:
    """Two GPUs, of which pods have six tenths each: no other pod of this size fits, and one of four
    tenths does. ``by``: who binds."""
    kubeconfig = control_plane.admin.kubeconfig
    if by == "quadrant":
        binder.pause()
    await cluster.create(gpu_node("n1", 2))
    pods = [kai_pod(name, gpu_fraction="0.6") for name in ("x", "y")]
    async with beside_binder(
        redis_url, short_dir / "a", cluster, kubeconfig, binder=by
    ) as quadrant:
        await cluster.create(*pods)
        await quadrant.until_bound("x", "y")
        before = devices(quadrant)
        assert {task_devices[0][0] for task_devices in before.values()} == {
            "kai-gpu/0",
            "kai-gpu/1",
        }
    flush(redis_url)
    async with beside_binder(
        redis_url, short_dir / "b", cluster, kubeconfig, binder=by
    ) as quadrant:
        await until(lambda: devices(quadrant) == before)
        await cluster.create(kai_pod("large", gpu_fraction="0.6"))
        await cluster.create(kai_pod("small", gpu_fraction="0.4"))
        await quadrant.until_bound("small")
        await asyncio.sleep(1.0)
        assert "large" not in await quadrant.nodes_of("large")
        [(name, amounts)] = devices(quadrant)["small"]
        assert name in {"kai-gpu/0", "kai-gpu/1"} and amounts == (WHOLE * 4 // 10,)


MIG = "nvidia.com/mig-"


def instances(name: str, profile: str) -> Json:
    """A pod with one instance of a GPU, which is a resource of its own."""
    pod_item = kai_pod(name)
    [container] = pod_item["spec"]["containers"]
    amounts = {f"{MIG}{profile}": "1"}
    container["resources"] = {"requests": {"cpu": "1"} | amounts, "limits": amounts}
    return pod_item


def mig_node(name: str, profiles: dict[str, int]) -> Json:
    """``profiles``: how many instances it has of each."""
    node_item = node(name, cpu=8, labels={"nvidia.com/mig.strategy": "mixed"})
    amounts = {f"{MIG}{profile}": str(many) for profile, many in profiles.items()}
    for part in ("allocatable", "capacity"):
        node_item["status"][part] = node_item["status"][part] | amounts
    return node_item


@pytest.mark.parametrize("by", ["quadrant", "kai"])
async def test_no_instance_of_a_gpu_is_given_twice_after_a_lost_ledger(  # noqa: PLR0917
    cluster: ApiClient,
    control_plane: ControlPlane,
    binder: KaiBinder,
    redis_url: str,
    short_dir: Path,
    by: str,
) -> None:
    """Two pods have one of two small instances, and the large one. ``by``: who binds."""
    kubeconfig = control_plane.admin.kubeconfig
    if by == "quadrant":
        binder.pause()
    small, large = "1g.10gb", "3g.40gb"
    await cluster.create(mig_node("n1", {small: 2, large: 1}))
    async with beside_binder(
        redis_url, short_dir / "a", cluster, kubeconfig, binder=by
    ) as quadrant:
        await cluster.create(instances("x", small), instances("y", large))
        await quadrant.until_bound("x", "y")
        await until(lambda: quadrant.states()["bound"] == 2)
    flush(redis_url)
    async with beside_binder(
        redis_url, short_dir / "b", cluster, kubeconfig, binder=by
    ) as quadrant:
        await cluster.create(instances("large", large), instances("small", small))
        await quadrant.until_bound("small")
        await until(lambda: quadrant.states()["bound"] == 3)
        await cluster.create(instances("more", small), kai_pod("plain"))
        await quadrant.until_bound("plain")
        await asyncio.sleep(1.0)
        assert await quadrant.nodes_of("large", "more") == {}
        assert quadrant.states()["pending"] == 2
