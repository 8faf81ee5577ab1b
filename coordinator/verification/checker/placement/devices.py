"""Claims of devices: no node gets more than the devices it reaches (promise 2).

Devices are counted, not assigned: which device a claim gets is in no event before its allocation is
stored, and the expressions of claims are not evaluated here. More claims than devices is wrong
whatever they mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coordinator.verification.checker.placement.labels import on_node
from coordinator.verification.checker.state.books import CheckerBooks, Facts

SLICE, CLAIM, TEMPLATE = "resourceslice/", "resourceclaim/", "claimtemplate/"


class DeviceChecks:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._most: dict[str, int] = {}
        """Node -> the most devices that it ever reached."""

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
        count, shared = 0, set()
        for (jid, _), cid in present.items():
            rules = self._books.rules.get(cid)
            if rules is None:
                continue
            namespace = self._books.jobs[jid].namespace
            for name in rules.get("claim_templates", ()):
                count += self._count(f"{TEMPLATE}{namespace}/{name}")
            shared |= {f"{CLAIM}{namespace}/{name}" for name in rules.get("claims", ())}
        count += sum(self._count(key) for key in shared)
        if not count:
            return ""
        self._look(node)
        most = self._most.get(node, 0)
        return f"its claims want {count} devices, it has {most}" if count > most else ""

    def _count(self, key: str) -> int:
        """Minimum number of exclusive devices that a claim needs."""
        facts = self._books.objects.get(key, {})
        return sum(min(map(_needed, request["asks"])) for request in facts.get("requests", ()))

    def _look(self, node: str) -> None:
        """Update the number of devices that a node reaches. The maximum counts, for tasks that run
        there already."""
        count = 0
        for slice_facts in _newest(self._books.objects):
            devices = slice_facts.get("devices", ())
            if any(device.get("shared") for device in devices):
                count = UNBOUNDED  # several claims share them by capacity
            elif self._reaches(node, slice_facts):
                count += len(devices)
        self._most[node] = max(self._most.get(node, 0), count)

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


UNBOUNDED = 1 << 40
"""Devices of a node where one is shared by capacity: a count of claims proves nothing there."""


def _needed(ask: dict[str, Any]) -> int:
    if ask.get("admin"):
        return 0
    return 1 if ask.get("everything") else int(ask.get("count", 1))


def _newest(objects: dict[str, Facts]) -> Iterable[Facts]:
    """The slices of each pool's newest generation."""
    slices = [slice_facts for key, slice_facts in objects.items() if key.startswith(SLICE)]
    newest: dict[tuple[str, str], int] = {}
    for slice_facts in slices:
        pool = (slice_facts["driver"], slice_facts["pool"])
        newest[pool] = max(newest.get(pool, 0), slice_facts.get("generation", 0))
    return (t for t in slices if t.get("generation", 0) == newest[t["driver"], t["pool"]])
