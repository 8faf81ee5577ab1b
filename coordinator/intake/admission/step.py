"""The state of the admission of one list: its inputs and what it collects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from coordinator.intake.admission.draft import Draft
from coordinator.intake.admission.membership import GangMember
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import BY_KIND
from shared.errors import InvalidInput, Refusal, not_in_this_version
from shared.manifests.fields.metadata import scheduler_name
from shared.manifests.kubernetes.groups import NativeManifest
from shared.manifests.kubernetes.inert import InertObject
from shared.manifests.kubernetes.objects import PodManifest, PodStatus, PodTemplate
from shared.manifests.parse import Manifest
from shared.manifests.volcano.objects import RoleManifest
from shared.model.kai import DEFAULT_PRIORITY, PREEMPTIBLE_BELOW, PRIORITY_CLASSES, KaiPodGroup
from shared.model.model import Job, Pairs
from shared.model.storage import Amounts, Budget, Volume, VolumeClaim
from shared.policy.model import Dialect
from shared.records.specs import OBJECT_KEYS

_KINDS: dict[type, str] = {
    Budget: "PodDisruptionBudget",
    Volume: "PersistentVolume",
    VolumeClaim: "PersistentVolumeClaim",
}
"""Kubernetes' name of the kind, where it differs from the class name."""
OBJECT_KINDS = {_KINDS.get(kind) or kind.__name__: at for kind, at in OBJECT_KEYS.items()}
"""Kinds that placement reads -> their key prefix in the ledger."""
_TASK_PRIORITY = 1
"""Volcano's default priority of a task."""


@dataclass(slots=True)
class Notice:
    """A warning about accepted objects; ``count`` objects have the same one."""

    kind: str
    name: str
    message: str
    count: int = 1


NOTHING_TOLD = PodStatus()


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod that was submitted with its node."""

    jid: int
    tix: int
    node: str
    phase: str
    deleting: bool
    deleted: float | None = None
    """Its deletionTimestamp, seconds since 1970."""
    status: PodStatus = NOTHING_TOLD


@dataclass(slots=True)
class JoiningPod:
    """A pod that joins a PodGroup's job at the end of the list."""

    jid: int
    pod: PodManifest
    member: GangMember


@dataclass(slots=True)
class AdmissionStep:
    """One pass over one list. ``observe`` accepts running pods, ``dated`` takes creation times as
    written."""

    draft: Draft
    now: float
    observe: bool
    dated: bool = False
    planting: bool = True
    """Accept pods of PodGroups that do not exist yet; they get the queue of the later PodGroup."""
    ours: frozenset[str] | None = None
    """The scheduler names that are ours; None: all."""
    dialect: Dialect = Dialect.VOLCANO
    """Dialect of the policy in force."""
    node_of: Callable[[str, str], str] = lambda namespace, name: ""
    """Returns the node of a pod, "" for none."""
    group_wait: float = 0.0
    """Seconds from its creation that a pod without a group waits for a controller to name one."""
    refused: list[Refusal] = field(default_factory=list)
    out: set[int] = field(default_factory=set)
    """``id()`` of the refused manifests."""
    same: set[int] = field(default_factory=set)
    """``id()`` of the manifests that change nothing for the scheduler."""
    notices: dict[tuple[str, str], Notice] = field(default_factory=dict)
    unchanged: int = 0
    """Number of unchanged objects, labels and annotations included."""
    jids: dict[int, int] = field(default_factory=dict)
    """``id()`` of a new pod's manifest -> its job."""
    changed_pods: dict[str, Amounts] = field(default_factory=dict)
    """See :class:`Admission`."""
    placed: list[PlacedPod] = field(default_factory=list)
    coming: dict[str, JoiningPod] = field(default_factory=dict)
    """``namespace/name`` of the pod -> the pod."""
    inert: set[Key] = field(default_factory=set)
    """New objects without effect."""
    tree_nodes: list[NativeManifest] = field(default_factory=list)
    """The groups of trees of this list."""
    joined: dict[Key, int] = field(default_factory=dict)
    """Groups of trees -> the job of their tree."""
    default_priority: int | None = None
    """Value of the default priority class; looked up once, after all classes of the list."""
    holders: dict[str, Job] | None = None
    """Queue -> one of its jobs; built at the first use."""
    inner: dict[str, list[str]] | None = None
    """Queue -> the queues below it, of those that have any; built once the list's queues are
    judged."""
    sent: dict[int, dict[str, Any]] = field(default_factory=dict)
    """``id()`` of the manifest of a KAI queue -> the object as sent."""

    def refuse(self, manifest: Manifest, error: InvalidInput) -> None:
        self.refused.append(error.refusal(written_kind(manifest), key_of(manifest)))
        self.out.add(id(manifest))

    def notice(self, manifest: Manifest, message: str) -> None:
        kind = written_kind(manifest)
        notice = self.notices.get((kind, message))
        if notice is None:
            self.notices[kind, message] = Notice(kind, key_of(manifest), message)
        else:
            notice.count += 1

    def created(self, written: float | None) -> float:
        return written if written is not None and self.dated else self.now

    def priority(self, manifest: Manifest, name: str) -> int:
        """The value of a priority class; where it is unknown the default, with a warning."""
        priority_class = self.draft.priority_classes.get(name) if name else None
        if priority_class is not None:
            return priority_class.value
        if self.dialect is Dialect.KAI and (not name or name in PRIORITY_CLASSES):
            return PRIORITY_CLASSES.get(name, DEFAULT_PRIORITY)
        if name:
            message = f"{name} does not exist, so the default priority counts; create it first"
            self.notice(manifest, f"priorityClassName: {message}")
        if self.default_priority is None:
            classes = self.draft.priority_classes.values()
            self.default_priority = next((c.value for c in classes if c.default), 0)
        return self.default_priority

    def preempts(self, name: str) -> bool:
        """Whether pods of this priority class may preempt."""
        priority_class = self.draft.priority_classes.get(name) if name else None
        return priority_class is None or priority_class.preempts

    def task_priority(self, owner: Manifest, new: PodManifest | RoleManifest) -> int:
        """The priority of a task within its job: the annotation, else the pod's own priority, else
        1."""
        template = new.template
        if new.task_priority is not None:
            return new.task_priority
        if template.priority is not None:
            return template.priority
        if not template.priority_class:
            return _TASK_PRIORITY
        priority_class = self.draft.priority_classes.get(template.priority_class)
        if priority_class is not None:
            return priority_class.value
        self.priority(owner, template.priority_class)  # for its notice
        return _TASK_PRIORITY

    def protected(self, job: Job) -> bool:
        """Whether a job may not be evicted, which KAI's queues count."""
        if self.dialect is not Dialect.KAI:
            return False
        key = OBJECT_KEYS[KaiPodGroup] + job.key
        group = self.draft.objects.get(key) if job.kind == "PodGroup" else None
        if isinstance(group, KaiPodGroup):
            return not group.is_preemptible(job.priority)
        return self.protects(job.priority)

    def protects(self, priority: int) -> bool:
        """As :meth:`protected`, of a job that says nothing but its priority."""
        return self.dialect is Dialect.KAI and priority >= PREEMPTIBLE_BELOW

    def check_template(self, manifest: Manifest, template: PodTemplate) -> None:
        """Refuse a template that names a node: only the scheduler chooses nodes."""
        if template.node_name and not self.observe:
            raise not_in_this_version(
                "spec.nodeName", template.node_name, "leave it out, the scheduler chooses the node"
            )

    def is_theirs(self, manifest: Manifest, annotations: Pairs) -> bool:
        """Whether another scheduler places it; then there is a warning."""
        name = scheduler_name(annotations)
        if self.ours is None or not name or name in self.ours:
            return False
        message = f"schedulerName {name} is not one of ours: it is kept and left to {name}"
        self.notice(manifest, message)
        return True

    def hold_best_effort(self, job: Job, first: int) -> None:
        """Count best-effort members from index ``first`` on: they are present as soon as they
        exist."""
        for role in job.roles:
            fresh = role.first + role.count - max(role.first, first)
            if fresh > 0 and self.draft.best_effort(role.cid):
                self.draft.hold(job.jid, role.group, fresh)


def on_its_way_out(name: str) -> InvalidInput:
    """The error for an object that is submitted again before its deletion is complete."""
    message = "an object of this name is being deleted; wait until it is gone, then create it again"
    return InvalidInput("metadata.name", name, message, reason="AlreadyExists")


def make_uid(key: str, jid: int) -> str:
    """A uid for an object that came without one: unique per name and number."""
    return f"{key}#{jid}"


def kind_of(manifest: Manifest) -> str:
    if isinstance(manifest, InertObject):
        return manifest.kind
    cls = type(manifest)
    return _KINDS.get(cls) or cls.__name__.removesuffix("Manifest")


def written_kind(manifest: Manifest) -> str:
    """The kind as its author wrote it."""
    kind = BY_KIND.get(kind_of(manifest))
    return kind_of(manifest) if kind is None else kind.written


def key_of(manifest: Manifest) -> str:
    namespace = getattr(manifest, "namespace", "")
    return f"{namespace}/{manifest.name}" if namespace else manifest.name
