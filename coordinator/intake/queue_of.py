"""The queue of an object: the one it is submitted to, and the one of the stored object of its name.

Cheap lookups in unvalidated objects: malformed ones count for the default queue, and are refused
later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from coordinator.intake.documents.group_queue import names_queue
from coordinator.intake.documents.kinds import (
    ATTACHED,
    KAI_POD_GROUP,
    NATIVE_POD_GROUP,
    SUBMITTED,
)
from shared.manifests.fields.metadata import GROUP_NAME, QUEUE_NAME
from shared.manifests.kai.groups import GROUP_NAME as KAI_GROUP
from shared.manifests.kai.groups import QUEUE_LABEL as KAI_QUEUE
from shared.manifests.kubernetes.groups import PARENT
from shared.model.groups import COMPOSITE, NATIVE_KINDS, group_key
from shared.model.model import Job, PriorityClass
from shared.policy.model import Dialect

DEFAULT = "default"
SAMPLE = 8
"""Objects of a list that are examined to find its queue."""

OTHERS = ""
"""The lane of requests without a queue, or with one that does not exist, so that inventing queue
names yields no extra room."""

Item = Mapping[str, Any]
_NOTHING: Item = {}
_NAMESPACE = "default"
_TASK_BITS = 32
_IN_PARTS = (*(kind.kind for kind in ATTACHED), COMPOSITE, "PodGroup", "Job", "Pod")
"""Kinds that a tenant writes; each refers only to those before it, and to an admin's."""


class QueueNames(Protocol):
    """The lookups needed here; :class:`coordinator.intake.admission.registry.Registry` has them."""

    @property
    def dialect(self) -> Dialect: ...

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
    """The queue that a Pod, PodGroup or Job is submitted to; for other kinds the default queue."""
    if is_native(item):
        if (above := _parent_job(item, names)) is not None:
            return above.queue  # its pods go to the queue of the tree
        if queue := _named(item, names):
            return queue
        job = group_job(group_key(document_kind(item), key_of(item)), names)
        return DEFAULT if job is None else job.queue
    if item.get("kind") != "Pod":
        return _text(_part(item, "spec").get("queue")) or DEFAULT
    if group := group_of(item, names):
        job = group_job(group, names)
        # A PodGroup's queue counts, whatever its pods say, as in Volcano.
        if job is not None and (job.kind not in NATIVE_KINDS or names_queue(job)):
            return job.queue
    metadata = _part(item, "metadata")
    if names.dialect is Dialect.KAI:
        return _text(_part(metadata, "labels").get(KAI_QUEUE)) or DEFAULT
    return _text(_part(metadata, "annotations").get(QUEUE_NAME)) or DEFAULT


def _named(group: Item, names: QueueNames) -> str:
    """The queue that a native group names; "" for none."""
    metadata = _part(group, "metadata")
    key = KAI_QUEUE if names.dialect is Dialect.KAI else QUEUE_NAME
    texts = (_part(metadata, "annotations").get(key), _part(metadata, "labels").get(key))
    return next(filter(None, map(_text, texts)), "")


def _parent_job(group: Item, names: QueueNames) -> Job | None:
    """The job of the tree that a native group is put into; None where there is none yet."""
    parent = _text(_part(group, "spec").get(PARENT))
    if not parent:
        return None
    return group_job(group_key(COMPOSITE, f"{namespace_of(group)}/{parent}"), names)


def document_kind(item: Item) -> str:
    """The kind under which an object is stored, of those that go to a queue."""
    kind = _text(item.get("kind"))
    return NATIVE_POD_GROUP.kind if is_native(item) and kind == NATIVE_POD_GROUP.written else kind


def present_queue(kind: object, key: str, names: QueueNames) -> str | None:
    """The queue of the stored job ``namespace/name``; None where there is none."""
    match kind:
        case "Pod":
            task = names.pods.get(key)
            jid = -1 if task is None else task >> _TASK_BITS
        case "PodGroup" | "KaiPodGroup" | NATIVE_POD_GROUP.kind | "CompositePodGroup":
            job = group_job(group_key(str(kind), key), names)
            return None if job is None else job.queue
        case "Job":
            jid = names.batch_jobs.get(key, -1)
        case _:
            jid = -1
    job = names.jobs.get(jid)
    return None if job is None else job.queue


def group_job(key: str, names: QueueNames) -> Job | None:
    """The job of the PodGroup of this :func:`group_key`; None where it does not exist. Pods that
    wait for a PodGroup do not count: its queue is not known yet."""
    job = names.jobs.get(names.groups.get(key, -1))
    return None if job is None or job.dangling else job


def replicas_of(item: Item) -> int:
    """Number of tasks of a submitted Job."""
    tasks = _part(item, "spec").get("tasks")
    counts = (
        [t.get("replicas", 1) for t in tasks if isinstance(t, Mapping)]
        if isinstance(tasks, list)
        else []
    )
    return sum(count for count in counts if isinstance(count, int))


def lane_of(items: Sequence[object], names: QueueNames) -> str:
    """The queue that a request counts for: that of its first object which has one."""
    # A look at a few: which line a request stands in need not be exact, and must not cost what
    # admitting it does.
    for item in items[:SAMPLE]:
        if isinstance(item, Mapping) and is_submitted(item):
            return lane(queue_of(item, names), names)
    return OTHERS


def lane(queue: str, names: QueueNames) -> str:
    return queue if queue in names.queues else OTHERS


def reference_parts(items: list[Any], size: int) -> list[list[Any]]:
    """The objects of a list in parts of at most ``size`` objects of a tenant. A part refers only to
    objects of itself and of those before it: what only an admin writes is all in the first, which
    may be larger."""
    if len(items) <= size:
        return [items]
    of_kind: dict[str, list[Any]] = {kind: [] for kind in _IN_PARTS}
    first: list[Any] = []
    for item in items:
        kind = _text(item.get("kind")) if isinstance(item, Mapping) else ""
        of_kind.get(kind, first).append(item)
    submitted = [item for of_one in of_kind.values() for item in of_one]
    room = max(0, size - len(first))
    parts = [first + submitted[:room]]
    parts += [submitted[at : at + size] for at in range(room, len(submitted), size)]
    return parts if parts[0] else parts[1:]


def is_submitted(item: Item) -> bool:
    """Whether it is a Pod, PodGroup, group of PodGroups or Job."""
    return _text(item.get("kind")) in SUBMITTED


def key_of(item: Item) -> str:
    """``namespace/name``."""
    metadata = _part(item, "metadata")
    return f"{metadata.get('namespace') or _NAMESPACE}/{metadata.get('name')}"


def namespace_of(item: Item) -> str:
    """The namespace of a submitted Pod, PodGroup or Job."""
    return str(_part(item, "metadata").get("namespace") or _NAMESPACE)


def name_of(item: Item) -> str:
    """The name as responses show it: ``namespace/name`` for kinds that have a queue, else the
    name."""
    if is_submitted(item):
        return key_of(item)
    return f"{_part(item, 'metadata').get('name')}"


def is_native(item: Item) -> bool:
    """Whether it is one of Kubernetes' own PodGroups, or a group of them."""
    return item.get("kind") in (NATIVE_POD_GROUP.written, COMPOSITE) and (
        _text(item.get("apiVersion")).startswith(NATIVE_POD_GROUP.group + "/")
    )


def key_of_group(item: Item) -> str:
    """The :func:`group_key` of a PodGroup."""
    return group_key(document_kind(item), key_of(item))


def is_group(item: Item, names: QueueNames) -> bool:
    """Whether it is a PodGroup that counts under the dialect in force: pods of the other's are not
    its members."""
    if is_native(item):
        return True
    is_kai = _text(item.get("apiVersion")).startswith(KAI_POD_GROUP.group + "/")
    return item.get("kind") == "PodGroup" and is_kai is (names.dialect is Dialect.KAI)


def group_of(item: Item, names: QueueNames) -> str:
    """The :func:`group_key` of a Pod's PodGroup; "" for none."""
    metadata = _part(item, "metadata")
    if native := _text(_part(_part(item, "spec"), "schedulingGroup").get("podGroupName")):
        namespace = metadata.get("namespace") or _NAMESPACE
        return group_key(NATIVE_POD_GROUP.kind, f"{namespace}/{native}")
    annotation = KAI_GROUP if names.dialect is Dialect.KAI else GROUP_NAME
    group = _part(metadata, "annotations").get(annotation)
    return f"{metadata.get('namespace') or _NAMESPACE}/{group}" if group else ""


def _part(value: Item, name: str) -> Item:
    part = value.get(name)
    return part if isinstance(part, Mapping) else _NOTHING


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
