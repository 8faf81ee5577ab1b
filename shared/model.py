"""The objects the scheduler works with, after parsing: what a node offers, what a job asks for."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.messages import Group
from shared.slots import PODS

Requests = tuple[tuple[int, int], ...]
"""(slot, amount) pairs sorted by slot, amounts > 0. Every task asks for one of slot ``pods``."""


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str  # NoSchedule | PreferNoSchedule | NoExecute


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str  # "" with operator Exists tolerates everything
    operator: str  # Equal | Exists
    value: str
    effect: str  # "" matches every effect


@dataclass(frozen=True, slots=True)
class Requirement:
    """One matchExpressions entry. ``field`` is True for matchFields (only metadata.name)."""

    key: str
    operator: str  # In | NotIn | Exists | DoesNotExist | Gt | Lt
    values: tuple[str, ...]
    field: bool = False


@dataclass(frozen=True, slots=True)
class TaskClass:
    """Everything about a task that decides where it may run. Equal classes are one class."""

    requests: Requests
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[Requirement, ...], ...] | None = None
    """Required node affinity: the terms are alternatives, the requirements of a term all hold.

    None = none asked for; an empty tuple matches no node (as Kubernetes has it)."""
    tolerations: tuple[Toleration, ...] = ()

    @property
    def best_effort(self) -> bool:
        """Asks for nothing but its place among the node's pods (slot 2)."""
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
    guarantee: Requests = ()
    spec: int = 0


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
        return role.names[i] if role.names else f"{self.name}-{role.name}-{i}"


@dataclass(frozen=True, slots=True)
class HyperNode:
    name: str
    tier: int
    nodes: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PriorityClass:
    name: str
    value: int
    default: bool = False
    preempts: bool = True
