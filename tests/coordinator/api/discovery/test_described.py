"""The schemas that clients are told, held to what the server shows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from coordinator.api.discovery.discovery import discovery_routes
from coordinator.api.discovery.openapi import document
from coordinator.api.read.query import FIELDS
from coordinator.intake.documents.kinds import BY_KIND, KINDS, SHARD
from shared.schemas.catalogue import SCHEMAS
from tests.builders.objects import composite_group, native_group, workload
from tests.coordinator.api.client import Client
from tests.end_to_end.one_process.harness import Running, submit

ENVELOPE = {"apiVersion", "kind", "metadata", "spec", "status"}


def test_every_kind_has_a_schema_and_fields_to_select_by() -> None:
    for kind in KINDS:
        assert set(SCHEMAS[kind.kind]["properties"]) >= ENVELOPE - {"spec", "status"}
        assert "metadata.name" in FIELDS[kind.kind]
    assert set(FIELDS) == set(BY_KIND)


@pytest.mark.parametrize("version", sorted({kind.api_version for kind in KINDS}))
def test_a_document_names_only_what_it_has(version: str) -> None:
    kinds = tuple(kind for kind in KINDS if kind.api_version == version)
    stored_document = document(version, kinds)
    there = set(stored_document["components"]["schemas"])
    named = set(re.findall(r"'#/components/schemas/(\w+)'", str(stored_document)))
    assert named <= there
    assert there <= named | {kind.kind for kind in kinds} | {f"{k.kind}List" for k in kinds} | {
        "DeleteOptions"
    }
    names = [
        operation["operationId"]
        for path in stored_document["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict)
    ]
    assert len(names) == len(set(names))


def test_kubectl_finds_out_that_apply_is_checked_here() -> None:
    """It looks for ``fieldValidation`` in the PATCH operation of the kind."""
    for kind in KINDS:
        paths = document(kind.api_version, (kind,))["paths"]
        patches = [path["patch"] for path in paths.values() if "patch" in path]
        assert len(patches) == ("patch" in kind.verbs)
        for patch in patches:
            assert "fieldValidation" in {p["name"] for p in patch["parameters"]}
            assert patch["x-kubernetes-group-version-kind"]["kind"] == kind.written
            assert "application/apply-patch+yaml" in patch["requestBody"]["content"]


async def test_every_field_of_a_shown_object_is_in_its_schema(
    client: Client, service: Running
) -> None:
    await submit(service, native_group("native", 1), composite_group("tree", 1), workload())
    for kind in KINDS:
        root = "apis" if kind.group else "api"
        items = (await client.get(f"/{root}/{kind.api_version}/{kind.plural}"))["items"]
        assert items, kind
        for value in items:
            assert sorted(unknown(value, SCHEMAS[kind.kind], kind.kind)) == []


def unknown(value: Any, schema: dict[str, Any], at: str) -> list[str]:
    """Paths in a value that its schema does not have, or has otherwise."""
    if "allOf" in schema:
        (schema,) = schema["allOf"]
    if "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    match value, schema:
        case dict(), {"properties": properties}:
            results = [f"{at}.{name}" for name in value.keys() - properties.keys()]
            for name in value.keys() & properties.keys():
                results += unknown(value[name], properties[name], f"{at}.{name}")
            return results
        case list(), {"items": items}:
            return [path for part in value for path in unknown(part, items, f"{at}[]")]
        case str(), {"enum": options}:
            return [] if value in options else [f"{at}: {value}"]
        case _, {"type": kind}:
            types: dict[str, type | tuple[type, ...]] = {
                "string": str, "integer": int, "number": (int, float), "boolean": bool,
                "object": dict, "array": list,
            }  # fmt: skip
            empty = value is None and schema.get("nullable", False)
            return (
                [] if empty or isinstance(value, types[kind]) else [f"{at}: {type(value).__name__}"]
            )
        case _:
            return []


def test_discovery_says_it_once() -> None:
    paths = [route.path for route in discovery_routes()]
    assert len(paths) == len(set(paths))
    assert f"/apis/{SHARD.api_version}" in paths
