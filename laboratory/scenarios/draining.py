"""Drains of nodes in a seeded scenario: cordoned, drained, and given back."""

from __future__ import annotations

from random import Random

from laboratory.simulation.scenario import Item, UserRequest
from laboratory.workloads.manifests import manifest

DRAINED = 0.25
"""Fraction of the seeds in which nodes are drained."""

BUDGETED = 0.6
"""Fraction of those in which disruption budgets count all pods of a namespace."""


def draining(draw: Random, setup: tuple[Item, ...]) -> list[UserRequest]:
    """One or two drains while jobs come in; none in most seeds. Each node is given back, so that
    everything fits in the end."""
    if draw.random() >= DRAINED:
        return []
    nodes = [item for item in setup if item["kind"] == "Node"]
    wishes: list[UserRequest] = []
    if draw.random() < BUDGETED:
        wishes.append(UserRequest(draw.uniform(0, 0.1), (_budget(draw),)))
    for node in draw.sample(nodes, min(len(nodes), draw.randint(1, 2))):
        at = draw.choice([draw.uniform(0.05, 0.5), draw.uniform(0.05, 2.0)])
        cordoned = {**node, "spec": {**node.get("spec", {}), "unschedulable": True}}
        wishes.append(UserRequest(at, (cordoned,)))
        wishes.append(UserRequest(at + draw.choice([0.0, 0.01]), drain=node["metadata"]["name"]))
        wishes.append(UserRequest(at + draw.uniform(0.3, 2.0), (node,)))
    return wishes


def _budget(draw: Random) -> Item:
    limit: Item = draw.choice([{"minAvailable": 1}, {"maxUnavailable": 2}, {"minAvailable": "30%"}])
    return manifest("PodDisruptionBudget", "drained", {**limit, "selector": {}}, namespace="ns")
