"""Deletion in two steps: an object is marked, and removed once its last task has left.

An object with tasks (a Pod, a PodGroup, a Job) keeps its name and its document until its last task
has left its node and :func:`purge` is called. One of Kubernetes' own PodGroups leaves its pods as
they are, and on the simulated cluster goes once they have ended (:func:`release_group`). All other
objects are removed at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from coordinator.intake.admission.documents import joined_documents
from coordinator.intake.admission.draft import Draft
from coordinator.intake.admission.kai import child_of
from coordinator.intake.admission.membership import without
from coordinator.intake.admission.native_groups import settle_trees
from coordinator.intake.admission.pod_names import owner_of
from coordinator.intake.admission.queues import DEFAULT
from coordinator.intake.admission.registry import Registry, pack_task, unpack_task
from coordinator.intake.admission.result import Admission, refused
from coordinator.intake.admission.step import OBJECT_KINDS, AdmissionStep
from coordinator.intake.admission.termination import ending
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.group_trees import GroupTrees, drop_tree_node, part_keys
from coordinator.intake.documents.kinds import (
    BY_KIND,
    COMPOSITE_POD_GROUP,
    KAI_POD_GROUP,
    NATIVE_POD_GROUP,
    WITHOUT_EFFECT,
)
from shard_worker.session_model.native_groups import WAITS
from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import DropJob, DropNode, DropQueue, PurgeJob, PutObject
from shared.model.groups import group_key
from shared.model.model import Job
from shared.model.node_devices import none_left
from shared.policy.model import Dialect
from shared.records.specs import (
    GONE_NODE_KEY,
    HYPER_NODE_KEY,
    NUMBERS_KEY,
    PRIORITY_CLASS_KEY,
    encode_node,
    encode_numbers,
)
from shared.slices import at_once

_DOCUMENT_ALONE = WITHOUT_EFFECT | {"HyperNode", "Job", "PodGroup", "Queue"}


def remove(
    registry: Registry, key: Key, now: float, *, keep: bool, protect: bool = False
) -> Admission:
    """Delete one object; with ``keep=False`` only return what the deletion would do. ``protect``:
    one of Kubernetes' own PodGroups is only marked; a watched cluster has done so."""
    if key.kind == COMPOSITE_POD_GROUP.kind and key in registry.documents:
        return _drop_composite(registry, key, now, keep=keep)
    return _remove(registry, key, now, keep=keep, protect=protect)


def _remove(registry: Registry, key: Key, now: float, *, keep: bool, protect: bool) -> Admission:
    name = key.path
    table: dict[str, Any] = {}
    match key.kind:
        case registry.group_kind | NATIVE_POD_GROUP.kind if (
            jid := _created_group(registry, group_key(key.kind, name))
        ) is not None:
            return _drop_group(registry, jid, key, now, keep=keep, protect=protect)
        case "Node" if name in (table := registry.nodes):
            out = _drop_node(registry, name, keep)
        case "HyperNode" if name in (table := registry.hyper_nodes):
            out = Admission(ops=[PutObject(HYPER_NODE_KEY + name, None)], hyper_nodes_gone=[name])
        case "PriorityClass" if name in (table := registry.priority_classes):
            out = Admission(ops=[PutObject(PRIORITY_CLASS_KEY + name, None)])
        case "Queue" | "KaiQueue" if (why := _needed(registry, key)) is not None:
            return refused("Queue", name, why, "Conflict")
        case "Queue" if registry.dialect is not Dialect.KAI and name in (table := registry.queues):
            qid = registry.queues[name].qid
            out = Admission(ops=[DropQueue(qid), numbers_of(registry)], queues_gone=[qid])
        case kind if kind in OBJECT_KINDS and key in registry.documents:
            out = _drop_record(registry, key, keep)
        case "Job" if (jid := registry.batch_jobs.get(name)) is not None:
            return _drop_job(registry, jid, now, keep)
        case kind if kind in _DOCUMENT_ALONE and key in registry.documents:
            out = _drop_document(registry, key, keep)
        case "Pod" if name in registry.pods:
            return _drop_pod(registry, key, now, keep)
        case "Pod" if (owner := owner_of(registry, key.namespace, key.name)) is not None:
            message = f"it belongs to Job {owner[0].key}; delete that one"
            return refused("Pod", name, message, "Invalid")
        case _:
            return refused(key.kind, name, "not found; check kind, namespace and name", "NotFound")
    out.accepted = 1
    if key in registry.documents:
        out.documents_gone.append(key)
    if keep:
        table.pop(name, None)
        _forget_documents(registry, out)
    return out


def _drop_node(registry: Registry, name: str, keep: bool) -> Admission:
    """Delete a node. Its tasks keep running; they count on the node again if one of this name
    returns."""
    node = registry.nodes[name]
    node = replace(node, spec=node.spec + 1)  # as the ledger counts it
    if keep:
        registry.gone_nodes[name] = node
    stored = PutObject(GONE_NODE_KEY + name, encode_node(node))
    things = none_left(node, registry.slots.names)
    return Admission(ops=[DropNode(node.row, things), stored], nodes_gone=[node.row])


def _drop_document(registry: Registry, key: Key, keep: bool) -> Admission:
    """Delete an object that has a document and nothing else: one without effect, or a Job that came
    to its end."""
    if keep:
        registry.count_inert(key, -1)
    return Admission()


def _drop_record(registry: Registry, key: Key, keep: bool) -> Admission:
    """Delete an object that rules read, and the queue that it is here."""
    out = _drop_object(registry, OBJECT_KINDS[key.kind] + key.path, keep)
    if key.kind == "KaiQueue" and registry.dialect is Dialect.KAI and key.path in registry.queues:
        queue = registry.queues.pop(key.path) if keep else registry.queues[key.path]
        out.ops += [DropQueue(queue.qid), numbers_of(registry)]
        out.queues_gone = [queue.qid]
    return out


def _drop_object(registry: Registry, at: str, keep: bool) -> Admission:
    """Delete an object. A budget that an older version stored has only a document to delete."""
    value = registry.objects.pop(at, None) if keep else registry.objects.get(at)
    if value is None:
        return Admission()
    return Admission(ops=[PutObject(at, None)], objects_gone=[value])


def _created_group(registry: Registry, name: str) -> int | None:
    """The jid of a PodGroup; None while it was not created and only its pods exist."""
    jid = registry.groups.get(name, -1)
    job = registry.jobs.get(jid) or registry.leaving.get(jid)
    return None if job is None or job.dangling else jid


def _needed(registry: Registry, key: Key) -> str | None:
    """The reason why a queue cannot be deleted; None where nothing uses it, or there is none."""
    name = key.path
    is_kai = key.kind == "KaiQueue"
    if is_kai and (below := child_of(registry.objects, name)):
        return f"queue {below} is below it; delete that first, or give it another parent"
    if is_kai is not (registry.dialect is Dialect.KAI) or name not in registry.queues:
        return None
    if name == DEFAULT and not is_kai:
        return "the default queue always exists; close it by status.state Closed"
    qid = registry.queues[name].qid
    for child in registry.queues.values():
        if child.parent == qid:
            return f"queue {child.name} is below it; delete that first, or give it another parent"
    for jobs in (registry.jobs, registry.leaving):
        for job in jobs.values():
            if job.queue == name:
                kind = BY_KIND[job.kind].written
                return f"{kind} {job.key} is in it; delete its jobs, wait until they are gone"
    return None


def _drop_job(registry: Registry, jid: int, now: float, keep: bool) -> Admission:
    """Delete a PodGroup or a Job with all its members."""
    job = registry.jobs.get(jid)
    if job is None:
        return _drop_leaving(registry, registry.leaving[jid], now, keep)
    out = Admission(ops=[DropJob(jid)], jobs_gone=[jid], accepted=1)
    documents = registry.documents
    out.documents = [_marked(documents[k], now) for k in keys_of(registry, job) if k in documents]
    if keep:
        registry.leaving[jid] = registry.jobs.pop(jid)
        # Members that were deleted before are now deleted with their job: purged once, with it.
        deleting = [task for task in registry.deleting if unpack_task(task)[0] == jid]
        registry.deleting.difference_update(deleting)
        registry.stop_waiting(job)
        _keep_documents(registry, out)
    return out


def _drop_group(
    registry: Registry, jid: int, key: Key, now: float, *, keep: bool, protect: bool
) -> Admission:
    """Delete a PodGroup with all its members, and the record that rules read of it."""
    if protect and key.kind == NATIVE_POD_GROUP.kind:
        return _mark(registry, key, now, keep)
    job = registry.jobs.get(jid)
    if job is not None and job.kind == COMPOSITE_POD_GROUP.kind:
        return _leave_tree(registry, key, job, now) if keep else Admission(accepted=1)
    out = _drop_job(registry, jid, now, keep)
    if keep:
        drop_tree_node(registry.tree_nodes, registry.tree_children, group_key(key.kind, key.path))
    if key.kind in OBJECT_KINDS:
        removed = _drop_object(registry, OBJECT_KINDS[key.kind] + key.path, keep)
        out.ops += removed.ops
        out.objects_gone += removed.objects_gone
    return out


def _drop_leaving(registry: Registry, job: Job, now: float, keep: bool) -> Admission:
    """Mark a Job or PodGroup as deleted while its tasks are already being removed, so that it
    neither restarts nor stays as a finished Job."""
    return _mark(registry, key_of(registry, job), now, keep)


def _mark(registry: Registry, key: Key, now: float, keep: bool) -> Admission:
    out = Admission(accepted=1)
    document = registry.documents.get(key)
    if document is None or document.deleting is not None:
        out.unchanged = 1
        return out
    out.documents.append(_marked(document, now))
    if keep:
        _keep_documents(registry, out)
    return out


def _drop_pod(registry: Registry, key: Key, now: float, keep: bool) -> Admission:
    """Delete a pod: the whole job where it is a job of its own, else one member of its PodGroup."""
    task = registry.pods[key.path]
    jid, tix = unpack_task(task)
    job = registry.jobs.get(jid)
    if job is None or task in registry.deleting:
        return Admission(accepted=1, unchanged=1)
    if job.kind == "Pod":
        return _drop_job(registry, jid, now, keep)
    draft = Draft(registry)
    job = draft.jobs[jid] = replace(job, spec=job.spec + 1)
    ops = at_once(draft.operations())
    out = Admission(ops=ops, jobs=[job], tasks_gone=[(jid, tix)], accepted=1)
    if (document := registry.documents.get(key)) is not None:
        out.documents.append(_marked(document, now))
    if keep:
        registry.jobs[jid] = job
        registry.deleting.add(task)
        _keep_documents(registry, out)
    return out


def _marked(document: Document, now: float) -> Document:
    return document if document.deleting is not None else replace(document, deleting=now)


# --- trees of Kubernetes' own groups ------------------------------------------------------------


def _drop_composite(registry: Registry, key: Key, now: float, *, keep: bool) -> Admission:
    """Delete a CompositePodGroup. Nothing more of its tree is placed until one of its name is
    there again; what runs goes on."""
    out = Admission(accepted=1)
    if not keep:
        out.documents_gone.append(key)
        return out
    at = group_key(key.kind, key.path)
    node, job = registry.tree_nodes.get(at), registry.jobs.get(registry.groups.get(at, -1))
    drop_tree_node(registry.tree_nodes, registry.tree_children, at)
    is_over = job is not None and job.key == key.path and not _has_pods(job)
    if job is not None and is_over:
        _drop_empty(registry, job, out)
        out.ops.append(numbers_of(registry))
    step = AdmissionStep(Draft(registry), now, observe=False, dialect=registry.dialect)
    if node is not None and (job is None or is_over):
        trees = GroupTrees(registry.tree_nodes, registry.tree_children)
        step.tree_nodes += trees.below(node)
        settle_trees(step)
    elif job is not None:
        missing = f'{WAITS}composite pod group "{key.name}" to appear'
        is_rootless = job.dangling or job.key == key.path
        waits = replace(job, refused=missing, dangling=is_rootless, spec=job.spec + 1)
        step.draft.jobs[job.jid] = waits
    if key not in out.documents_gone:
        out.documents_gone.append(key)
    return _kept(registry, step, out)


def _leave_tree(registry: Registry, key: Key, job: Job, now: float) -> Admission:
    """Remove a PodGroup from the job of its tree."""
    out = Admission(accepted=1, documents_gone=[key])
    at = group_key(key.kind, key.path)
    drop_tree_node(registry.tree_nodes, registry.tree_children, at)
    registry.groups.pop(at, None)
    step = AdmissionStep(Draft(registry), now, observe=False, dialect=registry.dialect)
    if (root := registry.tree_nodes.get(group_key(job.kind, job.key))) is not None:
        step.tree_nodes.append(root)
        settle_trees(step)
    return _kept(registry, step, out)


def _leave_alone(registry: Registry, job: Job, out: Admission) -> None:
    """The groups of a tree whose job ended wait for their root in jobs of their own."""
    if job.kind == COMPOSITE_POD_GROUP.kind:
        step = AdmissionStep(Draft(registry), job.created, observe=False, dialect=registry.dialect)
        nodes = map(registry.tree_nodes.get, part_keys(job))
        step.tree_nodes += [node for node in nodes if node is not None]
        settle_trees(step)
        _kept(registry, step, out)


def _kept(registry: Registry, step: AdmissionStep, out: Admission) -> Admission:
    """Apply what was drafted beside a deletion."""
    out.ops += at_once(step.draft.operations())
    out.jobs += step.draft.jobs.changed.values()
    out.objects += step.draft.objects.changed.values()
    step.draft.keep()
    _forget_documents(registry, out)
    out.documents += joined_documents(step, {}, registry.documents).values()
    _keep_documents(registry, out)
    return out


def _has_pods(job: Job) -> bool:
    return any(name for role in job.roles for name in role.names)


# --- the second step --------------------------------------------------------------------------


def release_group(registry: Registry, key: Key, now: float) -> Admission:
    """Remove one of Kubernetes' own PodGroups that is marked. Pods of it that have ended stay, as
    pods whose group does not exist."""
    document = registry.documents.get(key)
    job = None if document is None else registry.jobs.get(document.jid)
    if document is None or document.deleting is None or job is None:
        return Admission()
    if job.kind == COMPOSITE_POD_GROUP.kind:
        return _leave_tree(registry, key, job, now)
    drop_tree_node(registry.tree_nodes, registry.tree_children, group_key(key.kind, key.path))
    out = Admission()
    if _has_pods(job):
        draft = Draft(registry)
        job = draft.jobs[job.jid] = replace(job, dangling=True, refused="", spec=job.spec + 1)
        out.ops += at_once(draft.operations())
        out.jobs.append(job)
        out.documents_gone.append(key)
        registry.jobs[job.jid] = job
    else:
        _drop_empty(registry, job, out)
        out.ops.append(numbers_of(registry))
    _forget_documents(registry, out)
    return out


def purge(registry: Registry, jids: Sequence[int], pods: Iterable[tuple[int, int]]) -> Admission:
    """Remove deleted jobs, and deleted members of remaining jobs, whose last task has left.

    Jobs and members that are not being deleted (any more) are skipped.
    """
    out = Admission()
    for jid in jids:
        if (job := registry.leaving.get(jid)) is not None:
            _purge_job(registry, job, out)
    members_of: dict[int, list[int]] = {}
    for jid, tix in pods:
        if pack_task(jid, tix) in registry.deleting and jid in registry.jobs:
            members_of.setdefault(jid, []).append(tix)
    draft = Draft(registry)
    for jid, members in members_of.items():
        job = registry.jobs[jid]
        for tix in members:
            key = Key("Pod", job.namespace, job.pod_name(tix))
            registry.pods.pop(key.path, None)
            registry.deleting.discard(pack_task(jid, tix))
            if key in registry.documents:
                out.documents_gone.append(key)
        job = registry.jobs[jid] = without(job, members)
        if job.dangling and not _has_pods(job):
            _drop_empty(registry, job, out)
            _leave_alone(registry, job, out)
        else:
            draft.jobs[jid] = job
    out.ops += at_once(draft.operations())
    out.jobs += draft.jobs.changed.values()
    if out.jobs_purged:
        out.ops.append(numbers_of(registry))
    _forget_documents(registry, out)
    return out


def _drop_empty(registry: Registry, job: Job, out: Admission) -> None:
    """Remove the job of a PodGroup that was never created, once its last pod is gone."""
    registry.leaving[job.jid] = registry.jobs.pop(job.jid)
    registry.stop_waiting(job)
    out.ops.append(DropJob(job.jid))
    out.jobs_gone.append(job.jid)
    _purge_job(registry, job, out)


def _purge_job(registry: Registry, job: Job, out: Admission) -> None:
    del registry.leaving[job.jid]
    if job.kind == COMPOSITE_POD_GROUP.kind:
        for at in part_keys(job):
            if registry.groups.get(at) == job.jid:
                del registry.groups[at]
        record = _drop_object(registry, OBJECT_KINDS[KAI_POD_GROUP.kind] + job.kai_group, True)
        out.ops += record.ops
        out.objects_gone += record.objects_gone
    elif job.is_group:
        registry.groups.pop(group_key(job.kind, job.key), None)
    elif job.kind == "Job":
        registry.batch_jobs.pop(job.key, None)
    for role in job.roles:
        for name in role.names:
            registry.pods.pop(f"{job.namespace}/{name}", None)
    out.ops.append(PurgeJob(job.jid))
    out.jobs_purged.append(job.jid)
    key = key_of(registry, job)
    # The document stays and says what follows: to begin anew under another number, or how it ended
    # (decision 0018).
    if ending(registry.documents.get(key)):
        out.jobs_ended.append(key)
        return
    out.documents_gone += [key for key in keys_of(registry, job) if key in registry.documents]


def numbers_of(registry: Registry) -> PutObject:
    """The next free numbers of jobs, queues and classes. Stored with each removal, so that no later
    job or queue gets the number of a removed one."""
    numbers = registry.next_jid, registry.next_qid, registry.next_cid
    return PutObject(NUMBERS_KEY, encode_numbers(*numbers))


def key_of(registry: Registry, job: Job) -> Key:
    """The key of the document that a job has where it is no pod of its own."""
    return Key(registry.document_kind(job), job.namespace, job.name)


def keys_of(registry: Registry, job: Job) -> Iterator[Key]:
    """The keys of the submitted objects of a job: its Job or PodGroup, and its named pods."""
    if job.kind != "Pod":
        yield key_of(registry, job)
    for role in job.roles:
        for name in role.names:
            if name:
                yield Key("Pod", job.namespace, name)


def _keep_documents(registry: Registry, out: Admission) -> None:
    for document in out.documents:
        registry.documents[document.key] = document


def _forget_documents(registry: Registry, out: Admission) -> None:
    for key in out.documents_gone:
        registry.documents.pop(key, None)
