"""Claims of devices: each on a node can have devices that it asks for, and no two the same
(promise 2).

Which device a claim gets is in no event before its allocation is stored. So all claims of a node
are held against all devices that it ever reached: there has to be a way to give each the number
that it asks for, out of those that its expressions select
(:mod:`laboratory.checker.placement.device_selectors`). Once an allocation is stored,
its devices must be such, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from laboratory.checker.placement.device_selectors import selects
from laboratory.checker.placement.labels import on_node
from laboratory.checker.state.books import CheckerBooks, Facts

SLICE, CLAIM, TEMPLATE = "resourceslice/", "resourceclaim/", "claimtemplate/"
CLASS = "deviceclass/"

DeviceKey = tuple[str, str, str]
"""(driver, pool, device)"""


@dataclass(slots=True)
class _Wanted:
    """Some devices that one request needs; each may be one of these."""

    count: int
    fitting: list[DeviceKey]


class DeviceChecks:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._reached: dict[str, dict[DeviceKey, Facts]] = {}
        """Node -> the devices that it ever reached: who runs keeps what was taken away since."""
        self._shared: set[str] = set()
        """Nodes where several claims may share a device by capacity: a number proves nothing."""

    def missing(self, namespace: str, rules: Facts) -> str:
        """A claim or template named by the class that does not exist; "" if all exist."""
        named = [f"{CLAIM}{namespace}/{name}" for name in rules.get("claims", ())]
        named += [f"{TEMPLATE}{namespace}/{name}" for name in rules.get("claim_templates", ())]
        return next((key for key in named if key not in self._books.objects), "")

    def beyond(self, row: int, namespace: str, rules: Facts) -> str:
        """A claim whose devices this node does not reach; "" if there is none."""
        name, labels = self._books.nodes.names[row], self._books.labels_of(row)
        for claim in rules.get("claims", ()):
            facts = self._books.objects.get(f"{CLAIM}{namespace}/{claim}", {})
            terms = facts.get("allocation", {}).get("nodes")
            if terms is not None and not on_node(terms, name, labels):
                return f"claim {claim} has its devices elsewhere"
        return ""

    def short(self, node: str, present: dict[tuple[int, int], int]) -> str:
        """The problem with the claims of these tasks (-> class) on a node; "" if there is none."""
        keys: list[str] = []
        shared: set[str] = set()
        for (jid, _), cid in present.items():
            rules = self._books.rules.get(cid)
            if rules is None:
                continue
            namespace = self._books.jobs[jid].namespace
            keys += [f"{TEMPLATE}{namespace}/{name}" for name in rules.get("claim_templates", ())]
            shared |= {f"{CLAIM}{namespace}/{name}" for name in rules.get("claims", ())}
        requests = [request for key in (*keys, *sorted(shared)) for request in self._requests(key)]
        if not requests:
            return ""
        self._look(node)
        if node in self._shared:
            return ""
        devices = self._reached.get(node, {})
        count = sum(_fewest(request) for request in requests)
        if count > len(devices):
            return f"its claims want {count} devices, it has {len(devices)}"
        device_sets = [self._wanted(request, devices) for request in requests]
        left = _without_device(device_sets)
        return "" if left is None else f"its claims cannot all have devices: {left}"

    def allocated(self, key: str, facts: Facts) -> str:
        """The problem with the stored allocation of a claim; "" if there is none."""
        results = facts.get("allocation", {}).get("results", ())
        asks = {
            name: ask
            for request in facts.get("requests", ())
            for ask in request["asks"]
            for name in (request["name"], f"{request['name']}/{ask.get('name', '')}")
        }
        for result in results:
            device = (result["driver"], result["pool"], result["device"])
            known = next((d[device] for d in self._reached.values() if device in d), None)
            ask = asks.get(result["request"])
            if known is not None and ask is not None and not self._selects(ask, device, known):
                return f"{key} has device {result['device']}, which it does not select"
        return ""

    def _requests(self, key: str) -> list[Facts]:
        requests: list[Facts] = self._books.objects.get(key, {}).get("requests", [])
        return requests

    def _wanted(self, request: Facts, devices: dict[DeviceKey, Facts]) -> _Wanted:
        """The fewest devices of any alternative, out of those that one of them selects."""
        fitting = [
            key
            for key, device in devices.items()
            if any(self._selects(ask, key, device) for ask in request["asks"])
        ]
        return _Wanted(_fewest(request), fitting)

    def _selects(self, ask: Facts, key: DeviceKey, device: Facts) -> bool:
        of_class = self._books.objects.get(CLASS + ask["device_class"], {}).get("selectors", ())
        return selects((*of_class, *ask.get("selectors", ())), key[0], device)

    def _look(self, node: str) -> None:
        """Add the devices that a node reaches now."""
        reached = self._reached.setdefault(node, {})
        for slice_facts in _newest(self._books.objects):
            if not self._reaches(node, slice_facts):
                continue
            for device in slice_facts.get("devices", ()):
                reached[slice_facts["driver"], slice_facts["pool"], device["name"]] = device
                if device.get("shared"):
                    self._shared.add(node)

    def _reaches(self, node: str, slice_facts: Facts) -> bool:
        if slice_facts.get("node"):
            return bool(slice_facts["node"] == node)
        if slice_facts.get("all_nodes"):
            return True
        terms = slice_facts.get("selector")
        rows = (row for row, name in self._books.nodes.names.items() if name == node)
        return terms is not None and any(
            on_node(terms, node, self._books.labels_of(row)) for row in rows
        )


def _needed(ask: dict[str, Any]) -> int:
    if ask.get("admin"):
        return 0
    return 1 if ask.get("everything") else int(ask.get("count", 1))


def _fewest(request: Facts) -> int:
    """How many devices the request needs at least, whichever alternative it gets."""
    return min(map(_needed, request["asks"]))


def _without_device(wanted: list[_Wanted]) -> str | None:
    """Give each request its devices, moving what others have where that helps (augmenting paths);
    the request that cannot have all of its own, None if every one can."""
    owner: dict[DeviceKey, int] = {}

    def give(number: int, tried: set[DeviceKey]) -> bool:
        for key in wanted[number].fitting:
            if key in tried:
                continue
            tried.add(key)
            if key not in owner or give(owner[key], tried):
                owner[key] = number
                return True
        return False

    for number, each in enumerate(wanted):
        for _ in range(each.count):
            if not give(number, set()):
                return f"one wants {each.count} of the {len(each.fitting)} that it selects"
    return None


def _newest(objects: dict[str, Facts]) -> Iterable[Facts]:
    """The slices of each pool's newest generation."""
    slices = [slice_facts for key, slice_facts in objects.items() if key.startswith(SLICE)]
    newest: dict[tuple[str, str], int] = {}
    for slice_facts in slices:
        pool = (slice_facts["driver"], slice_facts["pool"])
        newest[pool] = max(newest.get(pool, 0), slice_facts.get("generation", 0))
    return (t for t in slices if t.get("generation", 0) == newest[t["driver"], t["pool"]])
