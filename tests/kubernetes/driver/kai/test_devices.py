"""GPUs of pods are named on their requests and on themselves, whoever binds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from shared.model.gpu_request import WHOLE
from shared.model.kai_devices import shared_groups
from tests.coordinator.service.metrics.scrape import scrape, total
from tests.kubernetes.definitions import install_kai
from tests.kubernetes.driver.harness import Followed, until
from tests.kubernetes.driver.kai.binder import KaiBinder
from tests.kubernetes.driver.kai.objects import (
    GROUP,
    QUEUES,
    RECEIVED,
    Json,
    beside_binder,
    gpu_node,
    kai_pod,
    requests,
)

pytestmark = pytest.mark.timeout(180)


def whole(name: str, gpus: int) -> Json:
    pod_item = kai_pod(name)
    [container] = pod_item["spec"]["containers"]
    amounts = {"nvidia.com/gpu": str(gpus)}
    container["resources"] = {"requests": {"cpu": "1"} | amounts, "limits": amounts}
    return pod_item


def groups_of(pod: Json) -> list[str]:
    labels = pod["metadata"].get("labels") or {}
    return sorted(text for key, text in labels.items() if key.startswith(GROUP))


async def test_shares_of_a_gpu_name_its_group_on_the_request_and_the_pod(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder
) -> None:
    """Two on one device, whose reservation takes a GPU of the node's: there is room for a whole one
    beside it, and for the second share."""
    await cluster.create(gpu_node("n1", 2), kai_pod("half", gpu_fraction="0.5"))
    await quadrant.until_bound("half")

    async def is_counted() -> bool:
        """True for a reservation that counts, or that the binder deleted again: its cache may lack
        the pod of the group."""
        counted = quadrant.observed.cluster.mirror.foreign.sums().get("n1")
        return bool(counted) or await binder.reservations() == []

    await until(is_counted)
    await cluster.create(kai_pod("rest", gpu_fraction="0.5"), whole("one", 1))
    await quadrant.until_bound("rest", "one")
    specs = {name: item["spec"] for name, item in (await requests(cluster)).items()}
    [group] = specs["half"]["selectedGPUGroups"]
    assert group in shared_groups((("kai-gpu/0", (WHOLE // 2,)),), "n1") + shared_groups(
        (("kai-gpu/1", (WHOLE // 2,)),), "n1"
    )
    assert specs["rest"]["selectedGPUGroups"] == [group]
    for name in ("half", "rest"):
        assert specs[name]["receivedResourceType"] == "Fraction"
        assert specs[name]["receivedGPU"] == {"count": 1, "portion": "0.50"}
    assert specs["one"]["receivedResourceType"] == "Regular"
    assert specs["one"]["receivedGPU"] == {"count": 1, "portion": "1.00"}
    assert "selectedGPUGroups" not in specs["one"]
    pods = await quadrant.pods()
    assert pods["half"]["metadata"]["labels"][GROUP] == group
    assert pods["rest"]["metadata"]["labels"][GROUP] == group
    assert pods["half"]["metadata"]["annotations"][RECEIVED] == "Fraction"
    assert len(await binder.reservations()) <= 1
    series = await scrape(quadrant.service.url)
    # With a lagging cache the binder may fail for good: it tries a request three times at most.
    failed = total(series, "bind_requests_total", result="failed")
    assert total(series, "bind_requests_total", result="written") == 3 + failed


async def test_shares_of_several_gpus_and_of_two_nodes_have_groups_of_their_own(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder
) -> None:
    """The double refuses a group that is on another node: it is one device of the cluster."""
    await cluster.create(gpu_node("n1", 2), gpu_node("n2", 2))
    several = [
        kai_pod(name, gpu_fraction="0.6", gpu_fraction_num_devices="2") for name in ("a", "b")
    ]
    await cluster.create(*several)
    nodes = await quadrant.until_bound("a", "b")
    assert set(nodes.values()) == {"n1", "n2"}
    result, pods = await requests(cluster), await quadrant.pods()
    written = {name: sorted(result[name]["spec"]["selectedGPUGroups"]) for name in ("a", "b")}
    assert len({*written["a"], *written["b"]}) == 4
    for name in ("a", "b"):
        assert groups_of(pods[name]) == written[name]
        assert result[name]["spec"]["receivedGPU"] == {"count": 2, "portion": "0.60"}


async def test_a_gpu_is_free_again_once_its_shares_have_gone(
    quadrant: Followed, cluster: ApiClient, binder: KaiBinder
) -> None:
    await cluster.create(gpu_node("n1", 1), kai_pod("half", gpu_fraction="0.5"))
    await quadrant.until_bound("half")
    await cluster.create(whole("one", 1))
    await until(lambda: quadrant.states()["pending"] == 1)
    await cluster.delete("/api/v1/namespaces/default/pods/half", gracePeriodSeconds="0")
    await quadrant.until_bound("one")

    async def released() -> bool:
        """The binder hears of the end of a pod as we do, and is not waited for."""
        return await binder.reservations() == []

    await until(released)


async def test_where_quadrant_binds_the_binding_says_the_devices(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> None:
    await install_kai(cluster)
    await cluster.create(*QUEUES, gpu_node("n1", 2))
    kubeconfig = control_plane.admin.kubeconfig
    async with beside_binder(
        redis_url, short_dir, cluster, kubeconfig, binder="quadrant"
    ) as quadrant:
        await cluster.create(kai_pod("half", gpu_fraction="0.5"), whole("one", 1), kai_pod("none"))
        await quadrant.until_bound("half", "one", "none")
        pods = await quadrant.pods()
        await until(lambda: quadrant.states()["bound"] == 3)
    [group] = groups_of(pods["half"])
    assert len(group) == 36, "a UUID, as KAI's are"
    notes = {name: pod["metadata"]["annotations"].get(RECEIVED) for name, pod in pods.items()}
    assert notes == {"half": "Fraction", "one": "Regular", "none": None}
    assert groups_of(pods["one"]) == groups_of(pods["none"]) == []
    assert await requests(cluster) == {}
