"""Objects of DRA as servers before Kubernetes 1.34 show them, in the form that is read here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]

SERVED = "resource.k8s.io/v1"
NESTED, SAME = f"{SERVED}beta1", f"{SERVED}beta2"
"""v1beta1 has a device's fields below ``basic``, and those of a request beside its name; v1beta2
has the form of v1."""


def as_served(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object in the version that is read here; any other object as it is."""
    version = obj.get("apiVersion")
    if version not in (NESTED, SAME):
        return obj
    spec = obj.get("spec")
    changed = {**obj, "apiVersion": SERVED}
    if version == SAME or not isinstance(spec, dict):
        return changed
    if obj.get("kind") == "ResourceClaimTemplate" and isinstance(spec.get("spec"), dict):
        return changed | {"spec": {**spec, "spec": _claim(spec["spec"])}}
    if obj.get("kind") == "ResourceClaim":
        return changed | {"spec": _claim(spec)}
    if obj.get("kind") == "ResourceSlice":
        return changed | {"spec": _each(spec, "devices", _device)}
    return changed


def _claim(spec: Json) -> Json:
    devices = spec.get("devices")
    if not isinstance(devices, dict):
        return spec
    return {**spec, "devices": _each(devices, "requests", _request)}


def _each(fields: Json, name: str, change: Callable[[Json], Json]) -> Json:
    """The fields with each object of a list changed."""
    listed = fields.get(name)
    if not isinstance(listed, list):
        return fields
    return {**fields, name: [change(one) if isinstance(one, dict) else one for one in listed]}


def _request(written: Json) -> Json:
    if "firstAvailable" in written:
        return written
    exactly = {name: value for name, value in written.items() if name != "name"}
    return {"name": written.get("name"), "exactly": exactly}


def _device(written: Json) -> Json:
    basic = written.get("basic")
    if not isinstance(basic, dict):
        return written
    return {name: value for name, value in written.items() if name != "basic"} | basic
