"""Merge rules for the parts of an object: lists with keys, and atomic values.

By default objects merge field by field and a list is atomic. The schemas name the lists with keys,
following Kubernetes' types; of Volcano's only tasks have a key.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from shared.schemas.catalogue import SCHEMAS
from shared.schemas.notation import Schema


@dataclass(frozen=True, slots=True)
class Shape:
    """How a value merges. ``keys``: fields that identify the items of a list; a strategic merge
    uses only the first. ``values``: a list of unique plain values. ``whole``: an object that is
    atomic in server-side apply."""

    fields: Mapping[str, Shape] = field(default_factory=lambda: MappingProxyType({}))
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Defaults of keys that an item may omit."""
    values: bool = False
    whole: bool = False

    def of(self, name: str) -> Shape:
        return self.fields.get(name, PLAIN)

    def identity(self, item: Any) -> tuple[Hashable, ...] | None:
        """The item's key values; None if it lacks a key."""
        if not isinstance(item, dict):
            return None
        identity = tuple(item.get(key, self.defaults.get(key)) for key in self.keys)
        return identity if all(isinstance(part, str | int) for part in identity) else None

    def keyed(self, value: Any) -> bool:
        """Whether this is a list whose items have distinct keys. If not, it is atomic."""
        if not self.keys or not isinstance(value, list):
            return False
        identities = [self.identity(item) for item in value]
        return None not in identities and len(set(identities)) == len(identities)

    def distinct(self, value: Any) -> bool:
        """Whether this is a list of distinct plain values."""
        if not self.values or not isinstance(value, list):
            return False
        plain = all(isinstance(item, str) for item in value)
        return plain and len(set(value)) == len(value)


PLAIN = Shape()
_WHOLE = Shape(whole=True)
_METADATA = "ObjectMeta"
_SOURCES = ("configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef")
_BEYOND_SCHEMAS = {
    (_METADATA, "ownerReferences"): Shape(keys=("uid",), whole=True),
    ("Container", "env"): Shape({"valueFrom": Shape(dict.fromkeys(_SOURCES, _WHOLE))}, ("name",)),
    ("Container", "ports"): Shape(keys=("containerPort", "protocol"), defaults={"protocol": "TCP"}),
    ("NodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"): _WHOLE,
    ("PodSpec", "nodeSelector"): _WHOLE,
}
"""(schema, field) -> the merge rule in Kubernetes' types, where the schemas here do not have it."""


@cache
def shape_of(kind: str) -> Shape:
    """The merge rule of a kind, or of a part with its own schema."""
    fields = {
        name: _BEYOND_SCHEMAS.get((kind, name)) or _shape_of_field(value)
        for name, value in SCHEMAS[kind]["properties"].items()
        if name != "status"
    }
    if kind == "PodTemplate":
        fields["metadata"] = shape_of(_METADATA)
    return Shape({name: shape for name, shape in fields.items() if shape != PLAIN})


def _shape_of_field(schema: Schema) -> Shape:
    if schema.get("x-kubernetes-list-type") == "set":
        return Shape(values=True)
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    if schema.get("type") == "array" and not keys:
        return PLAIN
    (items,) = schema.get("allOf", [schema.get("items", {})])
    part = items.get("$ref", "").rpartition("/")[2]
    return Shape(shape_of(part).fields if part else {}, keys)
