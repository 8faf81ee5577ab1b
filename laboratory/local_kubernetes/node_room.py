"""Admission of a kubelet: the pods on a node may not request more than the node has."""

from __future__ import annotations

from collections import defaultdict

from laboratory.local_kubernetes.client import Json
from shared.units.quantity import amount

Amounts = dict[str, int]
_REASONS = {"cpu": "OutOfcpu", "memory": "OutOfmemory", "pods": "OutOfpods"}


class NodeRoom:
    """Requests of the admitted pods of each node, against what the node has."""

    def __init__(self) -> None:
        self._allocatable: dict[str, Amounts] = {}
        self._used: dict[str, Amounts] = defaultdict(lambda: defaultdict(int))
        self._admitted: dict[str, tuple[str, Amounts]] = {}

    def add_node(self, name: str, allocatable: dict[str, str]) -> None:
        self._allocatable[name] = {r: amount(r, text, r) for r, text in allocatable.items()}

    def remove_node(self, name: str) -> None:
        self._allocatable.pop(name, None)

    def admit(self, pod: Json) -> str:
        """Take the pod's room, once; otherwise return the reason that a kubelet gives."""
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        if uid in self._admitted:
            return ""
        requests = requests_of(pod)
        used, allocatable = self._used[node], self._allocatable[node]
        for resource, wanted in requests.items():
            if wanted and used[resource] + wanted > allocatable.get(resource, 0):
                return _REASONS.get(resource, f"OutOf{resource}")
        for resource, wanted in requests.items():
            used[resource] += wanted
        self._admitted[uid] = node, requests
        return ""

    def release(self, uid: str) -> None:
        node, requests = self._admitted.pop(uid, ("", {}))
        for resource, amounts in requests.items():
            self._used[node][resource] -= amounts


def requests_of(pod: Json) -> Amounts:
    """The sum over its containers, with the pod itself as one of ``pods``."""
    total: Amounts = defaultdict(int, pods=1)
    for container in pod["spec"]["containers"]:
        for resource, text in container.get("resources", {}).get("requests", {}).items():
            total[resource] += amount(resource, text, resource)
    return total
