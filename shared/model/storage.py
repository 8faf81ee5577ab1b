"""Volumes, resource quotas, disruption budgets and NUMA domains."""

from __future__ import annotations

from shared.codec.packed import Packed
from shared.model.constraints import Selector, Terms

Amounts = tuple[tuple[str, int], ...]
"""(resource name, units) sorted by name; cpu and extended resources in thousandths."""


class Budget(Packed, frozen=True):
    """A PodDisruptionBudget. Limits are as written: "3" or "50%", "" = not set."""

    namespace: str
    name: str
    selector: Selector | None = None
    min_available: str = ""
    max_unavailable: str = ""
    allowed: int | None = None
    """``status.disruptionsAllowed``, if another controller computes it; None = not reported."""


class Volume(Packed, frozen=True):
    """A PersistentVolume."""

    name: str
    capacity: int = 0
    """Bytes."""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    claim: str = ""
    """``namespace/name`` of the claim that it is bound to or reserved for; "" = free."""
    claim_uid: str = ""
    affinity: Terms | None = None
    """Nodes that reach it; None = all."""
    labels: tuple[tuple[str, str], ...] = ()
    phase: str = ""
    driver: str = ""
    """The CSI driver, by which volumes per node are limited; "" if it has none."""
    handle: str = ""


class VolumeClaim(Packed, frozen=True):
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    uid: str = ""
    request: int = 0
    """Bytes."""
    storage_class: str | None = None
    """None = not set (the default class); "" = explicitly no class."""
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    volume: str = ""
    """``spec.volumeName``."""
    selector: Selector | None = None
    """Selects volumes; None = any volume."""
    phase: str = ""
    bound: bool = False
    """Volume and claim are bound to each other (annotation ``pv.kubernetes.io/bind-completed``)."""
    node: str = ""
    """The node selected for it (annotation ``volume.kubernetes.io/selected-node``)."""


class StorageClass(Packed, frozen=True):
    name: str
    provisioner: str = ""
    waits: bool = False
    """volumeBindingMode WaitForFirstConsumer; else Immediate."""
    topologies: Terms | None = None
    """allowedTopologies: alternatives, each a list of In requirements; None = everywhere."""
    default: bool = False


class CSINode(Packed, frozen=True):
    """The maximum number of volumes per CSI driver on a node."""

    name: str
    limits: tuple[tuple[str, int], ...] = ()


class ResourceQuota(Packed, frozen=True):
    """Limits for a namespace. Resource names may begin with ``requests.`` or ``limits.``."""

    namespace: str
    name: str
    hard: Amounts = ()
    """``status.hard``, or ``spec.hard`` if there is no status."""
    used: Amounts = ()
    scoped: bool = False
    """Applies only to some pods (scopes, scopeSelector)."""


class Numatopology(Packed, frozen=True):
    """The NUMA domains of a node, as an agent reports them. ``name`` is the node's."""

    name: str
    policies: tuple[tuple[str, str], ...] = ()
    """``CPUManagerPolicy`` and ``TopologyManagerPolicy``."""
    resources: tuple[tuple[str, str, int], ...] = ()
    """(resource, allocatable ids such as "0-3,8", capacity)."""
    cpus: tuple[tuple[int, int, int, int], ...] = ()
    """(cpu, numa, socket, core)."""
    reserved: Amounts = ()
