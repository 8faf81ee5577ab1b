"""What an object would look like: the answer to a dry run, of which nothing is kept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from coordinator.objects.document import Document


def preview(
    after: Document, before: Document | None, live: dict[str, Any] | None
) -> dict[str, Any]:
    """The object ``after`` a change, beside what the server says of it now (``live``)."""
    if live is not None and after is before:
        return live
    obj = after.object()
    said = live or {}
    metadata = obj["metadata"] | {
        "uid": after.uid,
        "creationTimestamp": _time(after.created),
        "generation": after.generation,
    }
    version = said.get("metadata", {}).get("resourceVersion")
    if version is not None:
        metadata["resourceVersion"] = version
    obj["metadata"] = metadata
    own = {} if before is None else before.object()
    for part in ("spec", "status"):
        added = _added(said.get(part), own.get(part))
        if added:
            obj[part] = added | (obj.get(part) or {})
    return obj


def _added(shown: Any, written: Any) -> dict[str, Any]:
    """What the server adds to a part of an object."""
    if not isinstance(shown, dict):
        return {}
    own = written if isinstance(written, dict) else {}
    return {name: value for name, value in shown.items() if name not in own}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
