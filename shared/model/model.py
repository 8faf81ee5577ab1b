"""The objects the scheduler works with, after parsing: what a node offers, what a job asks for."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.messages.messages import Group
from shared.model.constraints import Constraints, Requirement, Taint, Toleration
from shared.model.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from shared.model.storage import (
    Budget,
    CSINode,
    Numatopology,
    ResourceQuota,
    StorageClass,
    Volume,
    VolumeClaim,
)
from shared.model.topology import SubGroupPolicy, Topology
from shared.units.slots import PODS
from shared.units.things import Things

Pairs = tuple[tuple[str, str], ...]
"""Labels or annotations, sorted by key."""

Requests = tuple[tuple[int, int], ...]
"""(slot, amount) pairs sorted by slot, amounts > 0. Every task asks for one of slot ``pods``."""


@dataclass(frozen=True, slots=True)
class TaskClass:
    """Everything about a task that decides where it may run. Equal classes are one class."""

    requests: Requests
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[Requirement, ...], ...] | None = None
    """Required node affinity: the terms are alternatives, the requirements of a term all hold.

    None = none asked for; an empty tuple matches no node (as Kubernetes has it)."""
    tolerations: tuple[Toleration, ...] = ()
    constraints: Constraints | None = None
    """None: nothing beyond the fields above."""
    things: Things = ()
    """Named things of the node that every task takes: its host ports."""

    @property
    def flat(self) -> bool:
        """Whether a node fits depends on the node alone: no other task, volume or device counts,
        and no node is preferred."""
        return self.constraints is None or self.constraints.flat

    @property
    def best_effort(self) -> bool:
        """Asks for nothing but its place among the node's pods (slot 2)."""
        if self.things:
            return False
        return not self.requests or (len(self.requests) == 1 and self.requests[0][0] == PODS)


@dataclass(frozen=True, slots=True)
class Node:
    row: int
    name: str
    allocatable: Requests
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    spec: int = 0
    """Specification version: moves when labels, taints or schedulability change (not amounts)."""
    annotations: Pairs = ()
    """Those that mean something here: of Volcano's domains and of plugins."""
    images: tuple[tuple[str, int], ...] = ()
    """(name with tag or digest, bytes) of the images that are there."""


@dataclass(frozen=True, slots=True)
class NodeGroupAffinity:
    """Which groups of nodes (label ``volcano.sh/nodegroup-name``) a queue's tasks go to."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Queue:
    qid: int
    name: str
    weight: int = 1
    parent: int = -1
    priority: int = 0
    open: bool = True
    reclaimable: bool = True
    capability: Requests | None = None
    """None = unlimited; slots that are absent are unlimited too."""
    deserved: Requests = ()
    """With what is written as 0."""
    guarantee: Requests = ()
    spec: int = 0
    deserved_set: bool = False
    """``deserved`` is written, if only as {} or with zeros."""
    created: float = 0.0
    annotations: Pairs = ()
    affinity: NodeGroupAffinity | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """Identical members of a job: tasks ``first .. first + count - 1``."""

    name: str
    cid: int
    first: int
    count: int
    group: int = 0
    """The group its members count for: 0, or the group of this role's own minimum."""
    priority: int = 1
    names: tuple[str, ...] = ()
    """Pod names; empty where they follow from the job: ``{job}-{role}-{i}``."""
    duration: float | None = None
    """Seconds a member runs (annotation ``quadrant.dev/duration``); None = until deleted."""
    exit_code: int = 0
    """What a member ends with (annotation ``quadrant.dev/exit-code``); all but 0 is a failure."""
    labels: Pairs = ()
    annotations: Pairs = ()
    """Those that mean something here: of Volcano's domains and of plugins."""
    gated: bool = False
    """Has scheduling gates: it is not placed before they are gone."""
    own_gate: bool = False
    """Its only gate is Volcano's own (``scheduling.volcano.sh/queue-allocation-gate``), which the
    scheduler takes away itself."""
    created: tuple[float, ...] = ()
    """Of each member; () = all when the job was."""
    uids: tuple[str, ...] = ()
    """Of each member's pod, as submitted, "" where none was; () = none was at all."""
    priority_class: str = ""
    start: int = 0
    """Number of its first member among those of this name: a role may be written as several, of
    members that differ in labels."""


@dataclass(frozen=True, slots=True)
class Job:
    jid: int
    namespace: str
    name: str
    kind: str  # Pod | PodGroup | Job
    uid: str
    """The incarnation: a deleted and recreated job of the same name has another."""
    queue: str
    """Name as written; the queue may not exist (yet)."""
    created: float
    """Seconds since 1970; ties are broken by ``jid``."""
    priority: int = 0
    groups: tuple[Group, ...] = (Group(parent=-1, minimum=1),)
    roles: tuple[Role, ...] = ()
    spec: int = 0
    """Specification version: moves with every change of tasks, minima, queue or priority."""
    dangling: bool = False
    """Its pods name a PodGroup that does not exist (yet): they wait, nothing of it is placed."""
    role_minima: tuple[tuple[str, int], ...] = ()
    """Roles that have a minimum of their own, as written; ``groups[1 + i]`` is that of entry i.

    Its minimum there is 0 where the job's is below their sum: Volcano looks at no role then."""
    min_resources: Requests | None = None
    """What the PodGroup says it needs before it is let in (``minResources``); None = not said."""
    labels: Pairs = ()
    annotations: Pairs = ()
    """Those that mean something here: of Volcano's domains and of plugins."""
    phase: str = ""
    """Of the PodGroup as submitted: "" | Pending | Inqueue | Running | Unknown | Completed."""
    topology: Topology | None = None
    sub_groups: tuple[SubGroupPolicy, ...] = ()
    priority_class: str = ""
    preempts: bool = True
    """False: its priority class says that it evicts nobody (preemptionPolicy Never)."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def tasks(self) -> int:
        return sum(role.count for role in self.roles)

    def role_of(self, tix: int) -> Role:
        for role in self.roles:
            if role.first <= tix < role.first + role.count:
                return role
        raise IndexError(f"job {self.key} has no task {tix}")

    def pod_name(self, tix: int) -> str:
        role = self.role_of(tix)
        i = tix - role.first
        return role.names[i] if role.names else f"{self.name}-{role.name}-{role.start + i}"


@dataclass(frozen=True, slots=True)
class PriorityClass:
    name: str
    value: int
    default: bool = False
    preempts: bool = True


WorldObject = (
    Budget
    | CSINode
    | DeviceClass
    | Numatopology
    | ResourceClaim
    | ResourceClaimTemplate
    | ResourceQuota
    | ResourceSlice
    | StorageClass
    | Volume
    | VolumeClaim
)
"""Objects that placement may look at, beside nodes, queues and jobs."""
