"""Takes away what a test left in the API server, so that the next one finds a new cluster."""

from __future__ import annotations

from collections import defaultdict

from laboratory.local_kubernetes.client import ApiClient, ServedResource
from tests.coordinator.api.client import Json

SYSTEM_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
KEPT = frozenset(
    {
        "APIService",
        "CustomResourceDefinition",
        "FlowSchema",
        "IPAddress",
        "Namespace",
        "PriorityLevelConfiguration",
        "ServiceCIDR",
    }
)
"""Kinds that stay: the server's own, and definitions, which take a while to be served."""

OURS = "quadrant-"
"""Prefix of Quadrant's objects among the server's own: Leases that name the last test's ledger."""

_AT_ONCE = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


async def empty(client: ApiClient) -> None:
    """Delete everything but what the API server makes for itself at its start."""
    for resource in await client.resources():
        if {"list", "deletecollection"} <= resource.verbs and resource.kind not in KEPT:
            await _empty(client, resource)
    for namespace in (await client.get("/api/v1/namespaces"))["items"]:
        if namespace["metadata"]["name"] not in SYSTEM_NAMESPACES:
            await _end(client, namespace)


async def _empty(client: ApiClient, resource: ServedResource) -> None:
    # 429: the server still opens the storage of a new definition. 404: one that just went.
    listed = await client.until(resource.path(), lambda answer: answer.get("code") != 429)
    by_namespace: dict[str, list[Json]] = defaultdict(list)
    for item in listed.get("items") or []:
        by_namespace[item["metadata"].get("namespace", "")].append(item["metadata"])
    for namespace, all_of_it in by_namespace.items():
        ours = [metadata for metadata in all_of_it if not _is_the_servers(metadata)]
        for metadata in ours:
            if metadata.get("finalizers"):  # nobody is here to do what it waits for
                path = resource.path(namespace, metadata["name"])
                await client.patch(path, {"metadata": {"finalizers": None}})
        if len(ours) == len(all_of_it):
            await client.delete(resource.path(namespace), options=_AT_ONCE)
            continue
        for metadata in ours:
            path = resource.path(namespace, metadata["name"])
            await client.delete(path, options=_AT_ONCE)


def _is_the_servers(metadata: Json) -> bool:
    name = metadata["name"]
    return (
        "kubernetes.io/bootstrapping" in metadata.get("labels", {})
        or (metadata.get("namespace") == "kube-system" and not name.startswith(OURS))
        or name.startswith("system-")
        or (metadata.get("namespace"), name) == ("default", "kubernetes")
    )


async def _end(client: ApiClient, namespace: Json) -> None:
    """Delete a namespace and say, as its controller would, that nothing is left in it."""
    path = f"/api/v1/namespaces/{namespace['metadata']['name']}"
    await client.delete(path)
    body = {**namespace, "spec": {"finalizers": []}}
    body["metadata"] = {"name": namespace["metadata"]["name"]}
    await client.put(f"{path}/finalize", body)
