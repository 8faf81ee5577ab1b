"""The scheduler's main objects after parsing: nodes, queues, jobs and classes of tasks."""

from __future__ import annotations

import msgspec

from shared.codec.packed import Count, Finite, Packed, Total, replace
from shared.messages.messages import Group
from shared.model.constraints import Constraints, Requirement, Taint, Toleration
from shared.model.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from shared.model.gpu_request import GpuRequest
from shared.model.groups import COMPOSITE, GROUP_KINDS
from shared.model.kai import KaiPodGroup, KaiQueue, KaiTopology
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

Requests = tuple[tuple[Count, Count], ...]
Totals = tuple[tuple[Count, Total], ...]
"""Amounts over many nodes, by slot."""
"""(slot, amount) pairs sorted by slot, amounts > 0. Every task requests one of slot ``pods``."""


class TaskClass(Packed, frozen=True):
    """Everything about a task that decides where it may run. Tasks with equal classes are alike."""

    requests: Requests
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[Requirement, ...], ...] | None = None
    """Required node affinity: at least one term must match, by all its requirements. None = no
    affinity; an empty tuple matches no node, as in Kubernetes."""
    tolerations: tuple[Toleration, ...] = ()
    constraints: Constraints | None = None
    """None: no constraints other than the fields above."""
    things: Things = ()
    """Named things of the node that every task takes: its host ports."""
    charges: Requests = ()
    """Amounts > 0 that its queue counts beside the requests, and no node has to have
    (docs/decisions/0064)."""
    gpu_share: GpuRequest | None = None
    """Request of every task for shared devices; None: it shares none."""

    @property
    def charged(self) -> Requests:
        """Amounts that a task counts for its job and queue: its requests and its charges."""
        return self.requests + self.charges if self.charges else self.requests

    @property
    def flat(self) -> bool:
        """Whether a node fits depends on the node alone: not on other tasks, volumes or devices;
        and no node is preferred."""
        return self.constraints is None or self.constraints.flat

    def with_devices(self, devices: Things) -> TaskClass:
        """The class as one task of it takes room of a node, with the devices chosen for it."""
        return replace(self, things=(*self.things, *devices)) if devices else self

    @property
    def best_effort(self) -> bool:
        """Whether the class requests nothing except one pod (slot 2)."""
        if self.things or self.gpu_share is not None:
            return False
        return not self.requests or (len(self.requests) == 1 and self.requests[0][0] == PODS)


class Node(Packed, frozen=True):
    row: Count
    name: str
    allocatable: Requests
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    spec: Count = 0
    """Specification version: changes with labels, taints or schedulability, not with amounts."""
    annotations: Pairs = ()
    """Only annotations that are used: of Volcano's domains, and those that plugins read."""
    images: tuple[tuple[str, int], ...] = ()
    """(name with tag or digest, bytes) of the images on the node."""


class NodeGroupAffinity(Packed, frozen=True):
    """The node groups (label ``volcano.sh/nodegroup-name``) that a queue's tasks may use."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


class Queue(Packed, frozen=True):
    qid: Count
    name: str
    weight: int = 1
    parent: int = -1
    priority: int = 0
    open: bool = True
    reclaimable: bool = True
    capability: Totals | None = None
    """None = unlimited; slots that are absent are unlimited too."""
    deserved: Totals = ()
    """Includes resources written as 0."""
    guarantee: Totals = ()
    spec: Count = 0
    deserved_set: bool = False
    """``deserved`` is present in the manifest, even if only as {} or with zeros."""
    created: Finite = 0.0
    annotations: Pairs = ()
    affinity: NodeGroupAffinity | None = None


class Role(Packed, frozen=True):
    """Identical members of a job: the tasks ``first .. first + count - 1``."""

    name: str
    cid: Count
    first: Count
    count: Count
    group: Count = 0
    """The group whose minimum its members count for: 0, or that of this role's own minimum."""
    priority: int = 1
    names: tuple[str, ...] = ()
    """Pod names; empty if they follow the pattern ``{job}-{role}-{i}``."""
    duration: Finite | None = None
    """Seconds that a member runs (annotation ``quadrant.dev/duration``); None = until deleted."""
    exit_code: int = 0
    """Exit code of a simulated member (annotation ``quadrant.dev/exit-code``); nonzero is a
    failure."""
    labels: Pairs = ()
    annotations: Pairs = ()
    """Only annotations that are used: of Volcano's domains, and those that plugins read."""
    gated: bool = False
    """Has scheduling gates, and is not placed until they are removed."""
    own_gate: bool = False
    """Its only gate is Volcano's own (``scheduling.volcano.sh/queue-allocation-gate``), which the
    scheduler itself removes."""
    created: tuple[Finite, ...] = ()
    """Creation time of each member; () = all when the job was created."""
    uids: tuple[str, ...] = ()
    """Pod uid of each member as submitted, "" if it has none; () = none has one."""
    priority_class: str = ""
    start: Count = 0
    """Index of its first member among those of the same name: a role may be split into several
    entries when members differ in labels."""


class Job(Packed, frozen=True):
    jid: Count
    namespace: str
    name: str
    kind: str  # Pod | PodGroup | NativePodGroup | CompositePodGroup | Job
    uid: str
    """Identifies the incarnation: a job deleted and recreated under the same name gets a new
    one."""
    queue: str
    """The name as written; the queue may not exist (yet)."""
    created: Finite
    """Seconds since 1970; ties are broken by ``jid``."""
    priority: int = 0
    groups: tuple[Group, ...] = (Group(parent=-1, minimum=1),)
    roles: tuple[Role, ...] = ()
    spec: Count = 0
    """Specification version: changes with tasks, minima, queue or priority."""
    dangling: bool = False
    """Its pods name a PodGroup that does not exist (yet): they wait, and nothing is placed."""
    role_minima: tuple[tuple[str, int], ...] = ()
    """Roles with a minimum of their own, as written; ``groups[1 + i]`` is the group of entry i.
    That group's minimum is 0 if the job's minimum is below their sum: then Volcano ignores role
    minima."""
    min_resources: Totals | None = None
    """Amounts that the PodGroup needs before admission (``minResources``); None = not set."""
    labels: Pairs = ()
    annotations: Pairs = ()
    """Only annotations that are used: of Volcano's domains, and those that plugins read."""
    phase: str = ""
    """Phase of the PodGroup as submitted: "" | Pending | Inqueue | Running | Unknown |
    Completed."""
    topology: Topology | None = None
    sub_groups: tuple[SubGroupPolicy, ...] = ()
    priority_class: str = ""
    preempts: bool = True
    """False: its priority class has preemptionPolicy Never, so it causes no evictions."""
    quota_amounts: tuple[tuple[str, Total], ...] = ()
    """The amounts in minResources that only a ResourceQuota counts, by name (``requests.cpu``,
    ``count/pods``)."""
    leaves_whole: bool = False
    """Its members are one victim: all of them are evicted, or none is."""
    topology_key: str = ""
    """Node label: all its members run on nodes with one value of it. "" for anywhere."""
    refused: str = ""
    """Why none of its waiting members may be placed, by the tree of groups that it is in."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def kai_group(self) -> str:
        """The key of its tree of sub groups among KAI's PodGroups; "" for jobs that have none."""
        if self.kind == COMPOSITE:  # no object of KAI's has such a name
            return f"{self.namespace}/{COMPOSITE}/{self.name}"
        return self.key if self.kind == "PodGroup" else ""

    @property
    def is_group(self) -> bool:
        """Whether it is a PodGroup, whose pods others create."""
        return self.kind in GROUP_KINDS

    @property
    def is_confined(self) -> bool:
        """Whether a node for one of its tasks depends on where its others are."""
        return self.topology is not None or bool(self.sub_groups) or bool(self.topology_key)

    @property
    def tasks(self) -> int:
        roles = self.roles
        return roles[0].count if len(roles) == 1 else sum(role.count for role in roles)

    def known_role(self, tix: int) -> Role | None:
        """The role of a task; None for one that the job does not have."""
        for role in self.roles:
            if role.first <= tix < role.first + role.count:
                return role
        return None

    def role_of(self, tix: int) -> Role:
        role = self.known_role(tix)
        if role is None:
            raise IndexError(f"job {self.key} has no task {tix}")
        return role

    def pod_name(self, tix: int) -> str:
        role = self.role_of(tix)
        i = tix - role.first
        return role.names[i] if role.names else f"{self.name}-{role.name}-{role.start + i}"


class PriorityClass(Packed, frozen=True):
    name: str
    value: int
    default: bool = False
    preempts: bool = True


WorldObject = (
    Budget
    | CSINode
    | DeviceClass
    | KaiPodGroup
    | KaiQueue
    | KaiTopology
    | Numatopology
    | ResourceClaim
    | ResourceClaimTemplate
    | ResourceQuota
    | ResourceSlice
    | StorageClass
    | Volume
    | VolumeClaim
)
"""Objects that placement may read besides nodes, queues and jobs."""
