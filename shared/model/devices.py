"""Objects of dynamic resource allocation: device slices of nodes, claims, and their allocations."""

from __future__ import annotations

from dataclasses import dataclass

from shared.model.constraints import Taint, Terms, Toleration


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a device. ``kind``: int, bool, string or version (both with text values)."""

    name: str
    """Includes the domain, if one is written."""
    kind: str
    value: int | bool | str


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    attributes: tuple[Attribute, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    """Quantities in thousandths."""
    taints: tuple[Taint, ...] = ()
    shared: bool = False
    """allowMultipleAllocations: several claims share it by its capacity."""


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Devices of one pool of a driver, reachable from one node, from nodes matching a selector, or
    from all."""

    name: str
    driver: str
    pool: str
    generation: int = 0
    slices: int = 1
    """Number of slices of the complete pool."""
    node: str = ""
    all_nodes: bool = False
    selector: Terms | None = None
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClass:
    name: str
    selectors: tuple[str, ...] = ()
    """CEL expressions that must all hold."""
    extended_resource: str = ""


@dataclass(frozen=True, slots=True)
class DeviceAsk:
    """A request for a number of devices of a class."""

    device_class: str
    name: str = ""
    """The name of an alternative; "" if the request has only one."""
    selectors: tuple[str, ...] = ()
    """CEL expressions that must all hold, in addition to those of the class."""
    count: int = 1
    everything: bool = False
    """allocationMode All: every matching device; ``count`` is ignored."""
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    """Capacity taken of a shared device, in thousandths."""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of a claim, served by the first alternative that is available."""

    name: str
    asks: tuple[DeviceAsk, ...]


@dataclass(frozen=True, slots=True)
class DeviceMatch:
    """A constraint on the devices of these requests (() = all): an attribute has the same value for
    all, or with ``distinct`` a different one for each."""

    attribute: str
    requests: tuple[str, ...] = ()
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """A device allocated to a claim. ``request`` is ``name`` or ``name/alternative``."""

    request: str
    driver: str
    pool: str
    device: str
    admin: bool = False
    capacity: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Allocation:
    results: tuple[DeviceResult, ...] = ()
    nodes: Terms | None = None
    """Nodes that reach the devices; None = all."""


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    namespace: str
    name: str
    requests: tuple[DeviceRequest, ...] = ()
    matches: tuple[DeviceMatch, ...] = ()
    allocation: Allocation | None = None
    reserved: tuple[str, ...] = ()
    """uids of the pods that use the claim."""


@dataclass(frozen=True, slots=True)
class ResourceClaimTemplate:
    """A template: every pod that names it gets its own claim of this form."""

    namespace: str
    name: str
    requests: tuple[DeviceRequest, ...] = ()
    matches: tuple[DeviceMatch, ...] = ()
