"""The part of an object that its author says, taken out of what he sends.

Clients send back what they read: with a status, a node and versions that the server put there.
"""

from __future__ import annotations

from typing import Any

from coordinator.admission.documents import SERVER_OWNED
from coordinator.objects.document import Document
from coordinator.objects.kinds import Kind

_STATUS = {"Node": ("allocatable", "capacity"), "Queue": ("state",)}
"""What of ``status`` can be written, by kind."""


def authored(
    kind: Kind, sent: dict[str, Any], before: Document | None, live: dict[str, Any] | None
) -> dict[str, Any]:
    """The object to admit. ``live`` is how the object is shown now."""
    metadata = {k: v for k, v in sent["metadata"].items() if k not in SERVER_OWNED}
    obj = {k: v for k, v in sent.items() if k != "status"} | {"metadata": metadata}
    old = {} if before is None else before.object()
    status = _status(kind, sent.get("status"), old.get("status"))
    if status:
        obj["status"] = status
    if kind.kind == "Pod":
        _without_its_node(obj, old, live or {})
    return obj


def _status(kind: Kind, sent: Any, old: Any) -> Any:
    """An author's part of the status; what he leaves out stays, as it does in Kubernetes."""
    parts = _STATUS.get(kind.kind, ())
    if not parts or not isinstance(sent, dict | None):
        return sent if parts else None
    kept = dict(old) if isinstance(old, dict) else {}
    return kept | {part: sent[part] for part in parts if sent and part in sent}


def _without_its_node(obj: dict[str, Any], old: dict[str, Any], live: dict[str, Any]) -> None:
    """The node that the scheduler chose stands in the spec, where it was not written."""
    spec, before, shown = obj.get("spec"), old.get("spec"), live.get("spec")
    if not (isinstance(spec, dict) and isinstance(shown, dict) and isinstance(before, dict)):
        return
    node = spec.get("nodeName")
    if node and node == shown.get("nodeName") and node != before.get("nodeName"):
        obj["spec"] = {k: v for k, v in spec.items() if k != "nodeName"}
