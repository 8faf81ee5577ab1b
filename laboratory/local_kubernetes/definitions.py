"""Volcano's and KAI's kinds as definitions of our own making, for clusters without either.

Groups, versions, scopes and sub resources are those of the originals; the fields are those of our
schemas. A Volcano PodGroup has no status sub resource, every other kind here has one.
"""

from __future__ import annotations

from coordinator.api.discovery.definitions import definition
from coordinator.intake.documents.kinds import (
    HYPER_NODE,
    JOB,
    KAI_POD_GROUP,
    KAI_QUEUE,
    KAI_TOPOLOGY,
    POD_GROUP,
    QUEUE,
)
from laboratory.local_kubernetes.client import ApiClient, Json

_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}
_KEPT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _definition(group: str, version: str, kind: str, fields: Json) -> Json:
    """CustomResourceDefinition of a kind with a namespace and a status. ``fields``: schemas beside
    apiVersion, kind and metadata."""
    properties = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": {"type": "object"}} | fields
    plural = f"{kind.lower()}s"
    names = {
        "plural": plural,
        "singular": kind.lower(),
        "kind": kind,
        "listKind": f"{kind}List",
    }
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [served | {"subresources": {"status": {}}}],
        },
    }


BIND_REQUEST = _definition(
    "scheduling.run.ai",
    "v1alpha2",
    "BindRequest",
    {
        "spec": {
            "type": "object",
            "required": ["podName", "selectedNode"],
            "properties": {
                "podName": _TEXT,
                "selectedNode": _TEXT,
                "receivedResourceType": {"type": "string", "enum": ["Regular", "Fraction"]},
                "receivedGPU": {
                    "type": "object",
                    "properties": {"count": _NUMBER, "portion": _TEXT},
                },
                "selectedGPUGroups": {"type": "array", "items": _TEXT},
                "resourceClaimAllocations": {"type": "array", "items": _KEPT},
                "extendedResourceClaimAllocation": _KEPT,
                "predictedNUMAZones": {"type": "array", "items": _KEPT},
                "backoffLimit": _NUMBER,
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string", "enum": ["Pending", "Succeeded", "Failed"]},
                "failedAttempts": _NUMBER,
                "reason": _TEXT,
            },
        },
    },
)

VOLCANO = (
    definition(QUEUE, status=True),
    definition(POD_GROUP, status=False),
    definition(HYPER_NODE, status=True),
    definition(JOB, status=True),
)
KAI = (
    definition(KAI_QUEUE, status=True),
    definition(KAI_POD_GROUP, status=True),
    definition(KAI_TOPOLOGY, status=True),
    BIND_REQUEST,
)


async def install(client: ApiClient, *definitions: Json) -> None:
    """Create what is missing and wait until objects of each can be written."""
    resource = await client.resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    present = set(await client.names(resource.path()))
    for crd in definitions:
        if crd["metadata"]["name"] not in present:
            await client.create(crd)
    for crd in definitions:
        await client.until(resource.path(name=crd["metadata"]["name"]), established)
        await _served(client, crd)
    await client.resources()


async def remove(client: ApiClient, *definitions: Json) -> None:
    """Delete definitions with all objects of them, and wait until they are served no more."""
    resource = await client.resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    present = set(await client.names(resource.path()))
    for crd in definitions:
        name = crd["metadata"]["name"]
        if name in present:
            await _served(client, crd)  # deleted before that, it may be there for minutes
            await client.delete(resource.path(name=name))
            await client.until(resource.path(name=name), lambda answer: answer.get("code") == 404)
    await client.resources()


async def _served(client: ApiClient, crd: Json) -> None:
    """Wait until the objects of a definition can be listed."""
    spec = crd["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    await client.until(path, lambda answer: "items" in answer)


def established(answer: Json) -> bool:
    conditions = answer.get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
