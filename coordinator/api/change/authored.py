"""The part of an object that its author says, taken out of what he sends; and back.

Clients send back what they read: with a status, a node, labels and versions that the server put
there. What is shown beside an author's words is *added*: it is taken out where it comes back
unchanged, so that it never becomes somebody's word.
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
    "Node": ("allocatable", "capacity"),
    "PersistentVolume": ("phase",),
    "PersistentVolumeClaim": ("phase",),
    "PodDisruptionBudget": ("disruptionsAllowed",),
    "Queue": ("state",),
    "ResourceClaim": ("allocation", "reservedFor"),
    "ResourceQuota": ("hard", "used"),
}
"""What of ``status`` can be written, by kind: what is looked at and nobody here finds out."""
_PARTS = (("metadata", "labels"), ("metadata", "annotations"), ("spec",), ("status",))
"""Where the server adds fields."""


def authored(kind: Kind, sent: Json, before: Document | None, live: Json | None) -> Json:
    """The object to admit. ``live`` is how the object is shown now."""
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
    """An author's part of the status; what he leaves out stays, as it does in Kubernetes."""
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
    """The fields that are shown and that nobody wrote, by the path of the object they are in."""
    for path in _PARTS:
        shown, authored = _at(live, path), _at(written, path)
        extra = {k: v for k, v in shown.items() if k not in authored}
        if extra:
            yield path, extra


def with_added(obj: Json, live: Json, written: Json) -> Json:
    """The object as it would be shown: with what is added to the one that was ``written``."""
    for path, extra in added(live, written):
        obj = _with(obj, path, extra | _at(obj, path))
    return obj


def _at(obj: Json, path: tuple[str, ...]) -> Json:
    """The object at a path, {} where there is none."""
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _with(obj: Json, path: tuple[str, ...], value: Json) -> Json:
    """With another object at a path; () is the whole."""
    if not path:
        return value
    name, *rest = path
    return obj | {name: _with(_at(obj, (name,)), tuple(rest), value)}
