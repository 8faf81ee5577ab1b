"""The parts of an object that can be read where its reader gave up, and why it did."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from coordinator.cluster.kubernetes.api.objects import PodObject, head_of

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LegibleObject:
    """Texts are "" where the object has none, or something else in their place."""

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    leaving: bool
    spec: Json


@dataclass(frozen=True, slots=True)
class UnreadObject:
    """An object in quarantine: nothing of it is taken, but a pod's room on its node."""

    uid: str
    error: Exception


def legible_parts(raw: msgspec.Raw | PodObject) -> LegibleObject:
    """Read an object of which nothing is sure. Never raises for what the object says."""
    if isinstance(raw, PodObject):
        return _legible_pod(raw)
    item = _decoded(raw)
    if not item:  # the whole is nested too deep, or has a number or a text that is none
        with contextlib.suppress(Exception):
            head = head_of(raw).metadata
            metadata = {"namespace": head.namespace, "name": head.name, "uid": head.uid}
            return _legible(metadata, {}, {})
    return legible_item(item)


def legible_item(item: Json) -> LegibleObject:
    """The same of an object as intake gets it."""
    return _legible(*(_part(item, name) for name in ("metadata", "status", "spec")))


def _legible_pod(pod: PodObject) -> LegibleObject:
    meta = pod.metadata
    return _legible(
        {
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "deletionTimestamp": meta.deletion_timestamp,
        },
        {"phase": pod.status.phase},
        _decoded(pod.spec),
    )


def _legible(metadata: Json, status: Json, spec: Json) -> LegibleObject:
    return LegibleObject(
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        node=_text(spec, "nodeName"),
        phase=_text(status, "phase"),
        leaving=bool(_text(metadata, "deletionTimestamp")),
        spec=spec,
    )


def _decoded(raw: msgspec.Raw) -> Json:
    try:
        value = msgspec.json.decode(raw)
    except Exception:  # whatever it is, it is told by the error that the reader raised
        return {}
    return value if isinstance(value, dict) else {}


def _part(item: Mapping[str, Any], name: str) -> Json:
    value = item.get(name)
    return value if isinstance(value, dict) else {}


def _text(part: Mapping[str, Any], name: str) -> str:
    value = part.get(name)
    return value if isinstance(value, str) else ""
