"""Which devices the claims of a task get on one node: a search that goes back where it got stuck.

Requests are served in the order in which they are written, a request's alternatives likewise, the
devices in the order of their pools; the first solution is taken. The search is bounded in steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shard_worker.plugins.cel import CelError
from shard_worker.plugins.device_pools import Key, Offer, Pools, attribute_of
from shared.model import DeviceAsk, DeviceMatch, DeviceRequest

MOST_DEVICES = 32
"""Of one claim."""
STEPS = 50_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """One claim that has no devices yet."""

    key: str
    requests: tuple[DeviceRequest, ...]
    matches: tuple[DeviceMatch, ...]


@dataclass(slots=True)
class Usage:
    """What of the devices is given away."""

    whole: set[Key] = field(default_factory=set)
    parts: dict[Key, dict[str, int]] = field(default_factory=dict)
    """Of shared devices: capacity -> what is taken of it, in thousandths."""

    def add(self, got: Got) -> None:
        if got.admin:
            return
        if not got.offer.device.shared:
            self.whole.add(got.offer.key)
            return
        parts = self.parts.setdefault(got.offer.key, {})
        for name, units in got.capacity:
            parts[name] = parts.get(name, 0) + units

    def drop(self, got: Got) -> None:
        if got.admin:
            return
        if not got.offer.device.shared:
            self.whole.discard(got.offer.key)
            return
        parts = self.parts[got.offer.key]
        for name, units in got.capacity:
            parts[name] -= units


@dataclass(frozen=True, slots=True)
class Got:
    """A device that a request of a claim gets."""

    claim: str
    request: str
    """``name``, or ``name/alternative``."""
    offer: Offer
    admin: bool = False
    capacity: tuple[tuple[str, int], ...] = ()
    """Taken of a shared device."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """One alternative of a request of a claim."""

    claim: Wanted
    ask: DeviceAsk
    name: str


class Search:
    """``usage`` is changed while it runs and as it was when it is done."""

    def __init__(self, pools: Pools, offers: Sequence[Offer], usage: Usage) -> None:
        """``offers``: what the node reaches, in the order in which it is tried."""
        self._pools = pools
        self._offers = offers
        self._usage = usage
        self._left = STEPS
        self._got: list[Got] = []

    def run(self, claims: Sequence[Wanted]) -> list[Got] | None:
        """None where not all claims can be served. Raises CelError where a selector that had to be
        asked comes to no answer."""
        todo = [(claim, request) for claim in claims for request in claim.requests]
        try:
            found = next(self._requests(todo), None)
            return None if found is None else list(found)
        finally:
            while self._got:
                self._back()

    def _requests(self, todo: list[tuple[Wanted, DeviceRequest]]) -> Iterator[list[Got]]:
        if not todo:
            yield self._got
            return
        (claim, request), rest = todo[0], todo[1:]
        for ask in request.asks:
            name = f"{request.name}/{ask.name}" if ask.name else request.name
            for _ in self._served(_Asked(claim, ask, name)):
                yield from self._requests(rest)

    def _served(self, asked: _Asked) -> Iterator[None]:
        """Each way to serve one request; its devices are taken while the caller looks on."""
        if not asked.ask.everything:
            yield from self._some(asked, asked.ask.count, 0)
            return
        if self._pools.broken:
            raise CelError("cannot tell all devices: a pool of them is not complete")
        every = [offer for offer in self._offers if self._suits(asked.ask, offer)]
        before = len(self._got)
        if every and all(self._take(asked, offer) for offer in every):
            yield
        while len(self._got) > before:
            self._back()

    def _some(self, asked: _Asked, count: int, start: int) -> Iterator[None]:
        """Each choice of ``count`` devices from place ``start`` on."""
        if not count:
            yield
            return
        tried: set[int] = set()
        for i in range(start, len(self._offers) - count + 1):
            offer = self._offers[i]
            if offer.kind in tried:
                continue  # one like it was tried in this place already
            if self._suits(asked.ask, offer) and self._take(asked, offer):
                if not offer.device.shared:
                    tried.add(offer.kind)
                yield from self._some(asked, count - 1, i + 1)
                self._back()

    def _suits(self, ask: DeviceAsk, offer: Offer) -> bool:
        self._left -= 1
        return self._left > 0 and self._pools.suits(ask, offer)

    def _take(self, asked: _Asked, offer: Offer) -> bool:
        """Take a device if it is free and keeps to what has to match."""
        claim, ask, shared = asked.claim, asked.ask, offer.device.shared
        mine = [got for got in self._got if got.claim == claim.key]
        if len(mine) >= MOST_DEVICES:
            return False
        if not shared and any(got.offer is offer for got in mine):
            return False
        capacity = _consumed(ask, offer) if shared else ()
        if capacity is None or not (ask.admin or self._free(offer, dict(capacity))):
            return False
        got = Got(claim.key, asked.name, offer, ask.admin, capacity)
        if not all(_agrees(match, got, mine) for match in claim.matches):
            return False
        self._got.append(got)
        self._usage.add(got)
        return True

    def _free(self, offer: Offer, asked: Mapping[str, int]) -> bool:
        if offer.key in self._usage.whole:
            return False
        if not offer.device.shared:
            return True
        taken = self._usage.parts.get(offer.key, {})
        return all(
            taken.get(name, 0) + asked.get(name, 0) <= units
            for name, units in offer.device.capacity
        )

    def _back(self) -> None:
        self._usage.drop(self._got.pop())


def _consumed(ask: DeviceAsk, offer: Offer) -> tuple[tuple[str, int], ...] | None:
    """What a request takes of a shared device: as asked, else all of a capacity. None where it asks
    for what the device does not have."""
    asked = dict(ask.capacity)
    offered = dict(offer.device.capacity)
    if not asked.keys() <= offered.keys():
        return None
    return tuple((name, asked.get(name, units)) for name, units in offered.items())


def _agrees(match: DeviceMatch, got: Got, others: Sequence[Got]) -> bool:
    """Does a device keep to one condition, beside those that the claim has got?"""
    if not _concerns(match, got):
        return True
    value = attribute_of(got.offer, match.attribute)
    if value is None:
        return False
    values = [
        attribute_of(other.offer, match.attribute) for other in others if _concerns(match, other)
    ]
    if match.distinct:
        return value not in values
    return all(one == value for one in values)


def _concerns(match: DeviceMatch, got: Got) -> bool:
    name = got.request
    return not match.requests or name in match.requests or name.split("/")[0] in match.requests
