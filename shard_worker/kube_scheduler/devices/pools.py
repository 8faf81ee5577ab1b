"""The devices of a cluster: pools assembled from ResourceSlices, and matching by selectors.

Only the newest generation of a pool counts, and only if all its slices exist. A selector's result
for a device cannot change during a session, so each pair is evaluated once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shard_worker.kube_scheduler.cel.evaluate import Domains, compiled
from shard_worker.kube_scheduler.cel.tree import CelError
from shard_worker.kube_scheduler.cel.values import Quantity, semver
from shard_worker.kube_scheduler.filters.node_checks import REPELLING, tolerated
from shared.model.constraints import Terms
from shared.model.devices import Device, DeviceAsk, DeviceClass, ResourceSlice
from shared.model.objects import ClusterObjects

Key = tuple[str, str, str]
"""(driver, pool, device)."""


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A device that a slice offers. Compared by identity."""

    driver: str
    pool: str
    device: Device
    kind: int
    """Devices of the same kind differ only in name and pool."""

    @property
    def key(self) -> Key:
        return (self.driver, self.pool, self.device.name)


@dataclass(frozen=True, slots=True)
class DevicePool:
    """Devices that the same nodes reach: one named node, or the nodes that ``reach`` selects (None
    = all)."""

    node: str
    reach: Terms | None
    offers: tuple[Offer, ...]


class Pools:
    """All device groups of a world, in the order in which devices are tried."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._classes = objects.device_classes
        self._kinds: dict[object, int] = {}
        self._said: dict[tuple[str, str, int], bool | CelError] = {}
        self.offers: dict[Key, Offer] = {}
        self.local: dict[str, list[Offer]] = {}
        """Node -> the devices that only it reaches."""
        self.wide: list[DevicePool] = []
        """Groups of devices that several nodes reach."""
        self.broken = False
        """Some pool lacks slices, so a request for all devices cannot be served."""
        for slices in _generations(objects.slices.values()):
            if len(slices) != slices[0].slices:
                self.broken = True
                continue
            for each in slices:
                self._put(each)

    def _put(self, resource_slice: ResourceSlice) -> None:
        offers = tuple(self._offer(resource_slice, device) for device in resource_slice.devices)
        for offer in offers:
            self.offers[offer.key] = offer
        if resource_slice.node:
            self.local.setdefault(resource_slice.node, []).extend(offers)
        else:
            reach = None if resource_slice.all_nodes else resource_slice.selector or ()
            self.wide.append(DevicePool("", reach, offers))

    def _offer(self, resource_slice: ResourceSlice, device: Device) -> Offer:
        alike = (
            resource_slice.driver,
            device.attributes,
            device.capacity,
            device.taints,
            device.shared,
        )
        kind = self._kinds.setdefault(alike, len(self._kinds))
        return Offer(resource_slice.driver, resource_slice.pool, device, kind)

    def device_class(self, name: str) -> DeviceClass | None:
        return self._classes.get(name)

    def suits(self, ask: DeviceAsk, offer: Offer) -> bool:
        """Whether the device matches the request. Raises CelError if a selector fails."""
        cls = self._classes.get(ask.device_class)
        if cls is None:
            return False
        for expression in (*cls.selectors, *ask.selectors):
            if not self._says(expression, offer):
                return False
        return ask.admin or all(
            taint.effect not in REPELLING or tolerated(taint, ask.tolerations)
            for taint in offer.device.taints
        )

    def _says(self, expression: str, offer: Offer) -> bool:
        key = (expression, offer.driver, offer.kind)
        answer = self._said.get(key)
        if answer is None:
            answer = self._said[key] = _ask(expression, offer)
        if isinstance(answer, CelError):
            raise CelError(str(answer))
        return answer


def _generations(slices: Iterable[ResourceSlice]) -> list[list[ResourceSlice]]:
    """The slices of each pool's newest generation, ordered by the names of pools and slices."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for resource_slice in sorted(slices, key=lambda s: (s.driver, s.pool, s.name)):
        pools.setdefault((resource_slice.driver, resource_slice.pool), []).append(resource_slice)
    newest_slices = []
    for each in pools.values():
        newest = max(resource_slice.generation for resource_slice in each)
        newest_slices.append(
            [resource_slice for resource_slice in each if resource_slice.generation == newest]
        )
    return newest_slices


def _ask(expression: str, offer: Offer) -> bool | CelError:
    program = compiled(expression)
    if isinstance(program, CelError):
        return program
    try:
        return program.holds(variable(offer))
    except CelError as error:
        return error


def variable(offer: Offer) -> dict[str, object]:
    """The variable ``device`` for selectors. Names without a domain belong to the driver's
    domain."""
    attributes, capacity = Domains(), Domains()
    for attribute in offer.device.attributes:
        value: object = attribute.value
        if attribute.kind == "version":
            value = semver(str(attribute.value))
        _enter(attributes, attribute.name, offer.driver, value)
    for name, units in offer.device.capacity:
        _enter(capacity, name, offer.driver, Quantity(units))
    return {
        "driver": offer.driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": offer.device.shared,
    }


def _enter(domains: Domains, name: str, driver: str, value: object) -> None:
    domain, slash, identifier = name.rpartition("/")
    entries = domains.setdefault(domain if slash else driver, {})
    assert isinstance(entries, dict)
    entries[identifier] = value


def attribute_of(offer: Offer, name: str) -> object:
    """(kind, value) of a fully qualified attribute; None if the device does not have it."""
    for attribute in offer.device.attributes:
        full = attribute.name if "/" in attribute.name else f"{offer.driver}/{attribute.name}"
        if full == name:
            return (attribute.kind, attribute.value)
    return None
