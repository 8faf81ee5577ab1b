"""The queue of an object: where it would go, and where what has its name is now.

Cheap looks at objects as they were sent, before anything judged them: what makes no sense counts
for the default queue, and is refused later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from coordinator.intake.documents.kinds import SUBMITTED
from shared.manifests.fields.metadata import GROUP_NAME, QUEUE_NAME
from shared.model.model import Job, PriorityClass

DEFAULT = "default"
SAMPLE = 8
"""Objects of a list that are looked at to tell whose it is."""

OTHERS = ""
"""The lane of requests that put nothing into a queue, or into one that does not exist: whoever
invents names of queues gets no more room by it."""

Item = Mapping[str, Any]
_NOTHING: Item = {}
_NAMESPACE = "default"
_TASK_BITS = 32


class QueueNames(Protocol):
    """What is known of objects; :class:`coordinator.intake.admission.registry.Registry` is one."""

    @property
    def jobs(self) -> Mapping[int, Job]: ...

    @property
    def groups(self) -> Mapping[str, int]: ...

    @property
    def batch_jobs(self) -> Mapping[str, int]: ...

    @property
    def pods(self) -> Mapping[str, int]: ...

    @property
    def queues(self) -> Mapping[str, object]: ...

    @property
    def priority_classes(self) -> Mapping[str, PriorityClass]: ...


def queue_of(item: Item, names: QueueNames) -> str:
    """The queue that a Pod, PodGroup or Job goes to as it was sent; for other kinds the default."""
    if item.get("kind") != "Pod":
        return _text(_part(item, "spec").get("queue")) or DEFAULT
    metadata = _part(item, "metadata")
    annotations = _part(metadata, "annotations")
    group = annotations.get(GROUP_NAME)
    if group:
        job = group_job(f"{metadata.get('namespace') or _NAMESPACE}/{group}", names)
        if job is not None:
            return job.queue
    return _text(annotations.get(QUEUE_NAME)) or DEFAULT


def present_queue(kind: object, key: str, names: QueueNames) -> str | None:
    """The queue of the job that has this ``namespace/name`` by now; None where there is none."""
    match kind:
        case "Pod":
            task = names.pods.get(key)
            jid = -1 if task is None else task >> _TASK_BITS
        case "PodGroup":
            job = group_job(key, names)
            return None if job is None else job.queue
        case "Job":
            jid = names.batch_jobs.get(key, -1)
        case _:
            jid = -1
    job = names.jobs.get(jid)
    return None if job is None else job.queue


def group_job(key: str, names: QueueNames) -> Job | None:
    """The job of the PodGroup ``namespace/name``; None where there is none, or where pods wait for
    one that nobody has created: those say nothing about the queue it will be in."""
    job = names.jobs.get(names.groups.get(key, -1))
    return None if job is None or job.dangling else job


def replicas_of(item: Item) -> int:
    """Tasks that a Job asks for, as it was sent."""
    tasks = _part(item, "spec").get("tasks")
    counts = (
        [t.get("replicas", 1) for t in tasks if isinstance(t, Mapping)]
        if isinstance(tasks, list)
        else []
    )
    return sum(count for count in counts if isinstance(count, int))


def lane_of(items: Sequence[object], names: QueueNames) -> str:
    """Whose request it is: the queue of the first of its objects that goes to one."""
    for item in items[:SAMPLE]:
        if isinstance(item, Mapping) and is_submitted(item):
            return lane(queue_of(item, names), names)
    return OTHERS


def lane(queue: str, names: QueueNames) -> str:
    return queue if queue in names.queues else OTHERS


def is_submitted(item: Item) -> bool:
    """Whether it is a Pod, PodGroup or Job."""
    return _text(item.get("kind")) in SUBMITTED


def key_of(item: Item) -> str:
    """``namespace/name``."""
    metadata = _part(item, "metadata")
    return f"{metadata.get('namespace') or _NAMESPACE}/{metadata.get('name')}"


def namespace_of(item: Item) -> str:
    """Of a Pod, PodGroup or Job as it was sent."""
    return str(_part(item, "metadata").get("namespace") or _NAMESPACE)


def name_of(item: Item) -> str:
    """As answers name it: ``namespace/name`` where it goes to a queue, else the name alone."""
    if is_submitted(item):
        return key_of(item)
    return f"{_part(item, 'metadata').get('name')}"


def group_of(item: Item) -> str:
    """``namespace/name`` of a Pod's PodGroup; "" where it is in none."""
    metadata = _part(item, "metadata")
    group = _part(metadata, "annotations").get(GROUP_NAME)
    return f"{metadata.get('namespace') or _NAMESPACE}/{group}" if group else ""


def _part(value: Item, name: str) -> Item:
    part = value.get(name)
    return part if isinstance(part, Mapping) else _NOTHING


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
