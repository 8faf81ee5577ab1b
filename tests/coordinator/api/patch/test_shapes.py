"""Lists are patched as the OpenAPI document announces them to kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.api.patch.merge_keys import Shape, shape_of
from coordinator.intake.documents.kinds import KINDS
from shared.schemas.catalogue import SCHEMAS

WRITTEN = sorted(kind.kind for kind in KINDS if "patch" in kind.verbs)


def list_keys(schema: dict[str, Any], path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Path and key of every list whose items have one."""
    for part in schema.get("allOf", []):
        yield from list_keys(part, path, depth)
    if "$ref" in schema and depth < 20:
        yield from list_keys(SCHEMAS[schema["$ref"].rpartition("/")[2]], path, depth + 1)
    for name, inner in schema.get("properties", {}).items():
        if name != "status":
            yield from list_keys(inner, f"{path}.{name}", depth + 1)
    if schema.get("type") == "array":
        if key := schema.get("x-kubernetes-patch-merge-key"):
            assert schema["x-kubernetes-list-map-keys"][0] == key
            yield path, key
        yield from list_keys(schema["items"], path, depth + 1)


def sets(schema: dict[str, Any], path: str = "", depth: int = 0) -> Iterator[str]:
    """Path of every list whose values are united."""
    for part in schema.get("allOf", []):
        yield from sets(part, path, depth)
    if "$ref" in schema and depth < 20:
        yield from sets(SCHEMAS[schema["$ref"].rpartition("/")[2]], path, depth + 1)
    for name, inner in schema.get("properties", {}).items():
        yield from sets(inner, f"{path}.{name}", depth + 1)
    if schema.get("x-kubernetes-list-type") == "set":
        assert schema["x-kubernetes-patch-strategy"] == "merge"
        yield path
    if schema.get("type") == "array":
        yield from sets(schema["items"], path, depth + 1)


def united(shape: Shape, path: str = "") -> Iterator[str]:
    if shape.values:
        yield path
    for name, inner in shape.fields.items():
        yield from united(inner, f"{path}.{name}")


def done(shape: Shape, path: str = "") -> Iterator[tuple[str, str]]:
    if shape.keys:
        yield path, shape.keys[0]
    for name, inner in shape.fields.items():
        yield from done(inner, f"{path}.{name}")


@pytest.mark.parametrize("kind", WRITTEN)
def test_lists_with_keys(kind: str) -> None:
    hidden = {
        (path, key)
        for path, key in done(shape_of(kind))
        if path.endswith(".template.metadata.ownerReferences")
    }
    assert set(list_keys(SCHEMAS[kind])) == set(done(shape_of(kind))) - hidden


@pytest.mark.parametrize("kind", WRITTEN)
def test_lists_of_values(kind: str) -> None:
    """kubectl says which value of a set is to go only where it knows that it is one."""
    hidden = {path for path in united(shape_of(kind)) if ".template.metadata." in path}
    assert set(sets(SCHEMAS[kind])) == set(united(shape_of(kind))) - hidden
