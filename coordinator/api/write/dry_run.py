"""The answer to a dry run: the object as it would be shown, without storing it."""

from __future__ import annotations

from typing import Any

from coordinator.api.change.authored import with_added
from coordinator.intake.documents.document import Document
from shared.units.times import rfc3339


def preview(
    after: Document, before: Document | None, live: dict[str, Any] | None
) -> dict[str, Any]:
    """The object ``after`` a change, with the fields that the server currently adds (``live``)."""
    if live is not None and after is before:
        return live
    obj = after.object()
    shown = live or {}
    metadata = obj["metadata"] | {
        "uid": after.uid,
        "creationTimestamp": rfc3339(after.created),
        "generation": after.generation,
    }
    version = shown.get("metadata", {}).get("resourceVersion")
    if version is not None:
        metadata["resourceVersion"] = version
    obj["metadata"] = metadata
    return obj if before is None else with_added(obj, shown, before.object())
