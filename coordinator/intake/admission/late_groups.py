"""Pods whose group was named after they were admitted move from a job of one to the group's job.

The job of one ends and the pod joins the group in one store call, so that nobody sees it in both or
in neither. The job's number and record are gone then: nothing may have placed it, and no turn that
could place it may be open, which :class:`coordinator.jobs.late_groups.LateGroups` makes sure of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coordinator.intake.admission.deletion import numbers_of
from coordinator.intake.admission.draft import Draft
from coordinator.intake.admission.native_groups import settle_trees
from coordinator.intake.admission.pods import admit_member, join_members
from coordinator.intake.admission.registry import Registry
from coordinator.intake.admission.result import Admission
from coordinator.intake.admission.step import AdmissionStep
from coordinator.intake.documents.document import Document, Key
from shard_worker.session_model.native_groups import JOINS_TREE
from shared.codec.packed import replace
from shared.errors import InvalidInput, Refusal
from shared.ledger.entries.intake_batch import DropJob, PurgeJob
from shared.manifests.fields.metadata import LATE_GROUP, late_group
from shared.manifests.kubernetes.objects import PodManifest
from shared.manifests.parse import Manifest
from shared.model.groups import group_key
from shared.model.model import Job, Pairs


def move_to_groups(
    step: AdmissionStep,
    registry: Registry,
    jids: Iterable[int],
    parse: Callable[[object], Manifest | Refusal],
    out: Admission,
) -> list[Document]:
    """Move the pods of these jobs to the groups that they name, or to the trees that their groups
    are in by now; return their documents. A pod whose group is being deleted is left out: its name
    is taken until the group is gone."""
    pods: list[tuple[Document, PodManifest]] = []
    for jid in jids:
        job = registry.jobs.get(jid)
        if job is not None and job.refused == JOINS_TREE:
            pods += _join_tree(step, registry, job, parse, out)
            continue
        document = None if job is None else _document(registry, job)
        pod = None if document is None else parse(document.object())
        if job is None or document is None or not isinstance(pod, PodManifest) or not pod.group:
            continue
        if pod.template.node_name:
            keep_apart(step.draft, [jid], LATE_GROUP)
            continue
        try:
            admit_member(step, document.key.path, pod)
        except InvalidInput:
            continue
        _end(registry, job, out)
        pods.append((document, pod))
    join_members(step)
    if out.jobs_purged:
        out.ops.append(numbers_of(registry))
    return [replace(document, jid=step.jids[id(pod)]) for document, pod in pods]


def _join_tree(
    step: AdmissionStep,
    registry: Registry,
    job: Job,
    parse: Callable[[object], Manifest | Refusal],
    out: Admission,
) -> list[tuple[Document, PodManifest]]:
    """End the job of a PodGroup alone; its pods are members of its tree's job from now on."""
    names = [name for role in job.roles for name in role.names if name]
    keys = [Key("Pod", job.namespace, name) for name in names]
    if any(registry.pods[key.path] in registry.deleting for key in keys):
        return []
    documents = [registry.documents[key] for key in keys if key in registry.documents]
    pods = [
        pod for document in documents if isinstance(pod := parse(document.object()), PodManifest)
    ]
    own_key = group_key(job.kind, job.key)
    node = registry.tree_nodes.get(own_key)
    if node is None or len(pods) < len(keys):
        return []
    _end(registry, job, out)
    del registry.groups[own_key]
    step.tree_nodes.append(node)
    settle_trees(step)
    for document, pod in zip(documents, pods, strict=True):
        admit_member(step, document.key.path, pod)
    return [*zip(documents, pods, strict=True)]


def keep_apart(draft: Draft, jids: Iterable[int], mark: str) -> None:
    """Leave these pods jobs of their own: as far as they still have it, take this mark away."""
    for jid in jids:
        job = draft.jobs.get(jid)
        if job is not None and mark in dict(job.annotations):
            draft.jobs[jid] = replace(
                job,
                annotations=_without(job.annotations, mark),
                roles=tuple(
                    replace(role, annotations=_without(role.annotations, mark))
                    for role in job.roles
                ),
                spec=job.spec + 1,
            )


def _without(annotations: Pairs, mark: str) -> Pairs:
    return tuple(pair for pair in annotations if pair[0] != mark)


def _document(registry: Registry, job: Job) -> Document | None:
    """The document of a job of one pod that is to move."""
    key = Key("Pod", job.namespace, job.name)
    return registry.documents.get(key) if late_group(job.annotations) else None


def _end(registry: Registry, job: Job, out: Admission) -> None:
    """Remove a job none of which was placed at once, without the documents of its pods."""
    del registry.jobs[job.jid]
    for role in job.roles:
        for name in role.names:
            registry.pods.pop(f"{job.namespace}/{name}", None)
    registry.stop_waiting(job)
    out.ops += [DropJob(job.jid), PurgeJob(job.jid)]
    out.jobs_gone.append(job.jid)
    out.jobs_purged.append(job.jid)
