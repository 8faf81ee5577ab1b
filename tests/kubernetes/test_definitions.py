"""The API server takes our definitions of Volcano's and KAI's kinds as they are meant."""

from __future__ import annotations

import copy

import pytest

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.definitions import KAI, VOLCANO, install, remove
from tests.builders import objects
from tests.builders.objects import kube_object
from tests.coordinator.api.client import Json

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"


@pytest.fixture(autouse=True)
async def only_ours(cluster: ApiClient) -> None:
    """Tests before have Volcano's and KAI's own."""
    await remove(cluster, *VOLCANO, *KAI)


async def test_volcanos_schemas_accept_the_same_as_our_parsers(cluster: ApiClient) -> None:
    await install(cluster, *VOLCANO)
    job = objects.job(tasks=[objects.task(policies=[{"event": "*", "action": "RestartJob"}])])
    job["spec"]["tasks"][0]["template"]["spec"]["dnsPolicy"] = "Default"  # not one of our fields
    created = await cluster.create(
        objects.queue("research", weight=2, capability={"cpu": 8, "memory": "1Gi"}),
        in_default(objects.pod_group("gang", minMember=2, minResources={"cpu": "500m"})),
        in_default(job),
        hyper_node("rack"),
    )
    assert [item["spec"] for item in created[:2]] == [
        {"weight": 2, "capability": {"cpu": 8, "memory": "1Gi"}},
        {"minMember": 2, "minResources": {"cpu": "500m"}},
    ]
    assert created[2]["spec"] == job["spec"]
    wrong = in_default(objects.pod_group("wrong", minMember="two"))
    refused = await cluster.post(GROUPS, wrong, code=422)
    assert "spec.minMember" in refused["message"]


async def test_a_pod_group_has_no_status_of_its_own_and_a_queue_has(cluster: ApiClient) -> None:
    await install(cluster, *VOLCANO)
    created = await cluster.create(in_default(objects.pod_group("gang")), objects.queue("research"))
    assert "status" not in created[1], "a status comes by the sub resource alone"
    state = {"status": {"state": "Open"}}
    await cluster.patch(f"{QUEUES}/research/status", state)
    assert (await cluster.get(f"{QUEUES}/research"))["status"] == {"state": "Open"}

    phase = {"status": {"phase": "Inqueue"}}
    await cluster.patch(f"{GROUPS}/gang/status", phase, code=404)
    await cluster.patch(f"{GROUPS}/gang", phase)
    assert (await cluster.get(f"{GROUPS}/gang"))["status"] == {"phase": "Inqueue"}


async def test_kais_kinds_stand_beside_volcanos(cluster: ApiClient) -> None:
    await install(cluster, *VOLCANO, *KAI)
    shares = {"gpu": {"quota": 8, "overQuotaWeight": 1, "limit": -1}}
    topology = {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack", "alias": "r"}]}
    request = {"podName": "p", "selectedNode": "n", "receivedResourceType": "Regular"}
    specs = [
        ("scheduling.run.ai/v2", "Queue", {"resources": shares}),
        ("scheduling.run.ai/v2alpha2", "PodGroup", {"minMember": 2, "queue": "a"}),
        ("kai.scheduler/v1alpha1", "Topology", topology),
        ("scheduling.run.ai/v1alpha2", "BindRequest", request),
    ]
    items: list[Json] = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
        for version, kind, spec in specs
    ]
    created = await cluster.create(*copy.deepcopy(items))
    assert [item["spec"] for item in created] == [item["spec"] for item in items]
    path = await cluster.path_of(created[3])
    failed = {"status": {"phase": "Failed", "reason": "no such volume", "failedAttempts": 1}}
    assert (await cluster.patch(f"{path}/status", failed))["status"] == failed["status"]


async def test_definitions_can_be_taken_away_again(cluster: ApiClient) -> None:
    await install(cluster, *VOLCANO)
    await cluster.create(objects.queue("research"))
    await remove(cluster, *VOLCANO)
    assert (await cluster.ask("GET", QUEUES, code=404))["code"] == 404
    await install(cluster, *VOLCANO)
    assert await cluster.names(QUEUES) == []


def in_default(item: Json) -> Json:
    item["metadata"]["namespace"] = "default"
    item["metadata"].pop("uid", None)
    return item


def hyper_node(name: str) -> Json:
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "n.*"}}}]
    return kube_object(
        "topology.volcano.sh/v1alpha1", "HyperNode", name, spec={"tier": 1, "members": members}
    )
