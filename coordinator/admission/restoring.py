"""Intake's names from what the ledger holds: all of it at the start, what moved while following."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coordinator.admission.registry import Registry, pack_task
from coordinator.objects.document import Document, Key, decode_document
from shared.ledger.protocol import Snapshot
from shared.model import HyperNode, Job, Node, Queue, TaskClass
from shared.specs import (
    GONE_NODE_KEY,
    HYPER_NODE_KEY,
    NUMBERS_KEY,
    PRIORITY_CLASS_KEY,
    SLOTS_KEY,
    decode_class,
    decode_hyper_node,
    decode_job,
    decode_node,
    decode_numbers,
    decode_object,
    decode_priority_class,
    decode_queue,
    decode_slots,
    is_object_key,
)


@dataclass(slots=True)
class Found:
    """What a snapshot holds, or a part of one, decoded once for everybody."""

    classes: dict[int, TaskClass] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    """In the order of their rows."""
    queues: list[Queue] = field(default_factory=list)
    """In the order of their numbers."""
    jobs: list[Job] = field(default_factory=list)
    """In the order of their numbers, those that are deleted and not purged too."""
    leaving: set[int] = field(default_factory=set)
    """Numbers of those."""
    objects: dict[str, bytes] = field(default_factory=dict)
    documents: list[Document] = field(default_factory=list)
    rows: int = 0
    """One more than the highest row that is known, of gone nodes too; so with the next two."""
    qids: int = 0
    jids: int = 0


def decode(snapshot: Snapshot) -> Found:
    """Raises MalformedSpec or ValueError where a record is not what we would have written."""
    found = Found(
        classes={cid: decode_class(spec) for cid, spec in sorted(snapshot.classes.items())},
        nodes=[decode_node(spec) for _, spec in sorted(snapshot.node_specs.items())],
        queues=[decode_queue(spec) for _, spec in sorted(snapshot.queue_specs.items())],
        objects=snapshot.objects,
        documents=[decode_document(key, data) for key, data in snapshot.documents.items()],
        rows=1 + max([*snapshot.nodes.rows, *snapshot.node_specs], default=-1),
        qids=1 + max(snapshot.queue_specs, default=-1),
        jids=1 + max([*snapshot.jobs, *snapshot.job_specs], default=-1),
    )
    jobs = found.jobs
    for jid in sorted(snapshot.job_specs):
        record = snapshot.jobs.get(jid)
        if record is not None:
            jobs.append(decode_job(snapshot.job_specs[jid]))
            if record.gone:
                found.leaving.add(jid)
    return found


def take_up(registry: Registry, found: Found) -> None:
    """Add what was found. What it replaces must have been forgotten before."""
    _take_objects(registry, found.objects)
    for cid, cls in found.classes.items():
        registry.classes[cls] = cid
        if cls.best_effort:
            registry.best_effort.add(cid)
    registry.nodes.update((node.name, node) for node in found.nodes)
    for queue in found.queues:
        registry.queues[queue.name] = queue
        registry.queueless.pop(queue.name, None)
    registry.documents.update((document.key, document) for document in found.documents)
    for job in found.jobs:
        _take_job(registry, job, gone=job.jid in found.leaving)
    registry.next_row = max(registry.next_row, found.rows)
    registry.next_qid = max(registry.next_qid, found.qids)
    registry.next_jid = max(registry.next_jid, found.jids)


def mark_deleting(registry: Registry) -> None:
    """Know again which members of jobs that stay are on their way out. After everything else."""
    registry.deleting = {
        registry.pods[document.key.path]
        for document in registry.documents.values()
        if document.deleting and document.key.kind == "Pod" and document.jid in registry.jobs
    }


def _take_objects(registry: Registry, objects: Mapping[str, bytes]) -> None:
    for key, spec in objects.items():
        if key == SLOTS_KEY:
            registry.slots = decode_slots(spec)
        elif key == NUMBERS_KEY:
            next_jid, next_qid = decode_numbers(spec)
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


def _take_job(registry: Registry, job: Job, *, gone: bool) -> None:
    """The names of a job that is gone and not purged stay taken."""
    jid = job.jid
    (registry.leaving if gone else registry.jobs)[jid] = job
    if job.kind == "PodGroup":
        registry.groups[job.key] = jid
    elif job.kind == "Job":
        registry.batch_jobs[job.key] = jid
    for role in job.roles:
        if role.names:
            for i, name in enumerate(role.names):
                if name:
                    registry.pods[f"{job.namespace}/{name}"] = pack_task(jid, role.first + i)
    if not gone and job.queue not in registry.queues:
        registry.queueless.setdefault(job.queue, set()).add(jid)


# --- what a follower forgets, to take it up anew ----------------------------------------------


def forget_jobs(registry: Registry, jids: Iterable[int]) -> None:
    """Nothing of these jobs is known any more, none of their names is taken."""
    for jid in jids:
        job = registry.jobs.pop(jid, None) or registry.leaving.pop(jid, None)
        if job is None:
            continue
        registry.stop_waiting(job)
        if job.kind == "PodGroup":
            _free(registry.groups, job.key, jid)
        elif job.kind == "Job":
            _free(registry.batch_jobs, job.key, jid)
        for role in job.roles:
            for i, name in enumerate(role.names):
                if name:
                    task = pack_task(jid, role.first + i)
                    _free(registry.pods, f"{job.namespace}/{name}", task)


def _free(names: dict[str, int], name: str, number: int) -> None:
    """Another may have the name by now."""
    if names.get(name) == number:
        del names[name]


def forget_nodes(registry: Registry, nodes: Iterable[Node]) -> None:
    for node in nodes:
        known = registry.nodes.get(node.name)
        if known is not None and known.row == node.row:
            del registry.nodes[node.name]


def forget_queues(registry: Registry, queues: Iterable[Queue]) -> None:
    for queue in queues:
        known = registry.queues.get(queue.name)
        if known is not None and known.qid == queue.qid:
            del registry.queues[queue.name]


def forget_objects(registry: Registry, keys: Iterable[str]) -> list[HyperNode]:
    """Returns the hyper nodes among them."""
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
    for key in keys:
        registry.documents.pop(Key.parse(key), None)
