"""Requests of a chaos run's pods on a real API server beside cores, and the objects for them.

Each node has two devices for claims. Pods without an end stand under a budget.
"""

from __future__ import annotations

from typing import Any

from laboratory.chaos.load import LASTS, NAMESPACE
from laboratory.workloads import demands
from laboratory.workloads.manifests import manifest

Item = dict[str, Any]

CLAIMED_DEVICES = 2
"""Devices for claims on each node."""
MOST_LASTING = 16
"""Pods of the lowest rank without an end, at a time. Of those, the budget keeps :data:`KEPT`."""
KEPT = 4
LASTING_CORES = 4
"""Cores of each lasting pod: together they leave a third of the cluster, so that wide gangs have to
displace some. What the budget keeps leaves room for every gang."""

# --- budgets ------------------------------------------------------------------------------------


def budget() -> Item:
    spec = {"minAvailable": KEPT, "selector": {"matchLabels": LASTS}}
    return manifest("PodDisruptionBudget", "lasting", spec, namespace=NAMESPACE)


# --- claims -------------------------------------------------------------------------------------


def ask_volume(pod: Item) -> Item:
    """The volume claim that the pod then has, of the same name."""
    name = pod["metadata"]["name"]
    demands.ask_volume(pod, name)
    return demands.volume_claim(name, NAMESPACE)


def ask_device(pod: Item) -> Item:
    """The claim of one device that the pod then has, of the same name."""
    name = pod["metadata"]["name"]
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    return manifest("ResourceClaim", name, demands.one_device(), namespace=NAMESPACE)
