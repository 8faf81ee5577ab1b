"""What a manifest says, checked but not yet numbered: amounts stand under resource names.

Numbers of rows, slots, queues and classes are given by the registry that accepts the object.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.manifests.kubernetes.pod_affinity import KeyedSpread, KeyedTerm
from shared.model.constraints import Constraints, Requirement, Taint, Toleration
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
    """The scheduling part of a pod's spec; pods with equal specs share one (compare by ``is``)."""

    requests: Amounts
    """Of the whole pod, with overhead, without its one of ``pods``."""
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
    """Without images and ``preempts``; without the terms that are keyed."""
    keyed: bool = False
    """Some terms take values from the pod's labels: they stand below instead."""
    keyed_terms: tuple[KeyedTerm, ...] = ()
    keyed_spreads: tuple[KeyedSpread, ...] = ()
    images: tuple[str, ...] = ()
    preempts: bool | None = None
    """None: not said, its priority class decides."""
    things: Things = ()
    """Named things of a node that the pod takes: its host ports."""


@dataclass(frozen=True, slots=True)
class PodStatus:
    """What a running cluster tells of a pod, beside its phase. Times in seconds since 1970."""

    started: float | None = None
    scheduled: float | None = None
    """When its condition PodScheduled became true."""
    nominated: str = ""
    """The node it is to go to once others have left it."""


@dataclass(slots=True)  # not frozen: one is made for every pod, in half the time
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
    labels: Pairs = ()
    annotations: Pairs = ()
    """Those that mean something here."""
    deleted: float | None = None
    """When it was told to go; None where it stays."""
    status: dict[str, object] | None = field(default=None, compare=False)
    """As written: read by :func:`shared.manifests.kubernetes.pods.read_status` where anybody
    asks."""

    @property
    def deleting(self) -> bool:
        return self.deleted is not None
