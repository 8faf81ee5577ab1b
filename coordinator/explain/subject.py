"""Subject of a question: a job, or one member of it, by the name of an object."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.coordinator import Coordinator
from coordinator.errors import not_found
from coordinator.intake.admission.registry import Registry, unpack_task
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import (
    BY_KIND,
    COMPOSITE_POD_GROUP,
    NATIVE_POD_GROUP,
    unread,
)
from shared.model.groups import group_key

_UID = 37
"""Length of the suffix that a Job's PodGroup name has: a dash and a uid."""


@dataclass(frozen=True, slots=True)
class ExplainTarget:
    """The subject of an explanation or a trace: a job, or one member of it."""

    jid: int
    tix: int = -1


def find_subject(
    core: Coordinator, registry: Registry, kind: str, *, namespace: str, name: str
) -> ExplainTarget:
    """``kind``: Pod, Job, or PodGroup of either dialect or of Kubernetes. Raises Problem (404)."""
    key = f"{namespace}/{name}"
    subject: ExplainTarget | None = None
    match kind:
        case "Pod":
            packed = registry.pods.get(key)
            subject = _member(registry, namespace, name) if packed is None else None
            if packed is not None:
                subject = ExplainTarget(*unpack_task(packed))
        case registry.group_kind | NATIVE_POD_GROUP.kind | COMPOSITE_POD_GROUP.kind if (
            at := group_key(kind, key)
        ) in registry.groups:
            subject = ExplainTarget(registry.groups[at])
        case "Job" if key in registry.batch_jobs:
            subject = ExplainTarget(registry.batch_jobs[key])
        case "PodGroup" if (job := f"{namespace}/{name[:-_UID]}") in registry.batch_jobs:
            subject = ExplainTarget(registry.batch_jobs[job])
        case _:
            pass
    if subject is None or core.order.known(subject.jid) is None:
        api_kind = BY_KIND[kind]
        problem = not_found(api_kind.plural, name, group=api_kind.group)
        why = unread(kind, registry.dialect)
        if why is None and kind == "Job":
            why = "it has ended, and has no pods and no turns"
        if why is not None and Key(kind, namespace, name) in registry.documents:
            problem.message = f'{api_kind.resource} "{name}": {why}'
        try:
            raise problem
        finally:
            del problem  # else its traceback and this frame hold each other
    return subject


def _member(registry: Registry, namespace: str, name: str) -> ExplainTarget | None:
    """The pod of a Job with the name ``{job}-{role}-{index}``."""
    head, _, index = name.rpartition("-")
    if not index.isdecimal():
        return None
    for at, letter in enumerate(head):
        jid = registry.batch_jobs.get(f"{namespace}/{head[:at]}") if letter == "-" else None
        job = None if jid is None else registry.jobs.get(jid)  # none: it is on its way out
        for role in job.roles if job is not None else ():
            i = int(index) - role.start
            if role.name == head[at + 1 :] and 0 <= i < role.count and not role.names:
                assert jid is not None
                return ExplainTarget(jid, role.first + i)
    return None
