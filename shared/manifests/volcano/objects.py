"""Volcano's objects as values: queues, PodGroups, Jobs and their roles."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.manifests.kubernetes.objects import PodTemplate
from shared.manifests.volcano.policies import MAX_RETRY, DependsOn, PolicyManifest
from shared.model.model import NodeGroupAffinity, Pairs
from shared.model.storage import Amounts
from shared.model.topology import SubGroupPolicy, Topology


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
    deserved_set: bool = False
    created: float | None = None
    annotations: Pairs = ()
    affinity: NodeGroupAffinity | None = None


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
    labels: Pairs = ()
    annotations: Pairs = ()
    topology: Topology | None = None
    sub_groups: tuple[SubGroupPolicy, ...] = ()


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
    labels: Pairs = ()
    annotations: Pairs = ()
    partition: SubGroupPolicy | None = None
    """It is split into sub jobs of ``partition.size`` members each."""


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
    labels: Pairs = ()
    annotations: Pairs = ()
    topology: Topology | None = None
    sub_groups: tuple[SubGroupPolicy, ...] = ()
