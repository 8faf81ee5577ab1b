"""How the parts of an object are merged: which lists have keys, what is one value.

By default an object is merged field by field and a list is one value. The schemas say which lists
have keys, after Kubernetes' types; Volcano's say little, so that of theirs only tasks have one.
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
    """``keys``: a list of objects that these fields tell apart; the first alone does in a strategic
    merge. ``values``: a list of plain values, each at most once. ``whole``: an object that is one
    value for server-side apply."""

    fields: Mapping[str, Shape] = field(default_factory=lambda: MappingProxyType({}))
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Of keys that an item may leave out."""
    values: bool = False
    whole: bool = False

    def of(self, name: str) -> Shape:
        return self.fields.get(name, PLAIN)

    def identity(self, item: Any) -> tuple[Hashable, ...] | None:
        """What tells an item apart; None where it lacks a key."""
        if not isinstance(item, dict):
            return None
        identity = tuple(item.get(key, self.defaults.get(key)) for key in self.keys)
        return identity if all(isinstance(part, str | int) for part in identity) else None

    def keyed(self, value: Any) -> bool:
        """Is this a list whose items all have an identity of their own? Else it is one value."""
        if not self.keys or not isinstance(value, list):
            return False
        identities = [self.identity(item) for item in value]
        return None not in identities and len(set(identities)) == len(identities)

    def distinct(self, value: Any) -> bool:
        """Is this a list of plain values, each there once?"""
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
"""(schema, field) -> what Kubernetes' types say of it beyond what the schemas here show."""


@cache
def shape_of(kind: str) -> Shape:
    """The shape of a kind's objects, or of a part that has a schema of its own."""
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
    (held,) = schema.get("allOf", [schema.get("items", {})])
    part = held.get("$ref", "").rpartition("/")[2]
    return Shape(shape_of(part).fields if part else {}, keys)
