"""Backtracking search for the devices that a task's claims get on one node.

Requests are served in the order in which they are written, so are the alternatives of a request;
devices are tried in the order of their pools. The first solution is used. The number of steps is
bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shard_worker.kube_scheduler.cel.tree import CelError
from shard_worker.kube_scheduler.devices.pools import Key, Offer, Pools, attribute_of
from shared.model.devices import DeviceAsk, DeviceMatch, DeviceRequest

MOST_DEVICES = 32
"""Maximum number of devices of a claim."""
STEPS = 50_000


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """A claim without devices."""

    key: str
    requests: tuple[DeviceRequest, ...]
    matches: tuple[DeviceMatch, ...]


@dataclass(slots=True)
class DeviceUsage:
    """The devices, and parts of devices, that are in use."""

    whole: set[Key] = field(default_factory=set)
    parts: dict[Key, dict[str, int]] = field(default_factory=dict)
    """Shared device -> capacity -> amount in use, in thousandths."""

    def add(self, got: AssignedDevice) -> None:
        if got.admin:
            return
        if not got.offer.device.shared:
            self.whole.add(got.offer.key)
            return
        parts = self.parts.setdefault(got.offer.key, {})
        for name, units in got.capacity:
            parts[name] = parts.get(name, 0) + units

    def drop(self, got: AssignedDevice) -> None:
        if got.admin:
            return
        if not got.offer.device.shared:
            self.whole.discard(got.offer.key)
            return
        parts = self.parts[got.offer.key]
        for name, units in got.capacity:
            parts[name] -= units


@dataclass(frozen=True, slots=True)
class AssignedDevice:
    """A device assigned to a request of a claim."""

    claim: str
    request: str
    """``name``, or ``name/alternative``."""
    offer: Offer
    admin: bool = False
    capacity: tuple[tuple[str, int], ...] = ()
    """The parts taken of a shared device."""


@dataclass(frozen=True, slots=True)
class _Alternative:
    """One alternative of one request."""

    claim: OpenClaim
    ask: DeviceAsk
    name: str


class DeviceSearch:
    """One search. It changes ``usage`` while it runs, and restores it."""

    def __init__(self, pools: Pools, offers: Sequence[Offer], usage: DeviceUsage) -> None:
        """``offers``: the devices that the node reaches, in the order to try them."""
        self._pools = pools
        self._offers = offers
        self._usage = usage
        self._left = STEPS
        self._got: list[AssignedDevice] = []

    def run(self, claims: Sequence[OpenClaim]) -> list[AssignedDevice] | None:
        """Find devices for all claims; None if not all can be served. Raises CelError if a selector
        that had to be evaluated fails."""
        todo = [(claim, request) for claim in claims for request in claim.requests]
        try:
            solution = next(self._requests(todo), None)
            return None if solution is None else list(solution)
        finally:
            while self._got:
                self._back()

    def _requests(
        self, todo: list[tuple[OpenClaim, DeviceRequest]]
    ) -> Iterator[list[AssignedDevice]]:
        if not todo:
            yield self._got
            return
        (claim, request), rest = todo[0], todo[1:]
        for ask in request.asks:
            name = f"{request.name}/{ask.name}" if ask.name else request.name
            for _ in self._served(_Alternative(claim, ask, name)):
                yield from self._requests(rest)

    def _served(self, alternative: _Alternative) -> Iterator[None]:
        """Try each way to serve one request. At each yield its devices are taken."""
        if not alternative.ask.everything:
            yield from self._some(alternative, alternative.ask.count, 0)
            return
        if self._pools.broken:
            raise CelError("cannot tell all devices: a pool of them is not complete")
        every = [offer for offer in self._offers if self._suits(alternative.ask, offer)]
        before = len(self._got)
        if every and all(self._take(alternative, offer) for offer in every):
            yield
        while len(self._got) > before:
            self._back()

    def _some(self, alternative: _Alternative, count: int, start: int) -> Iterator[None]:
        """Try each choice of ``count`` devices from index ``start`` on."""
        if not count:
            yield
            return
        tried: set[int] = set()
        for i in range(start, len(self._offers) - count + 1):
            offer = self._offers[i]
            if offer.kind in tried:
                continue  # one like it was tried in this place already
            if self._suits(alternative.ask, offer) and self._take(alternative, offer):
                if not offer.device.shared:
                    tried.add(offer.kind)
                yield from self._some(alternative, count - 1, i + 1)
                self._back()

    def _suits(self, ask: DeviceAsk, offer: Offer) -> bool:
        self._left -= 1
        return self._left > 0 and self._pools.suits(ask, offer)

    def _take(self, alternative: _Alternative, offer: Offer) -> bool:
        """Take a device if it is free and meets the match conditions."""
        claim, ask, shared = alternative.claim, alternative.ask, offer.device.shared
        claim_devices = [got for got in self._got if got.claim == claim.key]
        if len(claim_devices) >= MOST_DEVICES:
            return False
        if not shared and any(got.offer is offer for got in claim_devices):
            return False
        capacity = _consumed(ask, offer) if shared else ()
        if capacity is None or not (ask.admin or self._free(offer, dict(capacity))):
            return False
        got = AssignedDevice(claim.key, alternative.name, offer, ask.admin, capacity)
        if not all(_agrees(match, got, claim_devices) for match in claim.matches):
            return False
        self._got.append(got)
        self._usage.add(got)
        return True

    def _free(self, offer: Offer, requested: Mapping[str, int]) -> bool:
        if offer.key in self._usage.whole:
            return False
        if not offer.device.shared:
            return True
        consumed = self._usage.parts.get(offer.key, {})
        return all(
            consumed.get(name, 0) + requested.get(name, 0) <= units
            for name, units in offer.device.capacity
        )

    def _back(self) -> None:
        self._usage.drop(self._got.pop())


def _consumed(ask: DeviceAsk, offer: Offer) -> tuple[tuple[str, int], ...] | None:
    """The capacities that a request takes of a shared device: as asked, else all. None if the
    device lacks a requested capacity."""
    requested = dict(ask.capacity)
    offered = dict(offer.device.capacity)
    if not requested.keys() <= offered.keys():
        return None
    return tuple((name, requested.get(name, units)) for name, units in offered.items())


def _agrees(match: DeviceMatch, got: AssignedDevice, others: Sequence[AssignedDevice]) -> bool:
    """Whether the device meets the match condition together with those the claim already has."""
    if not _concerns(match, got):
        return True
    value = attribute_of(got.offer, match.attribute)
    if value is None:
        return False
    values = [
        attribute_of(device.offer, match.attribute) for device in others if _concerns(match, device)
    ]
    if match.distinct:
        return value not in values
    return all(each == value for each in values)


def _concerns(match: DeviceMatch, got: AssignedDevice) -> bool:
    name = got.request
    return not match.requests or name in match.requests or name.split("/")[0] in match.requests
