"""Parsed manifests, checked but not numbered yet: amounts are by resource name.

The registry that accepts an object assigns the numbers of rows, slots, queues and classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.manifests.kubernetes.pod_affinity import KeyedSpread, KeyedTerm
from shared.model.constraints import Constraints, Requirement, Taint, Toleration
from shared.model.gpu_request import GpuRequest
from shared.model.model import Pairs
from shared.model.storage import Amounts
from shared.units.things import Things


@dataclass(frozen=True, slots=True)
class NodeManifest:
    name: str
    allocatable: Amounts
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    notices: tuple[str, ...] = ()
    annotations: Pairs = ()
    images: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PodTemplate:
    """The scheduling part of a pod's spec. Pods with equal specs share one object (compare with
    ``is``)."""

    requests: Amounts
    """Requests of the whole pod with overhead, without its one of ``pods``."""
    selector: tuple[tuple[str, str], ...]
    affinity: tuple[tuple[Requirement, ...], ...] | None
    tolerations: tuple[Toleration, ...]
    priority_class: str
    priority: int | None
    gated: bool
    node_name: str
    own_gate: bool = False
    """Its only scheduling gate is Volcano's own."""
    constraints: Constraints | None = None
    """Excludes images and ``preempts``, and the terms of ``keyed`` templates."""
    keyed: bool = False
    """Some terms take values from the pod's labels; the fields below hold them."""
    keyed_terms: tuple[KeyedTerm, ...] = ()
    keyed_spreads: tuple[KeyedSpread, ...] = ()
    images: tuple[str, ...] = ()
    preempts: bool | None = None
    """None: not set; its priority class decides."""
    things: Things = ()
    """Named things of a node that the pod takes: its host ports."""
    scheduler: str = ""
    """``schedulerName``; "" if none is written."""
    ephemeral: tuple[str, ...] = ()
    """Names of its ephemeral volumes: each pod has a claim of its own for each."""
    gpu_share: GpuRequest | None = None
    """Its request for shared GPUs, under a policy of KAI's."""


@dataclass(frozen=True, slots=True)
class PodStatus:
    """Facts that the cluster reports about a pod beside its phase. Times in seconds since 1970."""

    started: float | None = None
    scheduled: float | None = None
    """When its condition PodScheduled became true."""
    nominated: str = ""
    """The node reserved for it until evicted pods have left."""


@dataclass(slots=True)  # not frozen: one is made for every pod, in half the time
class PodManifest:
    namespace: str
    name: str
    uid: str
    created: float | None
    template: PodTemplate
    group: str = ""
    """Name of its PodGroup; "" for a pod without one."""
    native: bool = False
    """Its PodGroup is one of Kubernetes' own."""
    role: str = ""
    queue: str = ""
    """Only for a pod without PodGroup; "" = the default queue."""
    task_priority: int | None = None
    duration: float | None = None
    exit_code: int = 0
    phase: str = "Pending"
    labels: Pairs = ()
    annotations: Pairs = ()
    """Only annotations that plugins read."""
    deleted: float | None = None
    """deletionTimestamp, in seconds since 1970; None if it is not being deleted."""
    status: dict[str, object] | None = field(default=None, compare=False)
    """As submitted; parsed on demand by :func:`shared.manifests.kubernetes.pods.read_status`."""

    @property
    def deleting(self) -> bool:
        return self.deleted is not None
