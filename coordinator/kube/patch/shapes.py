"""How the parts of an object are merged: which lists have keys, what is one value.

Where nothing is said an object is merged field by field and a list is one value. The rules are
those of Kubernetes' types; Volcano's say little, so that for them only what has names is listed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


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
        found = tuple(item.get(key, self.defaults.get(key)) for key in self.keys)
        return found if all(isinstance(part, str | int) for part in found) else None

    def keyed(self, value: Any) -> bool:
        """Is this a list whose items all have an identity of their own? Else it is one value."""
        if not self.keys or not isinstance(value, list):
            return False
        found = [self.identity(item) for item in value]
        return None not in found and len(set(found)) == len(found)

    def distinct(self, value: Any) -> bool:
        """Is this a list of plain values, each there once?"""
        if not self.values or not isinstance(value, list):
            return False
        plain = all(isinstance(item, str) for item in value)
        return plain and len(set(value)) == len(value)


PLAIN = Shape()
_SET = Shape(values=True)
_WHOLE = Shape(whole=True)


def _by(*keys: str, **fields: Shape) -> Shape:
    return Shape(fields, keys)


_METADATA = Shape({"finalizers": _SET, "ownerReferences": Shape(keys=("uid",), whole=True)})
_RESOURCES = Shape({"claims": _by("name")})
_SOURCE = Shape(
    dict.fromkeys(("configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef"), _WHOLE)
)
_CONTAINERS = _by(
    "name",
    env=_by("name", valueFrom=_SOURCE),
    ports=Shape(keys=("containerPort", "protocol"), defaults={"protocol": "TCP"}),
    resources=_RESOURCES,
    volumeDevices=_by("devicePath"),
    volumeMounts=_by("mountPath"),
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_POD_SPEC = Shape(
    {
        "affinity": Shape({"nodeAffinity": Shape({_REQUIRED: _WHOLE})}),
        "containers": _CONTAINERS,
        "ephemeralContainers": _by("name"),
        "hostAliases": _by("ip"),
        "imagePullSecrets": _by("name"),
        "initContainers": _CONTAINERS,
        "nodeSelector": _WHOLE,
        "resourceClaims": _by("name"),
        "schedulingGates": _by("name"),
        "volumes": _by("name"),
    }
)
_TEMPLATE = Shape({"metadata": _METADATA, "spec": _POD_SPEC})
_NODE = Shape({"metadata": _METADATA, "spec": Shape({"podCIDRs": _SET})})
_CSI_NODE = Shape({"metadata": _METADATA, "spec": Shape({"drivers": _by("name")})})
_JOB_SPEC = Shape({"tasks": _by("name", template=_TEMPLATE)})
_OTHER = Shape({"metadata": _METADATA})
_KINDS = {
    "Pod": _TEMPLATE,
    "Node": _NODE,
    "CSINode": _CSI_NODE,
    "Job": Shape({"metadata": _METADATA, "spec": _JOB_SPEC}),
}


def shape_of(kind: str) -> Shape:
    return _KINDS.get(kind, _OTHER)
