"""ResourceClaims on a real API server: devices and users are written before a pod is bound, and
taken back from who gets no place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from coordinator.cluster.kubernetes.state.mirror import Mirror
from coordinator.intake.documents.kinds import RESOURCE_CLAIM
from coordinator.service.observed.devices import LOOK_SECONDS, PROTECTED
from laboratory.local_kubernetes.client import STRATEGIC_PATCH, ApiClient
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.identity import Identity
from laboratory.local_kubernetes.kubelets import path_of, started
from tests.conftest import flush
from tests.kubernetes.definitions import install_volcano
from tests.kubernetes.driver.harness import Followed, followed, node, pod, pod_group, until
from tests.kubernetes.faults.effects import Answer
from tests.kubernetes.faults.proxy import FaultyProxy

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
DRIVER = "gpu.example.com"


@pytest_asyncio.fixture
async def quadrant(
    cluster: ApiClient, control_plane: ControlPlane, redis_url: str, short_dir: Path
) -> AsyncIterator[Followed]:
    """Two nodes with two devices each."""
    await install_volcano(cluster)
    await cluster.create(node("n1"), node("n2"), device_class("gpu"))
    await cluster.create(*(slice_of(name, 2) for name in ("n1", "n2")))
    kubeconfig = control_plane.admin.kubeconfig
    async with followed(redis_url, short_dir, cluster, kubeconfig) as running:
        yield running


def resource(kind: str, name: str, spec: Json, **metadata: Any) -> Json:
    items = {"apiVersion": "resource.k8s.io/v1", "kind": kind}
    return items | {"metadata": {"name": name} | metadata, "spec": spec}


def device_class(name: str) -> Json:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    reports = {"opaque": {"driver": DRIVER, "parameters": {"by": "class"}}}
    return resource("DeviceClass", name, {"selectors": [selector], "config": [reports]})


def slice_of(at: str, count: int) -> Json:
    pool = {"name": at, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}"} for number in range(count)]
    spec = {"driver": DRIVER, "nodeName": at, "pool": pool, "devices": devices}
    return resource("ResourceSlice", at, spec)


def claim(name: str, count: int = 1, **metadata: Any) -> Json:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}
    reports = {"requests": ["gpu"], "opaque": {"driver": DRIVER, "parameters": {"by": "claim"}}}
    devices = {"requests": [request], "config": [reports]}
    return resource("ResourceClaim", name, {"devices": devices}, namespace="default", **metadata)


def using(name: str, *claims: str, group: str = "", cpu: int = 1) -> Json:
    pod_item = pod(name, group=group, cpu=cpu)
    pod_item["spec"]["resourceClaims"] = [
        {"name": each, "resourceClaimName": each} for each in claims
    ]
    return pod_item


async def statuses(cluster: ApiClient) -> dict[str, Json]:
    """Claim -> its status."""
    items = (await cluster.get(CLAIMS))["items"]
    return {item["metadata"]["name"]: item.get("status") or {} for item in items}


def results(status: Json) -> list[tuple[str, str]]:
    """(pool, device) of an allocated claim."""
    allocation = status.get("allocation") or {"devices": {"results": []}}
    return [(result["pool"], result["device"]) for result in allocation["devices"]["results"]]


async def test_a_gang_has_a_device_each_before_it_is_bound(
    quadrant: Followed, cluster: ApiClient
) -> None:
    names = [f"g{number}" for number in range(4)]
    await cluster.create(*(claim(name) for name in names), pod_group("ring", 4))
    await cluster.create(*(using(name, name, group="ring") for name in names))
    nodes = await quadrant.until_bound(*names)
    pods, result = await quadrant.pods(), await statuses(cluster)
    devices = {name: results(result[name]) for name in names}
    assert len({device for [device] in devices.values()}) == 4, "no device is given twice"
    for name in names:
        assert devices[name][0][0] == nodes[name], "a device of the pod's node"
        uid = pods[name]["metadata"]["uid"]
        assert result[name]["reservedFor"] == [{"resource": "pods", "name": name, "uid": uid}]
        config = result[name]["allocation"]["devices"]["config"]
        assert [entry["source"] for entry in config] == ["FromClass", "FromClaim"]
        assert [entry["opaque"]["parameters"]["by"] for entry in config] == ["class", "claim"]
    stored = await cluster.get(f"{CLAIMS}/g0")
    assert PROTECTED in stored["metadata"]["finalizers"]


async def test_a_claim_that_two_pods_share_names_both(
    quadrant: Followed, cluster: ApiClient
) -> None:
    await cluster.create(claim("both", 2), using("a", "both"))
    nodes = await quadrant.until_bound("a")
    await cluster.create(using("b", "both"))
    nodes |= await quadrant.until_bound("b")
    assert nodes["a"] == nodes["b"]
    status = (await statuses(cluster))["both"]
    assert [user["name"] for user in status["reservedFor"]] == ["a", "b"]
    assert len(results(status)) == 2


async def test_a_claim_of_a_template_is_waited_for(quadrant: Followed, cluster: ApiClient) -> None:
    """The claim controller makes it, some time after the pod."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    await cluster.create(resource("ResourceClaimTemplate", "own", spec, namespace="default"))
    asking = pod("a")
    asking["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "own"}]
    [created] = await cluster.create(asking)
    await cluster.create(pod("plain"))
    await quadrant.until_bound("plain")
    assert await quadrant.nodes_of("a") == {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": created["metadata"]["uid"]}
    await cluster.create(claim("a-gpu-x", ownerReferences=[owner | {"controller": True}]))
    entry = {"name": "gpu", "resourceClaimName": "a-gpu-x"}
    await cluster.patch(f"{PODS}/a/status", {"status": {"resourceClaimStatuses": [entry]}})
    await quadrant.until_bound("a")
    assert len(results((await statuses(cluster))["a-gpu-x"])) == 1


async def test_a_pod_that_is_not_bound_after_all_is_taken_off_its_claim(
    quadrant: Followed, cluster: ApiClient
) -> None:
    """As where kube-scheduler's own Unreserve was cut off: the claim names a pod that waits."""
    [created] = await cluster.create(using("a", "wanted", cpu=64))  # more than any node has
    await cluster.create(claim("wanted"))
    result_item = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    at = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    status = {
        "allocation": {
            "devices": {"results": [result_item]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [at]}]},
        },
        "reservedFor": [{"resource": "pods", "name": "a", "uid": created["metadata"]["uid"]}],
    }
    await cluster.patch(f"{CLAIMS}/wanted/status", {"status": status})

    async def free() -> bool:
        status = (await statuses(cluster))["wanted"]
        return not status.get("reservedFor") and not results(status)

    await until(free)


@pytest.fixture
def late_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch brings each form of a claim a quarter of a second after the one before it."""
    take, last = Mirror.take, [0.0]

    def late(self: Mirror, kind: str, raw: msgspec.Raw) -> None:
        if kind != "ResourceClaim":
            take(self, kind, raw)
            return
        loop = asyncio.get_running_loop()
        last[0] = max(loop.time(), last[0]) + 0.25
        loop.call_at(last[0], take, self, kind, raw.copy())

    monkeypatch.setattr(Mirror, "take", late)


@pytest.mark.usefixtures("late_claims")
async def test_no_device_is_allocated_twice_while_the_watch_lags(
    quadrant: Followed, cluster: ApiClient
) -> None:
    """The books have what was written into a claim before the watch tells of it, and the watch
    first brings what was before: a claim without devices."""
    names = ("a", "b", "c", "d", "e")
    await cluster.create(*map(claim, names))
    await asyncio.sleep(0.25 * len(names))
    for name in names:
        await cluster.create(using(name, name))
        await asyncio.sleep(0.4)

    async def all_allocated() -> bool:
        return len(await quadrant.nodes_of(*names)) == 4

    await until(all_allocated)
    await asyncio.sleep(4.0)
    devices = [
        device for status in (await statuses(cluster)).values() for device in results(status)
    ]
    assert sorted(devices) == sorted({*devices})
    assert sorted(devices) == [(node, f"gpu-{at}") for node in ("n1", "n2") for at in range(2)]
    assert len(await quadrant.nodes_of(*names)) == 4


async def test_devices_reserved_by_another_scheduler_are_not_used(
    quadrant: Followed, cluster: ApiClient
) -> None:
    """A pod of another scheduler has both devices of a node: none of ours gets them."""
    [theirs] = await cluster.create(pod("theirs", scheduler="other"))
    await cluster.create(claim("taken", 2))
    status = {
        "allocation": {
            "devices": {
                "results": [
                    {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": f"gpu-{number}"}
                    for number in range(2)
                ]
            }
        },
        "reservedFor": [{"resource": "pods", "name": "theirs", "uid": theirs["metadata"]["uid"]}],
    }
    await cluster.patch(f"{CLAIMS}/taken/status", {"status": status})

    def is_known() -> bool:
        claims = quadrant.service.service.objects.list(RESOURCE_CLAIM, namespace=None, limit=None)
        return any("allocation" in entry.object().get("status", {}) for entry in claims.items)

    await until(is_known)
    await cluster.create(*(claim(name) for name in ("a", "b", "c")))
    await cluster.create(*(using(name, name) for name in ("a", "b")))
    assert set((await quadrant.until_bound("a", "b")).values()) == {"n2"}
    await cluster.create(using("c", "c"))
    await asyncio.sleep(1.5)
    result = await statuses(cluster)
    assert await quadrant.nodes_of("c") == {}
    assert len(result["taken"]["reservedFor"]) == 1


@pytest.mark.parametrize("late", ["/api/v1/pods", "/apis/resource.k8s.io/v1/resourceclaims"])
async def test_no_device_of_a_running_pod_is_given_to_another_after_a_lost_ledger(  # noqa: PLR0917
    cluster: ApiClient,
    proxied: Identity,
    proxy: FaultyProxy,
    redis_url: str,
    short_dir: Path,
    late: str,
) -> None:
    """Three devices, of which two pods have one each; of two that come afterwards one gets the
    third. ``late``: what the new ledger is told of last, when claims have been looked at twice."""
    await cluster.create(node("n1", cpu=8), device_class("gpu"), slice_of("n1", 3))
    async with followed(redis_url, short_dir / "a", cluster, proxied.kubeconfig) as first:
        await cluster.create(*(claim(name) for name in "ab"), *(using(name, name) for name in "ab"))
        await first.until_bound("a", "b")
        await until(lambda: first.states()["bound"] == 2)
    for each in (await first.pods()).values():
        await cluster.patch(f"{path_of(each)}/status", {"status": started()}, form=STRATEGIC_PATCH)
    before = await statuses(cluster)
    flush(redis_url)
    away = proxy.inject(Answer(503), part=late, times=1000)
    async with followed(redis_url, short_dir / "b", cluster, proxied.kubeconfig) as second:
        await proxy.until_met(away)
        await cluster.create(*(claim(name) for name in "cd"), *(using(name, name) for name in "cd"))
        await asyncio.sleep(2 * LOOK_SECONDS + 0.5)
        proxy.clear()
        await until(lambda: second.states()["running"] == 2)
        await until(lambda: second.states()["bound"] == 3)
        await asyncio.sleep(LOOK_SECONDS + 0.5)
        after = await statuses(cluster)
        assert {name: after[name] for name in "ab"} == before
        devices = [device for status in after.values() for device in results(status)]
        assert sorted(devices) == [("n1", f"gpu-{number}") for number in range(3)]
        assert len(await second.nodes_of("c", "d")) == 1
