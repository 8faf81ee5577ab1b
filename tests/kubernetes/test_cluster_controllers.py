"""The doubles of Kubernetes' own controllers do what a chaos run needs of the real ones."""

from __future__ import annotations

from typing import Any

from laboratory.chaos.kubernetes.demands import ask_device, ask_volume
from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.controllers.device_claims import free_claims
from laboratory.local_kubernetes.controllers.disruption import count_budgets
from laboratory.local_kubernetes.controllers.volumes import (
    PROVISIONER,
    SELECTED,
    VolumeControllerDouble,
)
from laboratory.local_kubernetes.kubelets import started
from laboratory.workloads.demands import storage_class
from laboratory.workloads.manifests import manifest
from tests.kubernetes.driver.harness import pod

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
DEVICE_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


async def evicted(cluster: ApiClient, name: str) -> bool:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    answer = await cluster.post(f"{PODS}/{name}/eviction", body, code=None)
    assert answer.get("code") in (201, 429), answer
    return bool(answer["code"] == 201)


async def test_a_budget_lets_as_many_go_as_it_has_beyond_its_minimum(cluster: ApiClient) -> None:
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}}
    await cluster.create(manifest("PodDisruptionBudget", "two", spec, namespace="default"))
    names = ["a-0", "a-1", "a-2"]
    for stored in await cluster.create(*(pod(name, labels={"app": "a"}) for name in names)):
        await cluster.bind(stored, "n1")
        await cluster.patch(f"{PODS}/{stored['metadata']['name']}/status", {"status": started()})
    assert not await evicted(cluster, "a-0"), "nobody has counted"
    await count_budgets(cluster)
    assert await evicted(cluster, "a-0")
    await count_budgets(cluster)
    assert not await evicted(cluster, "a-1")


async def test_a_claim_gets_a_volume_of_the_node_that_it_was_told(cluster: ApiClient) -> None:
    await cluster.create(storage_class(PROVISIONER))
    controller = VolumeControllerDouble(seed=1)
    names = [f"p{number}" for number in range(12)]
    await cluster.create(*(ask_volume(pod(name)) for name in names))
    reports = {"metadata": {"annotations": {SELECTED: "n1"}}}
    await controller.look(cluster)
    assert (await cluster.get("/api/v1/persistentvolumes"))["items"] == []
    for name in names:
        await cluster.patch(f"{CLAIMS}/{name}", reports)
    for _ in range(2):
        await controller.look(cluster)
    claims = {c["metadata"]["name"]: c for c in (await cluster.get(CLAIMS))["items"]}
    bound = [c for c in claims.values() if c["status"]["phase"] == "Bound"]
    failed = [c for c in claims.values() if c not in bound]
    assert 0 < len(failed) < len(bound), "some volumes cannot be made at first"
    assert not any(SELECTED in c["metadata"].get("annotations", {}) for c in failed)
    for name in (claim["metadata"]["name"] for claim in failed):
        await cluster.patch(f"{CLAIMS}/{name}", reports)
    for _ in range(2):
        await controller.look(cluster)
    claims = {c["metadata"]["name"]: c for c in (await cluster.get(CLAIMS))["items"]}
    assert {claim["status"]["phase"] for claim in claims.values()} == {"Bound"}
    volume = await cluster.get(f"/api/v1/persistentvolumes/{claims['p0']['spec']['volumeName']}")
    assert volume["spec"]["claimRef"]["uid"] == claims["p0"]["metadata"]["uid"]
    assert "n1" in str(volume["spec"]["nodeAffinity"])


async def test_the_claim_of_an_ended_pod_gives_its_devices_back(cluster: ApiClient) -> None:
    one = pod("one")
    await cluster.create(ask_device(one))
    (stored,) = await cluster.create(one)
    result_item = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    user = {"resource": "pods", "name": "one", "uid": stored["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result_item]}}, "reservedFor": [user]}
    await cluster.patch(f"{DEVICE_CLAIMS}/one/status", {"status": status})
    await free_claims(cluster)
    assert (await cluster.get(f"{DEVICE_CLAIMS}/one"))["status"]["reservedFor"] == [user]
    await cluster.patch(f"{PODS}/one/status", {"status": {"phase": "Succeeded"}})
    await free_claims(cluster)
    assert not (await cluster.get(f"{DEVICE_CLAIMS}/one")).get("status")
