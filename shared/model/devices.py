"""Devices by dynamic resource allocation: what nodes have, what claims ask for and got."""

from __future__ import annotations

from dataclasses import dataclass

from shared.model.constraints import Taint, Terms, Toleration


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a device. ``kind``: int, bool, string or version (text too)."""

    name: str
    """With its domain, where one is written."""
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
    """Devices of one pool of a driver, on one node, on those a selector lets in, or on all."""

    name: str
    driver: str
    pool: str
    generation: int = 0
    slices: int = 1
    """How many slices make the pool whole."""
    node: str = ""
    all_nodes: bool = False
    selector: Terms | None = None
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClass:
    name: str
    selectors: tuple[str, ...] = ()
    """CEL, all must hold."""
    extended_resource: str = ""


@dataclass(frozen=True, slots=True)
class DeviceAsk:
    """So many devices of a class."""

    device_class: str
    name: str = ""
    """Of an alternative; "" where there is one only."""
    selectors: tuple[str, ...] = ()
    """CEL, all must hold beside those of the class."""
    count: int = 1
    everything: bool = False
    """allocationMode All: every device that fits; ``count`` means nothing."""
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    """Of a shared device, in thousandths."""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of a claim: the first of its alternatives that can be had."""

    name: str
    asks: tuple[DeviceAsk, ...]


@dataclass(frozen=True, slots=True)
class DeviceMatch:
    """The devices of these requests (() = all) have the same value, or with ``distinct`` each
    another value, of an attribute."""

    attribute: str
    requests: tuple[str, ...] = ()
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """One device that a claim got. ``request`` is ``name`` or ``name/alternative``."""

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
    """Nodes that can reach the devices; None = all."""


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    namespace: str
    name: str
    requests: tuple[DeviceRequest, ...] = ()
    matches: tuple[DeviceMatch, ...] = ()
    allocation: Allocation | None = None
    reserved: tuple[str, ...] = ()
    """uids of the pods that use it."""


@dataclass(frozen=True, slots=True)
class ResourceClaimTemplate:
    """A claim of this form is made for every pod that names it."""

    namespace: str
    name: str
    requests: tuple[DeviceRequest, ...] = ()
    matches: tuple[DeviceMatch, ...] = ()
