"""Scenarios with a full policy: all actions, rules between tasks, domains, budgets, priorities.

Extends the workload of :mod:`laboratory.scenarios.workload`, so that turns which need
a session meet the same faults as the others. Everything still fits the empty cluster.
"""

from __future__ import annotations

from random import Random
from typing import Any

from laboratory.scenarios.workload import CORES, with_hostname
from laboratory.simulation.scenario import Item, UserRequest
from laboratory.workloads.demands import HOSTNAME
from laboratory.workloads.drawn_objects import budget, hyper_node, member_of
from laboratory.workloads.manifests import manifest
from shard_worker.view.mode import Mode

RACK = 3
"""Nodes per domain."""
RANKS = {"low": 1, "mid": 5, "high": 10}

_MAKING_ROOM = (
    ["preempt"],
    ["reclaim"],
    ["preempt", "reclaim"],
    ["reclaim", "preempt"],
    ["gangpreempt", "gangreclaim"],
    ["preempt", "reclaim", "shuffle"],
)


def policy(draw: Random) -> Item:
    """A policy with random rules under which everything binds in the end."""
    entry = ["enqueue"] if draw.random() < 0.6 else []
    first = ["priority", "gang", "conformance"]
    if draw.random() < 0.5:
        first.append("pdb")
    second = ["drf"] if draw.random() < 0.5 else []
    second += ["predicates", draw.choice(["proportion", "capacity"]), "nodeorder"]
    second += ["binpack"] if draw.random() < 0.3 else []
    second += ["overcommit"] if entry and draw.random() < 0.5 else []
    second.append("network-topology-aware")
    actions = [*entry, "allocate", "backfill", *draw.choice(_MAKING_ROOM)]
    return {
        "actions": ", ".join(actions),
        "tiers": [{"plugins": [{"name": name} for name in names]} for names in (first, second)],
    }


def contended(
    draw: Random, setup: tuple[Item, ...], wishes: list[UserRequest], *, mode: Mode, shards: int
) -> tuple[tuple[Item, ...], list[UserRequest]]:
    """The same cluster and jobs with additional constraints."""
    nodes = [item["metadata"]["name"] for item in setup if item["kind"] == "Node"]
    racks = [nodes[i : i + RACK] for i in range(0, len(nodes), RACK)]
    objects = [with_hostname(item) for item in setup if item["kind"] != "PriorityClass"]
    objects += [manifest("PriorityClass", name, value=value) for name, value in RANKS.items()]
    for i, rack in enumerate(racks):
        objects.append(hyper_node(f"rack-{i}", 1, [member_of("Node", node) for node in rack]))
    objects += [budget(draw, name) for name in ("web", "db") if draw.random() < 0.5]
    apart = max(1, len(nodes) // shards - 1) if mode is Mode.HARD else len(nodes)
    near = 0 if mode is Mode.HARD else CORES * min(RACK, len(nodes))
    changed_wishes = []
    for wish in wishes:
        items = tuple(_asking(draw, item, apart=apart, near=near) for item in wish.items)
        changed_wishes.append(UserRequest(wish.at, items))
    return tuple(objects), changed_wishes


def _asking(draw: Random, item: Item, *, apart: int, near: int) -> Item:
    match item["kind"]:
        case "Node":
            return with_hostname(item)
        case "Job":
            return _job(draw, item, apart=apart, near=near)
        case "PodGroup" if draw.random() < 0.4:
            least = {"minResources": {"cpu": str(item["spec"]["minMember"])}}
            return {**item, "spec": {**item["spec"], **least}}
        case _:
            return item


def _job(draw: Random, item: Item, *, apart: int, near: int) -> Item:
    spec: Item = {**item["spec"], "priorityClassName": draw.choice(list(RANKS))}
    first, *others = spec["tasks"]
    spec["tasks"] = [_role(draw, first, apart=apart), *others]
    width = sum(role["replicas"] for role in spec["tasks"])
    if draw.random() < 0.5:  # more of it may be evicted
        spec["minAvailable"] = draw.randint(1, max(1, width // 2))
    if draw.random() < 0.2:
        apart = any("affinity" in role["template"]["spec"] for role in spec["tasks"])
        if width <= (near // CORES if apart else near) and draw.random() < 0.7:
            spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
        else:
            spec["networkTopology"] = {"mode": "soft"}
    if draw.random() < 0.15:
        spec["tasks"] = [*spec["tasks"], _idle(draw)]
    return {**item, "spec": spec}


def _role(draw: Random, role: Item, *, apart: int) -> Item:
    template: dict[str, Any] = role["template"]
    metadata, spec = dict(template["metadata"]), dict(template["spec"])
    if draw.random() < 0.4:
        app = draw.choice(["web", "db"])
        metadata["labels"] = {"app": app}
        if draw.random() < 0.4 and role["replicas"] <= apart:
            spec["affinity"] = _apart(app)
    if draw.random() < 0.2:
        preemptable = draw.choice(["true", "false"])
        metadata["annotations"] = {**metadata["annotations"], "volcano.sh/preemptable": preemptable}
    return {**role, "template": {"metadata": metadata, "spec": spec}}


def _apart(app: str) -> Item:
    rule = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}


def _idle(draw: Random) -> Item:
    """A role of best-effort tasks."""
    return {
        "name": "idle",
        "replicas": draw.randint(1, 3),
        "template": {
            "metadata": {"annotations": {"quadrant.dev/duration": "0.3"}},
            "spec": {"containers": [{"name": "c"}]},
        },
    }
