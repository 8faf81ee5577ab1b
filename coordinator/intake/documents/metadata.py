"""``metadata`` as the API serves it, and conditions and owner references."""

from __future__ import annotations

from typing import Any

from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import Kind
from shared.model.named_devices import ASSIGNED_DEVICES
from shared.units.times import rfc3339

SHARD = "quadrant.dev/shard"
QUEUE = "quadrant.dev/queue"
REASON = "quadrant.dev/reason"
OWN = (SHARD, QUEUE, REASON, ASSIGNED_DEVICES)
"""Annotations that only the server writes; ignored in submitted objects, and not shown."""

Json = dict[str, Any]


def written(document: Document, version: int) -> Json:
    """The object as submitted, with the server-owned fields replaced by the server's values."""
    value = document.object()
    key = document.key
    metadata: Json = value["metadata"]
    metadata["name"] = key.name
    if key.namespace:
        metadata["namespace"] = key.namespace
    metadata["uid"] = document.uid
    metadata["resourceVersion"] = str(version)
    metadata["generation"] = document.generation
    metadata["creationTimestamp"] = rfc3339(document.created)
    metadata.pop("selfLink", None)
    metadata.pop("deletionTimestamp", None)
    metadata.pop("deletionGracePeriodSeconds", None)
    if document.deleting is not None:
        metadata["deletionTimestamp"] = rfc3339(document.deleting)
        metadata["deletionGracePeriodSeconds"] = 0
    annotations = metadata.get("annotations")
    if annotations:
        for name in OWN:
            annotations.pop(name, None)
    return value


def annotate(metadata: Json, values: dict[str, str]) -> None:
    """Add the server's own annotations; empty values are left out."""
    annotations = {name: value for name, value in values.items() if value}
    if annotations:
        metadata["annotations"] = (metadata.get("annotations") or {}) | annotations


def virtual(kind: Kind, key: Key, version: int, *, created: float, uid: str) -> Json:
    """The common fields of an object that nobody submitted."""
    metadata: Json = {"name": key.name}
    if key.namespace:
        metadata["namespace"] = key.namespace
    metadata |= {"uid": uid, "resourceVersion": str(version), "creationTimestamp": rfc3339(created)}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def owned_by(document: Document, kind: Kind) -> list[Json]:
    """ownerReferences of an object that exists because of another one."""
    return [
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": document.key.name,
            "uid": document.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def condition(type_: str, status: bool, *, reason: str, message: str, at: float | None) -> Json:
    """A status condition. ``at``: last transition, None where unknown. Empty texts are left out."""
    value: Json = {
        "type": type_,
        "status": "True" if status else "False",
        "lastTransitionTime": None if at is None else rfc3339(at),
    }
    return value | {n: v for n, v in (("reason", reason), ("message", message)) if v}
