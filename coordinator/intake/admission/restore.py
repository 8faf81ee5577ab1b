"""Rebuilds the registry from the ledger: wholly at the start, the changed part while a standby
follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coordinator.intake.admission.registry import Registry, pack_task
from coordinator.intake.documents.document import Document, Key, decode_document
from coordinator.intake.documents.group_trees import (
    drop_tree_node,
    put_tree_node,
    tree_key,
    tree_node_of,
)
from shared.ledger.entries.snapshot import Snapshot
from shared.model.groups import COMPOSITE, group_key
from shared.model.model import Job, Node, Queue, TaskClass
from shared.model.topology import HyperNode
from shared.records.specs import (
    GONE_NODE_KEY,
    HYPER_NODE_KEY,
    NUMBERS_KEY,
    PRIORITY_CLASS_KEY,
    SLOTS_KEY,
    decode_class,
    decode_hyper_node,
    decode_node,
    decode_numbers,
    decode_object,
    decode_priority_class,
    decode_queue,
    decode_slots,
    is_object_key,
)
from shared.records.specs_jobs import decode_job


@dataclass(slots=True)
class RestoredContent:
    """The decoded content of a snapshot, or of a part of one, shared by all who restore from it."""

    classes: dict[int, TaskClass] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    """Ordered by row."""
    queues: list[Queue] = field(default_factory=list)
    """Ordered by number."""
    jobs: list[Job] = field(default_factory=list)
    """Ordered by number; deleted jobs that are not purged are included."""
    leaving: set[int] = field(default_factory=set)
    """The numbers of the deleted jobs among them."""
    objects: dict[str, bytes] = field(default_factory=dict)
    documents: list[Document] = field(default_factory=list)
    rows: int = 0
    """One more than the highest known row, rows of deleted nodes included; likewise the next
    two."""
    qids: int = 0
    jids: int = 0


def decode(snapshot: Snapshot) -> RestoredContent:
    """Raises MalformedSpec or ValueError where a record is not in the form that this version
    writes."""
    content = RestoredContent(
        classes={cid: decode_class(spec) for cid, spec in sorted(snapshot.classes.items())},
        nodes=[decode_node(spec) for _, spec in sorted(snapshot.node_specs.items())],
        queues=[decode_queue(spec) for _, spec in sorted(snapshot.queue_specs.items())],
        objects=snapshot.objects,
        documents=[decode_document(key, data) for key, data in snapshot.documents.items()],
        rows=1 + max([*snapshot.nodes.rows, *snapshot.node_specs], default=-1),
        qids=1 + max(snapshot.queue_specs, default=-1),
        jids=1 + max([*snapshot.jobs, *snapshot.job_specs], default=-1),
    )
    jobs = content.jobs
    for jid in sorted(snapshot.job_specs):
        record = snapshot.jobs.get(jid)
        if record is not None:
            jobs.append(decode_job(snapshot.job_specs[jid]))
            if record.gone:
                content.leaving.add(jid)
    return content


def take_up(registry: Registry, content: RestoredContent) -> None:
    """Add the content to the registry. What it replaces must have been removed before."""
    _take_objects(registry, content.objects)
    for cid, cls in content.classes.items():
        registry.classes[cls] = cid
        registry.next_cid = max(registry.next_cid, cid + 1)
        if cls.best_effort:
            registry.best_effort.add(cid)
    registry.nodes.update({node.name: node for node in content.nodes})
    for queue in content.queues:
        registry.queues[queue.name] = queue
        registry.queueless.pop(queue.name, None)
    for document in content.documents:
        if document.key not in registry.documents:
            registry.count_inert(document.key, 1)
        registry.documents[document.key] = document
        if (group := tree_node_of(document)) is not None:
            put_tree_node(registry.tree_nodes, registry.tree_children, group)
            if document.jid >= 0:
                registry.groups[tree_key(group)] = document.jid
    slots = registry.slots.names
    for node in content.nodes:
        registry.offered.update(slots[slot] for slot, _ in node.allocatable)
    for queue in content.queues:
        amounts = (queue.capability or (), queue.deserved, queue.guarantee)
        registry.offered.update(slots[slot] for those in amounts for slot, _ in those)
    for job in content.jobs:
        _take_job(registry, job, is_gone=job.jid in content.leaving)
    registry.next_row = max(registry.next_row, content.rows)
    registry.next_qid = max(registry.next_qid, content.qids)
    # From records and from the stored numbers, whichever is higher: the highest number may have
    # been of a job that was purged.
    registry.next_jid = max(registry.next_jid, content.jids)


def mark_deleting(registry: Registry) -> None:
    """Rebuild the set of members that are being deleted. Runs after all other content is
    restored."""
    registry.deleting.difference_update(list(registry.deleting))
    registry.deleting.update(
        registry.pods[document.key.path]
        for document in registry.documents.values()
        if document.deleting and document.key.kind == "Pod" and document.jid in registry.jobs
    )


def _take_objects(registry: Registry, objects: Mapping[str, bytes]) -> None:
    for key, spec in objects.items():
        if key == SLOTS_KEY:
            registry.slots = decode_slots(spec)
        elif key == NUMBERS_KEY:
            next_jid, next_qid, next_cid = decode_numbers(spec)
            registry.next_cid = max(registry.next_cid, next_cid)
            registry.next_jid = max(registry.next_jid, next_jid)
            registry.next_qid = max(registry.next_qid, next_qid)
        elif key.startswith(GONE_NODE_KEY):
            node = decode_node(spec)
            registry.gone_nodes[node.name] = node
        elif key.startswith(HYPER_NODE_KEY):
            hyper = decode_hyper_node(spec)
            registry.hyper_nodes[hyper.name] = hyper
        elif key.startswith(PRIORITY_CLASS_KEY):
            priority = decode_priority_class(spec)
            registry.priority_classes[priority.name] = priority
        elif is_object_key(key):
            registry.objects[key] = decode_object(key, spec)


def _take_job(registry: Registry, job: Job, *, is_gone: bool) -> None:
    """Restore a job; the names of a deleted one stay taken until it is purged."""
    jid = job.jid
    (registry.leaving if is_gone else registry.jobs)[jid] = job
    if job.is_group:
        registry.groups[group_key(job.kind, job.key)] = jid
    elif job.kind == "Job":
        registry.batch_jobs[job.key] = jid
    for role in job.roles:
        if role.names:
            for i, name in enumerate(role.names):
                if name:
                    registry.pods[f"{job.namespace}/{name}"] = pack_task(jid, role.first + i)
    if not is_gone and job.queue not in registry.queues:
        registry.wait_for_queue(job.queue, jid)


# --- what a follower forgets, to take it up anew ----------------------------------------------


def forget_jobs(registry: Registry, jids: Iterable[int]) -> None:
    """Remove these jobs and free their names."""
    for jid in jids:
        job = registry.jobs.pop(jid, None) or registry.leaving.pop(jid, None)
        if job is None:
            continue
        registry.stop_waiting(job)
        if job.is_group:
            _free(registry.groups, group_key(job.kind, job.key), jid)
        elif job.kind == "Job":
            _free(registry.batch_jobs, job.key, jid)
        for role in job.roles:
            for i, name in enumerate(role.names):
                if name:
                    task = pack_task(jid, role.first + i)
                    _free(registry.pods, f"{job.namespace}/{name}", task)


def _free(names: dict[str, int], name: str, number: int) -> None:
    """Free a name, unless it belongs to another number by now."""
    if names.get(name) == number:
        del names[name]


def forget_nodes(registry: Registry, nodes: Iterable[Node]) -> None:
    for node in nodes:
        registered = registry.nodes.get(node.name)
        if registered is not None and registered.row == node.row:
            del registry.nodes[node.name]


def forget_queues(registry: Registry, queues: Iterable[Queue]) -> None:
    for queue in queues:
        registered = registry.queues.get(queue.name)
        if registered is not None and registered.qid == queue.qid:
            del registry.queues[queue.name]


def forget_classes(registry: Registry, cids: Iterable[int]) -> None:
    forgotten = set(cids)
    for cls in [cls for cls, cid in registry.classes.items() if cid in forgotten]:
        del registry.classes[cls]
    registry.best_effort.difference_update(forgotten)


def forget_objects(registry: Registry, keys: Iterable[str]) -> list[HyperNode]:
    """Remove these objects; returns the hyper nodes among them."""
    hyper_nodes = []
    for key in keys:
        if key.startswith(GONE_NODE_KEY):
            registry.gone_nodes.pop(key.removeprefix(GONE_NODE_KEY), None)
        elif key.startswith(HYPER_NODE_KEY):
            hyper = registry.hyper_nodes.pop(key.removeprefix(HYPER_NODE_KEY), None)
            if hyper is not None:
                hyper_nodes.append(hyper)
        elif key.startswith(PRIORITY_CLASS_KEY):
            registry.priority_classes.pop(key.removeprefix(PRIORITY_CLASS_KEY), None)
        else:
            registry.objects.pop(key, None)
    return hyper_nodes


def forget_documents(registry: Registry, keys: Iterable[str]) -> None:
    for key in map(Key.parse, keys):
        document = registry.documents.pop(key, None)
        if document is not None:
            registry.count_inert(key, -1)
            at = group_key(key.kind, key.path)
            if at in registry.tree_nodes:
                drop_tree_node(registry.tree_nodes, registry.tree_children, at)
                if _is_of_tree(registry, document.jid):
                    _free(registry.groups, at, document.jid)


def _is_of_tree(registry: Registry, jid: int) -> bool:
    job = registry.jobs.get(jid)
    return job is None or job.kind == COMPOSITE
