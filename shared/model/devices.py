"""Objects of dynamic resource allocation: device slices of nodes, claims, and their allocations."""

from __future__ import annotations

from hashlib import blake2b

from shared.codec.packed import Packed
from shared.model.constraints import Taint, Terms, Toleration


class Attribute(Packed, frozen=True):
    """One attribute of a device. ``kind``: int, bool, string or version (both with text values)."""

    name: str
    """Includes the domain, if one is written."""
    kind: str
    value: int | bool | str


class Device(Packed, frozen=True):
    name: str
    attributes: tuple[Attribute, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    """Quantities in thousandths."""
    taints: tuple[Taint, ...] = ()
    shared: bool = False
    """allowMultipleAllocations: several claims share it by its capacity."""


class ResourceSlice(Packed, frozen=True):
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


class DeviceClass(Packed, frozen=True):
    name: str
    selectors: tuple[str, ...] = ()
    """CEL expressions that must all hold."""
    extended_resource: str = ""


class DeviceAsk(Packed, frozen=True):
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


class DeviceRequest(Packed, frozen=True):
    """One request of a claim, served by the first alternative that is available."""

    name: str
    asks: tuple[DeviceAsk, ...]


class DeviceMatch(Packed, frozen=True):
    """A constraint on the devices of these requests (() = all): an attribute has the same value for
    all, or with ``distinct`` a different one for each."""

    attribute: str
    requests: tuple[str, ...] = ()
    distinct: bool = False


class DeviceResult(Packed, frozen=True):
    """A device allocated to a claim. ``request`` is ``name`` or ``name/alternative``."""

    request: str
    driver: str
    pool: str
    device: str
    admin: bool = False
    capacity: tuple[tuple[str, int], ...] = ()


class Allocation(Packed, frozen=True):
    results: tuple[DeviceResult, ...] = ()
    nodes: Terms | None = None
    """Nodes that reach the devices; None = all."""


class ResourceClaim(Packed, frozen=True):
    namespace: str
    name: str
    requests: tuple[DeviceRequest, ...] = ()
    matches: tuple[DeviceMatch, ...] = ()
    allocation: Allocation | None = None
    reserved: tuple[str, ...] = ()
    """uids of the pods that use the claim."""


class ResourceClaimTemplate(Packed, frozen=True):
    """A template: every pod that names it gets its own claim of this form."""

    namespace: str
    name: str
    requests: tuple[DeviceRequest, ...] = ()
    matches: tuple[DeviceMatch, ...] = ()


def own_claim(uid: str, pod: str, template: str) -> str:
    """The name of the claim that is made of a template for a pod; ``uid``: of its job. The pod's
    next incarnation has the same."""
    apart = blake2b(f"{uid} {pod} {template}".encode(), digest_size=4).hexdigest()
    return f"{pod}-{template}-{apart}"
