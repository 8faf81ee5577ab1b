"""Parsed objects of Volcano: queues, PodGroups, Jobs and their roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.manifests.kubernetes.objects import PodTemplate
from shared.manifests.volcano.policies import MAX_RETRY, DependsOn, PolicyManifest
from shared.model.model import NodeGroupAffinity, Pairs
from shared.model.storage import Amounts
from shared.model.topology import SubGroupPolicy, Topology


@dataclass(frozen=True, slots=True)
class QueueManifest:
    """A queue. ``parent`` "" is the root. ``capability`` None = unlimited, as are absent
    resources."""

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
    """Amounts of resources that nodes offer; ``quota_amounts`` has the others."""
    quota_amounts: Amounts = ()
    phase: str = ""
    labels: Pairs = ()
    annotations: Pairs = ()
    topology: Topology | None = None
    sub_groups: tuple[SubGroupPolicy, ...] = ()
    role_parents: Mapping[str, str] | None = None
    """Under a policy of KAI's: the group that each entry of ``role_minima`` is in, "" for the job.
    None: all are in the job, whose own minimum may be too small for theirs to count."""
    priority: int | None = None
    """As a number; None: its class decides, as of the next."""
    preempts: bool | None = None
    leaves_whole: bool = False
    """Its members are one victim."""
    topology_key: str = ""
    """The node label of which all its members need one value; "" for none."""
    refused: str = ""
    """Why none of its waiting members may be placed, by the tree of groups that it is in."""


@dataclass(frozen=True, slots=True)
class RoleManifest:
    """A role: ``count`` identical members of a Job. ``minimum`` None = not set."""

    name: str
    count: int
    minimum: int | None
    template: PodTemplate
    task_priority: int | None = None
    duration: float | None = None
    exit_code: int = 0
    """Exit code of a simulated member; nonzero is a failure."""
    policies: tuple[PolicyManifest, ...] = ()
    depends_on: DependsOn | None = None
    labels: Pairs = ()
    annotations: Pairs = ()
    notices: tuple[str, ...] = field(default=(), compare=False)
    """Notices for its fields that are stored without effect."""
    partition: SubGroupPolicy | None = None
    """Splits the role into sub jobs of ``partition.size`` members each."""


@dataclass(frozen=True, slots=True)
class JobManifest:
    """A Job. ``ttl``: seconds from its end to its deletion; None = it is kept."""

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
    min_success: int = 0
    """Pods that have to succeed for the job to be complete; 0: not set."""
    notices: tuple[str, ...] = field(default=(), compare=False)
    """Notices for its fields that are stored without effect."""
    labels: Pairs = ()
    annotations: Pairs = ()
    topology: Topology | None = None
    sub_groups: tuple[SubGroupPolicy, ...] = ()
