"""The cluster that the other tests rely on: it keeps what it was given, and refuses strangers."""

from __future__ import annotations

import aiohttp
import pytest

from laboratory.local_kubernetes.client import ApiClient, client_of
from laboratory.local_kubernetes.control_plane import ControlPlane
from tests.builders.objects import budget, priority_class
from tests.coordinator.api.client import Json
from tests.kubernetes.access import account, grant, token_of, user, username
from tests.kubernetes.audit import Request, entries, requests_of
from tests.kubernetes.driver import harness
from tests.kubernetes.driver.harness import node
from tests.kubernetes.emptying import empty

PODS = "/api/v1/namespaces/default/pods"
READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}


def pod(name: str) -> Json:
    return harness.pod(name, scheduler="ours")


async def test_a_pod_is_bound_once_and_the_audit_log_has_it(
    cluster: ApiClient, control_plane: ControlPlane
) -> None:
    name = "audited"  # the log has the pods of other tests, too
    created, stored = await cluster.create(node("n1", cpu=32), pod(name))
    assert "taints" not in created["spec"]
    assert created["status"]["allocatable"]["cpu"] == "32"

    await cluster.bind(stored, "n1")
    second = await cluster.bind(stored, "n1", code=409)
    assert "n1" in second["message"]

    requests = [
        entry["requestObject"]["target"]["name"]
        for entry in entries(control_plane.audit_log)
        if entry.get("objectRef", {}).get("subresource") == "binding"
        and entry["objectRef"]["name"] == name
    ]
    assert requests == ["n1"] * 2
    binds = [r for r in requests_of(control_plane.audit_log, "admin") if r.name == name][1:]
    assert binds == [
        Request("create", "", "pods/binding", "default", name, code) for code in (201, 409)
    ]


async def test_a_user_is_refused_until_rbac_grants_the_right(
    cluster: ApiClient, control_plane: ControlPlane
) -> None:
    async with client_of(control_plane.user("visitor")) as visitor:
        assert (await visitor.get(PODS, code=403))["reason"] == "Forbidden"
        await grant(cluster, user("visitor"), [READ_PODS])
        await until_allowed(visitor)
        await visitor.post(PODS, pod("p1"), code=403)


async def test_a_service_account_asks_with_its_token(
    cluster: ApiClient, control_plane: ControlPlane
) -> None:
    token = await token_of(cluster, "default", "scheduler")
    await grant(cluster, account("default", "scheduler"), [READ_PODS])
    async with client_of(control_plane.bearer("scheduler", token)) as scheduler:
        await until_allowed(scheduler)
    result = set(requests_of(control_plane.audit_log, username("default", "scheduler")))
    assert Request("list", "", "pods", "default", code=200) in result


async def until_allowed(client: ApiClient) -> None:
    """The authorizer learns of new rights by a watch."""
    await client.until(PODS, lambda answer: "items" in answer)


async def test_objects_left_by_a_test_are_removed(cluster: ApiClient) -> None:
    finalized = pod("p2")
    finalized["metadata"]["finalizers"] = ["quadrant.dev/test"]
    elsewhere = pod("p3")
    elsewhere["metadata"]["namespace"] = "team"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    important, disruption_budget = priority_class("high", 7), budget("keep", 1)
    disruption_budget["metadata"]["namespace"] = "default"
    await cluster.create(namespace, important, node("n1"), finalized, elsewhere, disruption_budget)
    await empty(cluster)
    for path in ("/api/v1/nodes", "/api/v1/pods", "/apis/policy/v1/poddisruptionbudgets"):
        assert await cluster.names(path) == []
    assert "team" not in await cluster.names("/api/v1/namespaces")
    classes = await cluster.names("/apis/scheduling.k8s.io/v1/priorityclasses")
    assert classes == ["system-cluster-critical", "system-node-critical"]
    await cluster.create(pod("p2"))


async def test_killed_servers_come_back_with_their_objects(
    cluster: ApiClient, control_plane: ControlPlane
) -> None:
    await cluster.create(pod("p1"))
    control_plane.api_server.kill()
    control_plane.etcd.kill()
    with pytest.raises(aiohttp.ClientConnectorError):
        await cluster.get(PODS)
    control_plane.start()
    assert await cluster.names(PODS) == ["p1"]
