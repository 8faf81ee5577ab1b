"""What kubectl is told of lists (OpenAPI) is what the server does with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.kube.patch.shapes import Shape, shape_of
from coordinator.kube.schemas import SCHEMAS
from coordinator.objects.kinds import KINDS

WRITTEN = sorted(kind.kind for kind in KINDS if "patch" in kind.verbs)


def told(schema: dict[str, Any], path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Path and key of every list whose items have one."""
    for part in schema.get("allOf", []):
        yield from told(part, path, depth)
    if "$ref" in schema and depth < 20:
        yield from told(SCHEMAS[schema["$ref"].rpartition("/")[2]], path, depth + 1)
    for name, inner in schema.get("properties", {}).items():
        if name != "status":
            yield from told(inner, f"{path}.{name}", depth + 1)
    if schema.get("type") == "array":
        if key := schema.get("x-kubernetes-patch-merge-key"):
            assert schema["x-kubernetes-list-map-keys"][0] == key
            yield path, key
        yield from told(schema["items"], path, depth + 1)


def done(shape: Shape, path: str = "") -> Iterator[tuple[str, str]]:
    if shape.keys:
        yield path, shape.keys[0]
    for name, inner in shape.fields.items():
        yield from done(inner, f"{path}.{name}")


@pytest.mark.parametrize("kind", WRITTEN)
def test_lists_with_keys(kind: str) -> None:
    unseen = {(".metadata.ownerReferences", "uid")}
    either = {(".spec.taints", "key")}  # see strategic._key_of
    hidden = {
        (path, key)
        for path, key in done(shape_of(kind))
        if path.endswith((".resources.claims", ".template.metadata.ownerReferences"))
    }
    assert set(told(SCHEMAS[kind])) - either == set(done(shape_of(kind))) - unseen - hidden
