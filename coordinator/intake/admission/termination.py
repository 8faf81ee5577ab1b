"""Job lifecycle policies: Jobs that end or restart are stopped in two steps like deleted ones, but
their document stays and records what follows when the last task has left: a restart, or the end.

A Job that ended this way is a document without a job. Everything is in the document's ``state``:
``next`` while tasks are being stopped, ``phase`` and ``ended`` afterwards.
"""

from __future__ import annotations

from typing import Any

from coordinator.intake.admission.draft import Draft
from coordinator.intake.admission.gangs import add_roles, begin_again
from coordinator.intake.admission.registry import Registry
from coordinator.intake.admission.result import Admission
from coordinator.intake.admission.step import AdmissionStep
from coordinator.intake.documents.document import Document, Key
from shared.codec.packed import replace
from shared.errors import InvalidInput, Refusal
from shared.ledger.entries.intake_batch import DropJob
from shared.manifests.parse import parse_stored
from shared.manifests.volcano.objects import JobManifest


def note(registry: Registry, key: Key, jid: int, state: dict[str, Any]) -> Admission:
    """Store the state of a Job, if this incarnation still exists and is not being deleted."""
    document = registry.documents.get(key)
    # The controller judged another incarnation, or the user has deleted it since: the user's wish
    # comes first.
    if document is None or document.jid != jid or document.deleting is not None:
        return Admission()
    updated = registry.documents[key] = replace(document, state=state)
    return Admission(documents=[updated])


def end(registry: Registry, key: Key, jid: int, state: dict[str, Any]) -> Admission:
    """Store the state of a Job and stop all its tasks."""
    job = registry.jobs.get(jid)
    if job is None:
        return Admission()
    out = note(registry, key, jid, state)
    if out.documents:
        out.ops.append(DropJob(jid))
        out.jobs_gone.append(jid)
        registry.leaving[jid] = registry.jobs.pop(jid)
        registry.stop_waiting(job)
    return out


def ending(document: Document | None) -> bool:
    """Whether a Job's document stays when its job is purged."""
    return document is not None and document.deleting is None and "next" in (document.state or {})


def following(draft: Draft, document: Document, now: float | None) -> Document:
    """The document after the last task has left: the Job restarted as a new incarnation, or
    finished."""
    if (document.state or {}).get("next") == "Pending":
        try:
            return _again(draft, document)
        except InvalidInput as error:  # of a role that was not there before; others have its names
            failure = {"next": "Failed", "message": str(error)}
            document = replace(document, state=(document.state or {}) | failure)
    state = dict(document.state or {})
    since = state.pop("since", 0.0)
    state |= {"phase": state.pop("next"), "ended": since if now is None else max(now, since)}
    return replace(document, jid=-1, state=state)


def _again(draft: Draft, document: Document) -> Document:
    """Restart a Job with its age kept and all tasks pending. Raises InvalidInput where the names of
    its pods are taken."""
    # As of its first creation: a Job that restarts keeps its age, and with it its place in the
    # queue.
    begin_again(AdmissionStep(draft, document.created, False), manifest_of(document))
    jid = draft.batch_jobs.get(document.key.path)
    assert jid is not None
    retries = (document.state or {}).get("retryCount", 0)
    return replace(document, jid=jid, state={"retryCount": retries})


def grow(draft: Draft, document: Document, roles: list[str]) -> Admission:
    """Create roles that depended on others. Refused where their pods' names were taken
    meanwhile."""
    job = draft.jobs.get(document.jid)
    if job is None:
        return Admission()
    step = AdmissionStep(draft, document.created, False)
    try:
        add_roles(step, manifest_of(document), job, roles)
    except InvalidInput as error:
        return Admission(refused=[error.refusal("Job", document.key.path)])
    return Admission(documents=[document])


def manifest_of(document: Document) -> JobManifest:
    """The manifest of an accepted Job."""
    manifest = parse_stored(document.object())
    assert not isinstance(manifest, Refusal), manifest
    assert isinstance(manifest, JobManifest)
    return manifest
