"""Admission of KAI's objects: queues, PodGroups and topologies.

They are stored whichever policy is in force. Under one of KAI's, a queue is a queue of the engine,
with its limits as capability at every level, and a PodGroup a job, with its pod sets as roles that
have a minimum. Under a policy of Volcano's nothing looks at them, and who submits one is told so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coordinator.intake.admission.gangs import admit_pod_group
from coordinator.intake.admission.queues import put_new
from coordinator.intake.admission.step import AdmissionStep
from shared.codec.packed import replace
from shared.errors import InvalidInput
from shared.manifests.fields.reader import loose_name
from shared.manifests.kai.groups import QUEUE_LABEL, pod_group_of, pod_set_of
from shared.manifests.kubernetes.objects import PodManifest
from shared.manifests.parse import Manifest
from shared.manifests.volcano.objects import PodGroupManifest
from shared.model.kai import UNLIMITED, KaiPodGroup, KaiQueue, KaiShare, KaiTopology
from shared.model.model import Queue, WorldObject
from shared.policy.model import Dialect
from shared.records.specs import OBJECT_KEYS

NOT_LOOKED_AT = (
    "kept and not looked at: the policy in force is {0}'s; it counts under one of {1}'s, which "
    "takes a restart with that policy"
)


def admit_kai_queue(step: AdmissionStep, new: KaiQueue) -> None:
    """Admit a queue. Its parent may come later; it must not be above itself."""
    queues = KaiQueues(step)
    old = queues.get(new.name)
    new_record = replace(new, created=step.created(new.created) if old is None else old.created)
    for above in queues.above(new):
        if above == new.name:
            message = "is below this queue, which would be above itself; choose another parent"
            raise InvalidInput("spec.parentQueue", new.parent, message)
    _store(step, new, new_record)
    if step.dialect is Dialect.KAI:
        _put_queue(step, queues, new_record)
    for message in _over_quota(queues, new_record):
        step.notice(new, message)


def admit_kai_pod_group(step: AdmissionStep, new: KaiPodGroup) -> None:
    if step.dialect is Dialect.KAI:
        admit_pod_group(step, _as_gang(new))
    _store(step, new, new)


def admit_kai_topology(step: AdmissionStep, new: KaiTopology) -> None:
    _store(step, new, new)


def keep_unread(step: AdmissionStep, manifest: Manifest) -> None:
    """Keep an object of the other dialect, and say that nothing looks at it."""
    other = Dialect.VOLCANO if step.dialect is Dialect.KAI else Dialect.KAI
    step.notice(manifest, NOT_LOOKED_AT.format(step.dialect.scheduler, other.scheduler))
    step.same.add(id(manifest))


def as_kai_pod(pod: PodManifest, item: object) -> PodManifest:
    """The pod with the group, pod set or queue that KAI reads of it. Raises InvalidInput."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    annotations = (metadata or {}).get("annotations") or {}
    labels: dict[str, object] = dict(pod.labels)
    group = pod_group_of(annotations)
    queue = "" if group else labels.get(QUEUE_LABEL, "")
    return replace(
        pod,
        group=group,
        role=pod_set_of(labels) if group else "",
        queue=loose_name(queue, f"metadata.labels.{QUEUE_LABEL}") if queue else "",
    )


class KaiQueues:
    """The queues of KAI's kind, those of the list included, by name."""

    def __init__(self, step: AdmissionStep) -> None:
        self._objects = step.draft.objects

    def get(self, name: str) -> KaiQueue | None:
        value = self._objects.get(OBJECT_KEYS[KaiQueue] + name)
        return value if isinstance(value, KaiQueue) else None

    def above(self, queue: KaiQueue) -> Iterator[str]:
        """The names above a queue, nearest first, as far as they exist; ends where they repeat."""
        seen: set[str] = set()
        name = queue.parent
        while name and name not in seen:
            yield name
            seen.add(name)
            parent = self.get(name)
            name = "" if parent is None else parent.parent

    def children(self, name: str) -> list[KaiQueue]:
        queues = (value for value in self._objects.values() if isinstance(value, KaiQueue))
        return [queue for queue in queues if queue.parent == name]


def _put_queue(step: AdmissionStep, queues: KaiQueues, record: KaiQueue) -> None:
    """The engine's queue of a record, and those of its children that waited for it. A queue whose
    parent is missing is none yet: its jobs wait for it."""
    draft = step.draft
    above = draft.queues.get(record.parent) if record.parent else None
    if record.parent and above is None:
        return
    old = draft.queues.get(record.name)
    queue = Queue(
        qid=draft.next_qid if old is None else old.qid,
        name=record.name,
        parent=-1 if above is None else above.qid,
        priority=record.priority,
        capability=draft.requests(_amounts(record, "limit"), "spec.resources", offers=True),
        deserved=draft.requests(_amounts(record, "quota"), "spec.resources", offers=True),
        deserved_set=True,
        created=record.created,
        spec=0 if old is None else old.spec,
    )
    if old is None:
        put_new(step, queue)
    elif queue != old:
        draft.queues[record.name] = replace(queue, spec=old.spec + 1)
    for child in queues.children(record.name):
        if draft.queues.get(child.name) is None:
            _put_queue(step, queues, child)


_NAMES = {"cpu": "cpu", "memory": "memory", "gpu": "nvidia.com/gpu"}
"""Resource of a KAI queue -> its name among the nodes' resources."""


def _amounts(record: KaiQueue, part: str) -> tuple[tuple[str, int], ...]:
    """The limits or quotas of a queue, without those that are unlimited."""
    written = ((name, getattr(getattr(record, field), part)) for field, name in _NAMES.items())
    return tuple(sorted((name, amount) for name, amount in written if amount != UNLIMITED))


def _as_gang(group: KaiPodGroup) -> PodGroupManifest:
    """The gang that the engine keeps whole: pod sets are roles with a minimum of their own."""
    leaves = [sub for sub in group.sub_groups if group.is_pod_set(sub)]
    minima = tuple((sub.name, sub.min_member or 0) for sub in leaves)
    return PodGroupManifest(
        namespace=group.namespace,
        name=group.name,
        uid=group.uid,
        created=group.created,
        minimum=sum(least for _, least in minima) if minima else group.min_member,
        role_minima=minima,
        queue=group.queue,
        priority_class=group.priority_class,
        min_resources=None,
        labels=group.labels,
    )


def child_of(objects: Mapping[str, WorldObject], name: str) -> str:
    """The name of a queue below this one; "" where there is none."""
    queues = (value for value in objects.values() if isinstance(value, KaiQueue))
    return min((queue.name for queue in queues if queue.parent == name), default="")


def _store(step: AdmissionStep, manifest: WorldObject, value: WorldObject) -> None:
    """Store the record, under the manifest that the rest of admission knows it by."""
    if step.dialect is not Dialect.KAI:
        message = NOT_LOOKED_AT.format(step.dialect.scheduler, Dialect.KAI.scheduler)
        step.notice(manifest, message)
    namespace = getattr(value, "namespace", None)
    name = value.name if namespace is None else f"{namespace}/{value.name}"
    key = OBJECT_KEYS[type(value)] + name
    if step.draft.objects.get(key) == value:
        step.same.add(id(manifest))
    else:
        step.draft.objects[key] = value


def _over_quota(queues: KaiQueues, queue: KaiQueue) -> Iterator[str]:
    """Where the quotas of siblings are more than their parent's: as in KAI a warning alone."""
    parent = queues.get(queue.parent)
    if parent is None:
        return
    siblings = queues.children(parent.name)
    for resource in ("cpu", "memory", "gpu"):
        shares: list[KaiShare] = [getattr(sibling, resource) for sibling in siblings]
        whole: KaiShare = getattr(parent, resource)
        quotas = [share.quota for share in shares if share.quota != UNLIMITED]
        if whole.quota != UNLIMITED and sum(quotas) > whole.quota:
            yield (
                f"spec.resources.{resource}.quota: the queues below {parent.name} have more quota "
                "together than it has itself; not all of them can have theirs at once"
            )
