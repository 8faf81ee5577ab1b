"""What a manifest says, checked but not yet numbered: amounts stand under resource names.

Numbers of rows, slots, queues and classes are given by the registry that accepts the object.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.manifests.policies import MAX_RETRY, DependsOn, PolicyManifest
from shared.model import HyperNode, PriorityClass, Requirement, Taint, Toleration

Amounts = tuple[tuple[str, int], ...]
"""(resource or host port slot, units) sorted by name, amounts > 0."""


@dataclass(frozen=True, slots=True)
class NodeManifest:
    name: str
    allocatable: Amounts
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueManifest:
    """``parent`` "" is the root. ``capability`` None = unlimited, absent resources likewise."""

    name: str
    weight: int
    parent: str
    priority: int
    open: bool
    reclaimable: bool
    capability: Amounts | None
    deserved: Amounts
    guarantee: Amounts


@dataclass(frozen=True, slots=True, eq=False)
class PodTemplate:
    """The scheduling part of a pod's spec; pods with equal specs share one (compare by ``is``)."""

    requests: Amounts
    """Of the whole pod, with overhead and host ports, without its one of ``pods``."""
    selector: tuple[tuple[str, str], ...]
    affinity: tuple[tuple[Requirement, ...], ...] | None
    tolerations: tuple[Toleration, ...]
    priority_class: str
    priority: int | None
    gated: bool
    node_name: str
    notices: tuple[str, ...]
    """Wishes (not conditions) that this version does not look at, each as "path: why"."""


@dataclass(frozen=True, slots=True)
class PodManifest:
    namespace: str
    name: str
    uid: str
    created: float | None
    template: PodTemplate
    group: str = ""
    """Name of its PodGroup, "" for a pod of its own."""
    role: str = ""
    queue: str = ""
    """Only of a pod without PodGroup; "" = default."""
    task_priority: int | None = None
    duration: float | None = None
    exit_code: int = 0
    phase: str = "Pending"
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class PodGroupManifest:
    namespace: str
    name: str
    uid: str
    created: float | None
    minimum: int
    role_minima: tuple[tuple[str, int], ...]
    queue: str
    priority_class: str
    min_resources: Amounts | None
    phase: str = ""


@dataclass(frozen=True, slots=True)
class RoleManifest:
    """``count`` identical members of a Job; ``minimum`` None = not said."""

    name: str
    count: int
    minimum: int | None
    template: PodTemplate
    task_priority: int | None = None
    duration: float | None = None
    exit_code: int = 0
    """What a simulated member ends with; all but 0 is a failure."""
    policies: tuple[PolicyManifest, ...] = ()
    depends_on: DependsOn | None = None


@dataclass(frozen=True, slots=True)
class JobManifest:
    """``ttl``: seconds after its end until it is deleted; None = it stays."""

    namespace: str
    name: str
    uid: str
    created: float | None
    minimum: int
    queue: str
    priority_class: str
    roles: tuple[RoleManifest, ...] = field(default=())
    policies: tuple[PolicyManifest, ...] = ()
    max_retry: int = MAX_RETRY
    ttl: int | None = None


@dataclass(frozen=True, slots=True)
class PodDisruptionBudgetManifest:
    """Kept as it is: it limits nothing here."""

    namespace: str
    name: str


Manifest = (
    NodeManifest
    | QueueManifest
    | PodManifest
    | PodGroupManifest
    | JobManifest
    | HyperNode
    | PriorityClass
    | PodDisruptionBudgetManifest
)
