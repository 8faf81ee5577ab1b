"""Admission of Kubernetes' own PodGroups: jobs of a kind of their own, under policies of every
dialect.

The API has no queue: a group names one as its policy's dialect does for what has no PodGroup of its
own (``docs/native-groups.md``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coordinator.intake.admission.gangs import admit_pod_group
from coordinator.intake.admission.queues import DEFAULT
from coordinator.intake.admission.registry import Registry
from coordinator.intake.admission.step import AdmissionStep
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.group_queue import names_queue
from coordinator.intake.documents.kinds import NATIVE_POD_GROUP
from shared.codec.packed import replace
from shared.errors import InvalidInput
from shared.manifests.fields.metadata import QUEUE_NAME
from shared.manifests.kubernetes.groups import SINGLE, NativePodGroupManifest
from shared.manifests.kubernetes.objects import PodManifest
from shared.manifests.parse import parse_stored
from shared.manifests.volcano.objects import PodGroupManifest
from shared.model.groups import group_key
from shared.model.model import Job, PriorityClass
from shared.policy.model import Dialect

PROTECTED = "scheduling.k8s.io/podgroup-protection"
"""Finalizer of each group: it stays until its pods have ended."""
_IMMUTABLE = "field is immutable; delete the PodGroup and create it with the new value"


def admit_native_group(step: AdmissionStep, new: NativePodGroupManifest) -> None:
    if not step.dated:  # a watched cluster has done so
        _check_change(step, new)
        _check_priority(step, new)
    jid = step.draft.groups.get(group_key(NATIVE_POD_GROUP.kind, f"{new.namespace}/{new.name}"))
    old = None if jid is None else step.draft.jobs.get(jid)
    gang = _as_gang(new, _own_queue(new, step.dialect), old)
    admit_pod_group(step, gang, kind=NATIVE_POD_GROUP.kind)
    if id(gang) in step.same:
        step.same.add(id(new))


def _own_queue(new: NativePodGroupManifest, dialect: Dialect) -> str:
    return new.kai_queue if dialect is Dialect.KAI else new.queue


def _as_gang(new: NativePodGroupManifest, queue: str, old: Job | None) -> PodGroupManifest:
    """The gang that the engine keeps whole. Without a queue of its own a group keeps the one that
    its pods gave it."""
    named = ((QUEUE_NAME, queue),) if queue else ()
    return PodGroupManifest(
        namespace=new.namespace,
        name=new.name,
        uid=new.uid,
        created=new.created,
        minimum=new.minimum,
        role_minima=(),
        queue=queue or (DEFAULT if old is None else old.queue),
        priority_class=new.priority_class,
        min_resources=None,
        labels=new.labels,
        annotations=tuple(sorted((*new.annotations, *named))),
        priority=new.priority,
        preempts=new.preempts,
        leaves_whole=new.leaves_whole,
        topology_key=new.topology_key,
    )


def take_queue(step: AdmissionStep, jid: int, queue: str) -> None:
    """The first pod of a native group without a queue of its own decides where the group goes."""
    job = step.draft.job(jid)
    if job.kind == NATIVE_POD_GROUP.kind and not names_queue(job):
        step.draft.jobs[jid] = replace(job, queue=queue or DEFAULT)


def member_priority(step: AdmissionStep, new: PodManifest) -> int:
    """The priority of a pod of a native group, which must be the group's."""
    if new.template.priority is not None:
        return new.template.priority
    name = new.template.priority_class
    computed = _computed(name, step.draft.priority_classes.values())
    return step.priority(new, name) if computed is None else computed


# --- as the API server does it ------------------------------------------------------------------


def with_group_defaults(
    new: NativePodGroupManifest, item: object, registry: Registry
) -> dict[str, Any]:
    """The group as sent, with the fields that the API server fills in, and without a status, which
    is nobody's to send."""
    assert isinstance(item, dict)
    spec = dict(item["spec"])
    classes = registry.priority_classes
    named = classes.get(new.priority_class)
    if spec.get("disruptionMode") is None:
        spec["disruptionMode"] = {SINGLE: {}}
    priority = _computed(new.priority_class, classes.values())
    if spec.get("priority") is None and priority is not None:
        spec["priority"] = priority
    if not spec.get("preemptionPolicy"):
        preempts = named is None or named.preempts
        spec["preemptionPolicy"] = "PreemptLowerPriority" if preempts else "Never"
    metadata = dict(item["metadata"])
    finalizers = metadata.get("finalizers") or []
    if PROTECTED not in finalizers:
        metadata["finalizers"] = [*finalizers, PROTECTED]
    return {k: v for k, v in item.items() if k != "status"} | {"spec": spec, "metadata": metadata}


def _computed(name: str, classes: Iterable[PriorityClass]) -> int | None:
    """The priority by the class of this name, or the global default where none is named; None where
    the class does not exist yet."""
    if name:
        return next((c.value for c in classes if c.name == name), None)
    return next((c.value for c in classes if c.default), 0)


def _check_priority(step: AdmissionStep, new: NativePodGroupManifest) -> None:
    """A number that its class does not give is refused."""
    computed = _computed(new.priority_class, step.draft.priority_classes.values())
    if new.priority is not None and computed is not None and new.priority != computed:
        message = (
            f"priority set in the pod group ({new.priority}) must match the priority computed "
            f"({computed}) based on the priority class set in the spec; leave it out"
        )
        raise InvalidInput("spec.priority", new.priority, message, reason="Forbidden")


def _check_change(step: AdmissionStep, new: NativePodGroupManifest) -> None:
    """Only ``minCount``, labels and annotations may change."""
    document = step.draft.document(Key(NATIVE_POD_GROUP.kind, new.namespace, new.name))
    old = None if document is None else parse_stored(document.object())
    if not isinstance(old, NativePodGroupManifest):
        return
    if (old.min_count is None) is not (new.min_count is None):
        raise InvalidInput("spec.schedulingPolicy", None, _IMMUTABLE)
    for field, before, now in (
        ("priorityClassName", old.priority_class, new.priority_class),
        ("priority", old.priority, new.priority),
        ("preemptionPolicy", old.preempts, new.preempts),
        ("disruptionMode", old.leaves_whole, new.leaves_whole),
        ("schedulingConstraints", old.topology_key, new.topology_key),
    ):
        if before != now:
            raise InvalidInput(f"spec.{field}", now, _IMMUTABLE)
