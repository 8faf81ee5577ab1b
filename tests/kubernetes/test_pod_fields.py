"""The table of a Pod's fields against the real server's own documents: what a newer server has, and
the table does not, is a field that no test has tried on a pod of somebody else."""

from __future__ import annotations

from typing import Any

import pytest

from laboratory.local_kubernetes.client import ApiClient
from tests.shared.manifests.pod_fields import CONTAINER, METADATA, SPEC, STATUS, VOLUMES

CORE = "io.k8s.api.core.v1."
READ: dict[str, frozenset[str]] = {
    "PodSpec": frozenset(
        (
            "containers",
            "initContainers",
            "nodeName",
            "overhead",
            "resources",
            "schedulerName",
            "volumes",
        )
    ),
    "Container": frozenset(("name", "resources")),
    "Volume": frozenset(("name",)),
    "PodStatus": frozenset(
        (
            "allocatedResources",
            "nodeAllocatableResourceClaimStatuses",
            "phase",
            "resources",
        )
    ),
}
"""Fields that say what a pod uses and where: they have tests of their own."""
TABLES = {"PodSpec": SPEC, "Container": CONTAINER, "Volume": VOLUMES, "PodStatus": STATUS}
IDENTITY = {"name", "namespace", "uid", "creationTimestamp", "resourceVersion"}


async def _schemas(cluster: ApiClient) -> dict[str, dict[str, Any]]:
    document = await cluster.get("/openapi/v3/api/v1")
    schemas: dict[str, dict[str, Any]] = document["components"]["schemas"]
    return schemas


@pytest.mark.parametrize("kind", TABLES)
async def test_the_table_has_each_field_that_the_server_has(cluster: ApiClient, kind: str) -> None:
    fields = (await _schemas(cluster))[f"{CORE}{kind}"]["properties"].keys()
    assert fields - TABLES[kind].keys() - READ[kind] == set()


async def test_the_table_has_each_field_of_metadata(cluster: ApiClient) -> None:
    schemas = await _schemas(cluster)
    fields = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"].keys()
    assert fields - METADATA.keys() - IDENTITY == set()
