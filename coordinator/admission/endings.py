"""Jobs that are ended by their policies: stopped in two steps like deleted ones, but their document
stays, and says what comes when the last task has left: another incarnation, or the end.

A Job that came to its end that way is a document without a job. Everything is in the document's
``state``: ``next`` while tasks are stopped, ``phase`` and ``ended`` after it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coordinator.admission.gangs import add_roles, begin_again
from coordinator.admission.registry import Draft, Registry
from coordinator.admission.result import Admission
from coordinator.admission.step import Step
from coordinator.objects.document import Document, Key
from shared.errors import InvalidInput, Refusal
from shared.ledger.protocol import DropJob
from shared.manifests import JobManifest, parse


def note(registry: Registry, key: Key, jid: int, state: dict[str, Any]) -> Admission:
    """Remember what became of a Job, if it is still this incarnation and nobody deleted it."""
    document = registry.documents.get(key)
    if document is None or document.jid != jid or document.deleting is not None:
        return Admission()
    known = registry.documents[key] = replace(document, state=state)
    return Admission(documents=[known])


def end(registry: Registry, key: Key, jid: int, state: dict[str, Any]) -> Admission:
    """The same, and stop all its tasks."""
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
    """Whether a Job's document stays when the job is purged."""
    return document is not None and document.deleting is None and "next" in (document.state or {})


def rest(registry: Registry, key: Key, now: float | None) -> Document:
    """The last task has left, and nothing more comes: the document alone stays."""
    document = registry.documents[key]
    state = dict(document.state or {})
    since = state.pop("since", 0.0)
    state |= {"phase": state.pop("next"), "ended": since if now is None else max(now, since)}
    known = registry.documents[key] = replace(document, jid=-1, state=state)
    return known


def again(draft: Draft, document: Document) -> Document:
    """The Job anew as another incarnation, as old as before. Its tasks are all to be placed."""
    manifest = manifest_of(document)
    step = Step(draft, document.created, False)
    begin_again(step, manifest)
    jid = draft.batch_jobs.get(document.key.path)
    assert jid is not None
    return replace(
        document, jid=jid, state={"retryCount": (document.state or {}).get("retryCount", 0)}
    )


def grow(draft: Draft, document: Document, roles: list[str]) -> Admission:
    """Create roles that waited for others. Refused where their pods' names are taken meanwhile."""
    job = draft.jobs.get(document.jid)
    if job is None:
        return Admission()
    step = Step(draft, document.created, False)
    try:
        add_roles(step, manifest_of(document), job, roles)
    except InvalidInput as error:
        return Admission(refused=[error.refusal("Job", document.key.path)])
    return Admission(documents=[document])


def manifest_of(document: Document) -> JobManifest:
    """Of a Job that was accepted."""
    manifest = parse(document.object())
    assert not isinstance(manifest, Refusal), manifest
    assert isinstance(manifest, JobManifest)
    return manifest
