"""Explanation and story of a Job that one of its policies ended: its pods are gone, and its
document says how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coordinator.explain.job_story import Entry, entry, job_event, submitted
from coordinator.intake.admission.registry import Registry
from coordinator.intake.admission.termination import manifest_of
from coordinator.intake.documents.document import Document, Key
from coordinator.objects.timeline import Happening
from shared.manifests.volcano.objects import JobManifest

NEXT = "delete it, and apply it again, to run it anew"


def ended_job(registry: Registry, kind: str, namespace: str, name: str) -> Document | None:
    """The document of a Job that ended by a policy; None for every other object."""
    if kind != "Job":
        return None
    document = registry.documents.get(Key(kind, namespace, name))
    has_ended = document is not None and document.jid < 0 and "ended" in (document.state or {})
    return document if has_ended else None


def explain_ended(document: Document, events: Iterable[Happening], now: float) -> dict[str, Any]:
    """The answer without what only pods have. ``events``: those of its policies."""
    state, manifest = document.state or {}, manifest_of(document)
    counts = {name.capitalize(): state.get(name, 0) for name in ("succeeded", "failed")}
    message = f"it has ended: {state['message']}" if "message" in state else "it has ended"
    return {
        "of": {"kind": "Job", "namespace": document.key.namespace, "name": document.key.name},
        "queue": manifest.queue,
        "phase": state["phase"],
        "ageSeconds": round(max(0.0, now - document.created), 1),
        "tasks": {"total": _tasks(manifest), "minimum": manifest.minimum, **counts},
        "position": None,
        "places": [],
        "story": _story(document, manifest, events),
        "reason": None,
        "message": message,
        "next": NEXT,
    }


def _tasks(manifest: JobManifest) -> int:
    return sum(role.count for role in manifest.roles)


def _story(document: Document, manifest: JobManifest, events: Iterable[Happening]) -> list[Entry]:
    """Submission, what the policies did as far as this leader saw it, and the end."""
    state = document.state or {}
    entries = [submitted(document.created, _tasks(manifest), manifest.minimum, manifest.queue)]
    entries += map(job_event, events)
    if entries[-1]["reason"] != state["phase"]:
        entries.append(entry(state["ended"], state["phase"], state.get("message", "its end")))
    return entries
