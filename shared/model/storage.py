"""Volumes, quotas of namespaces and disruption budgets: objects beside nodes and jobs."""

from __future__ import annotations

from dataclasses import dataclass

from shared.model.constraints import Selector, Terms

Amounts = tuple[tuple[str, int], ...]
"""(resource name, units) sorted by name; cpu and extended resources in thousandths."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget. Shares are as written: "3" or "50%", "" = not said."""

    namespace: str
    name: str
    selector: Selector | None = None
    min_available: str = ""
    max_unavailable: str = ""
    allowed: int | None = None
    """``status.disruptionsAllowed``, where somebody else counts; None = not told."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume."""

    name: str
    capacity: int = 0
    """Bytes."""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    claim: str = ""
    """``namespace/name`` of the claim it is bound to, or kept for; "" = free."""
    claim_uid: str = ""
    affinity: Terms | None = None
    """Nodes that can reach it; None = all."""
    labels: tuple[tuple[str, str], ...] = ()
    phase: str = ""
    driver: str = ""
    """The CSI driver, "" where it has none: what limits of volumes per node are counted by."""
    handle: str = ""


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    uid: str = ""
    request: int = 0
    """Bytes."""
    storage_class: str | None = None
    """None = not said (the default class), "" = none wanted."""
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    volume: str = ""
    """``spec.volumeName``."""
    selector: Selector | None = None
    """Of volumes, where one is written; None = any volume."""
    phase: str = ""
    bound: bool = False
    """Volume and claim know of each other (annotation ``pv.kubernetes.io/bind-completed``)."""
    node: str = ""
    """The node chosen for it (annotation ``volume.kubernetes.io/selected-node``)."""


@dataclass(frozen=True, slots=True)
class StorageClass:
    name: str
    provisioner: str = ""
    waits: bool = False
    """volumeBindingMode WaitForFirstConsumer; else Immediate."""
    topologies: Terms | None = None
    """allowedTopologies: alternatives, each of In requirements; None = everywhere."""
    default: bool = False


@dataclass(frozen=True, slots=True)
class CSINode:
    """How many volumes of each CSI driver a node takes."""

    name: str
    limits: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """What a namespace may use in all; names may begin with ``requests.`` or ``limits.``."""

    namespace: str
    name: str
    hard: Amounts = ()
    """``status.hard``, or ``spec.hard`` where nobody counts."""
    used: Amounts = ()
    scoped: bool = False
    """Counts only some pods (scopes, scopeSelector)."""


@dataclass(frozen=True, slots=True)
class Numatopology:
    """The NUMA domains of a node, as an agent tells them. ``name`` is the node's."""

    name: str
    policies: tuple[tuple[str, str], ...] = ()
    """``CPUManagerPolicy`` and ``TopologyManagerPolicy``."""
    resources: tuple[tuple[str, str, int], ...] = ()
    """(resource, allocatable as a set of ids such as "0-3,8", capacity)."""
    cpus: tuple[tuple[int, int, int, int], ...] = ()
    """(cpu, numa, socket, core)."""
    reserved: Amounts = ()
