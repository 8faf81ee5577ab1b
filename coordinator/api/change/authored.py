"""Separates the author's part of an object from the fields that the server adds.

Clients send back what they read, including status, node, labels and versions that the server set.
Fields shown in addition to what the author wrote are *added*: they are removed if they come back
unchanged, so that they are never attributed to an author.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coordinator.intake.admission.documents import SERVER_OWNED
from coordinator.intake.documents.document import Document
from coordinator.intake.documents.kinds import Kind
from coordinator.intake.documents.metadata import OWN

Json = dict[str, Any]

_STATUS = {
    "KaiPodGroup": ("schedulingConditions",),
    "Node": ("allocatable", "capacity"),
    "PersistentVolume": ("phase",),
    "PersistentVolumeClaim": ("phase",),
    "PodDisruptionBudget": ("disruptionsAllowed",),
    "Queue": ("state",),
    "ResourceClaim": ("allocation", "reservedFor"),
    "ResourceQuota": ("hard", "used"),
}
"""Fields of ``status`` that can be written, by kind: read here, but not computed here."""
_PARTS = (("metadata", "labels"), ("metadata", "annotations"), ("spec",), ("status",))
"""Parts of an object to which the server adds fields."""


def authored(kind: Kind, sent: Json, before: Document | None, live: Json | None) -> Json:
    """The object to admit. ``live``: the object as currently shown."""
    metadata = {k: v for k, v in sent["metadata"].items() if k not in SERVER_OWNED}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and not annotations.keys().isdisjoint(OWN):
        metadata["annotations"] = {k: v for k, v in annotations.items() if k not in OWN}
        if not metadata["annotations"]:
            del metadata["annotations"]
    obj = {k: v for k, v in sent.items() if k != "status"} | {"metadata": metadata}
    old = {} if before is None else before.object()
    status = _status(kind, sent.get("status"), old.get("status"))
    if status:
        obj["status"] = status
    return obj if live is None else _without_added(obj, old, live)


def _status(kind: Kind, sent: Any, old: Any) -> Any:
    """The author's part of the status; parts that are not sent stay, as in Kubernetes."""
    parts = _STATUS.get(kind.kind, ())
    if not parts or not isinstance(sent, dict | None):
        return sent if parts else None
    status = dict(old) if isinstance(old, dict) else {}
    return status | {part: sent[part] for part in parts if sent and part in sent}


def _without_added(obj: Json, old: Json, live: Json) -> Json:
    for path, extra in added(live, old):
        part = _at(obj, path)
        remaining = {k: v for k, v in part.items() if k not in extra or v != extra[k]}
        if len(remaining) != len(part):
            *outer, name = path
            holder = {k: v for k, v in _at(obj, tuple(outer)).items() if k != name}
            part_of_holder = (
                {name: remaining} if remaining or name in _at(old, tuple(outer)) else {}
            )
            obj = _with(obj, tuple(outer), holder | part_of_holder)
    return obj


def added(live: Json, written: Json) -> Iterator[tuple[tuple[str, ...], Json]]:
    """The fields that are shown but not written, by the path of their parent object."""
    for path in _PARTS:
        shown, authored = _at(live, path), _at(written, path)
        extra = {k: v for k, v in shown.items() if k not in authored}
        if extra:
            yield path, extra


def with_added(obj: Json, live: Json, written: Json) -> Json:
    """The object as it would be shown: with the fields that ``live`` adds to ``written``."""
    for path, extra in added(live, written):
        obj = _with(obj, path, extra | _at(obj, path))
    return obj


def _at(obj: Json, path: tuple[str, ...]) -> Json:
    """The object at a path; {} if there is none."""
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _with(obj: Json, path: tuple[str, ...], value: Json) -> Json:
    """Replace the object at a path; () is the root."""
    if not path:
        return value
    name, *rest = path
    return obj | {name: _with(_at(obj, (name,)), tuple(rest), value)}
