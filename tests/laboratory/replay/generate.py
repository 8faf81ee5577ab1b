"""Random recorded clusters, small ones, by seed: all that a session, or the ledger, tells apart."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.builders.objects import hyper_node, priority_class, queue
from tests.laboratory.replay.build import Json, foreign, group, node, pod

POLICIES = (
    (
        "enqueue, allocate, backfill",
        (("priority", "gang", "conformance"), ("drf", "predicates", "proportion", "nodeorder")),
    ),
    (
        "allocate, preempt, backfill",
        (("priority", "gang", "conformance"), ("drf", "predicates", "proportion", "binpack")),
    ),
    (
        "enqueue, reclaim, allocate, backfill, preempt",
        (("priority", "gang", "conformance"), ("predicates", "capacity", "nodeorder")),
    ),
    ("reclaim, allocate", (("conformance", "gang", "proportion", "predicates"),)),
    ("allocate, preempt, reclaim", (("priority", "gang"), ("drf", "proportion", "predicates"))),
    ("allocate, gangpreempt", (("priority", "gang", "conformance"), ("predicates", "capacity"))),
    ("gangreclaim, allocate", (("priority", "gang", "capacity", "predicates"),)),
    ("allocate, backfill, preempt", (("priority", "predicates"),)),
    (
        "enqueue, allocate, backfill, preempt, reclaim",
        (("priority", "gang"), ("predicates", "capacity", "network-topology-aware")),
    ),
)


def policy_of(draw: Random, *, tree: bool) -> Json:
    """``tree``: queues have parents."""
    actions, tiers = draw.choice(POLICIES)
    plugins = [[{"name": name} for name in tier] for tier in tiers]
    for option in (option for tier in plugins for option in tier):
        if tree and option["name"] == "capacity":
            option |= {"enableHierarchy": True}  # type: ignore[dict-item]
    return {"actions": actions, "tiers": [{"plugins": tier} for tier in plugins]}


def cluster(draw: Random, *, tree: bool) -> list[Json]:
    """Draw a cluster as ``kubectl get`` might print it."""
    nodes = [_node(draw, i) for i in range(draw.randint(1, 5))]
    names = [obj["metadata"]["name"] for obj in nodes]
    queues = [_queue(draw, name) for name in ("red", "green", "blue")[: draw.randint(1, 3)]]
    items = [*nodes, *queues, priority_class("mid", 10), priority_class("top", 100)]
    if tree:
        items += [queue("root"), queue("half", parent="root")]
        for item in queues:
            item["spec"]["parent"] = draw.choice(["root", "half"])
    items += [hyper_node(f"rack-{part}", *names[part::2]) for part in (0, 1) if names[part::2]]
    room = {obj["metadata"]["name"]: int(obj["status"]["allocatable"]["cpu"]) for obj in nodes}
    for i in range(draw.randint(1, 8)):
        items += _group(draw, f"g{i}", [q["metadata"]["name"] for q in queues], room)
    items += [foreign(f"f{i}", on=draw.choice(names), cpu=0.5) for i in range(draw.randint(0, 2))]
    return items


def _node(draw: Random, i: int) -> Json:
    node_item = node(f"n{i}", cpu=draw.randint(1, 6), zone=draw.choice("ab"))
    node_item["status"]["allocatable"]["pods"] = str(draw.choice([3, 110, 110]))
    if draw.random() < 0.1:
        node_item["spec"] = {"unschedulable": True}
    return node_item


def _queue(draw: Random, name: str) -> Json:
    spec: Json = {"weight": draw.randint(1, 3), "reclaimable": draw.random() < 0.9}
    if draw.random() < 0.4:
        spec["capability"] = {"cpu": str(draw.randint(2, 12))}
    if draw.random() < 0.6:
        spec["deserved"] = {"cpu": str(draw.randint(1, 6))}
    if draw.random() < 0.3:
        spec["guarantee"] = {"resource": {"cpu": "1"}}
    return queue(name, **spec)


def _group(draw: Random, name: str, queues: list[str], room: dict[str, int]) -> list[Json]:
    """Some of its pods run, as far as there is room; some others are in other states."""
    size = draw.randint(1, 5)
    runs = draw.random() < 0.6
    spec: Json = {"queue": draw.choice(queues), "minMember": draw.randint(0, size)}
    if draw.random() < 0.3:
        spec["priorityClassName"] = draw.choice(["mid", "top"])
    if draw.random() < 0.2:
        spec["minTaskMember"] = {"a": 1, "b": draw.randint(0, 2)}
    if draw.random() < 0.2:
        mode = draw.choice(["hard", "soft"])
        spec["networkTopology"] = {"mode": mode, "highestTierAllowed": 1}
    if draw.random() < 0.3:
        spec["minResources"] = {"cpu": str(draw.randint(1, size))}
    items: list[Json] = [_group_object(draw, name, spec, runs=runs)]
    items += [_pod(draw, f"{name}-{i}", name, room if runs else {}) for i in range(size)]
    return items


def _group_object(draw: Random, name: str, spec: Json, *, runs: bool) -> Json:
    phase = "Running" if runs else draw.choice(["Inqueue", "Inqueue", "Pending"])
    return group(name, phase=phase, **spec)


def _pod(draw: Random, name: str, group: str, room: dict[str, int]) -> Json:
    cpu = draw.choice([0, 1, 1, 1, 2])
    free = [on for on, left in room.items() if left >= cpu]
    on = draw.choice(free) if free and draw.random() < 0.8 else ""
    if on:
        room[on] -= cpu
    phases = ["Running"] * 8 + ["Pending", "Succeeded", "Unknown"]
    pod_item = pod(name, group=group, cpu=cpu, on=on, phase=draw.choice(phases) if on else "")
    if not cpu:
        pod_item["spec"]["containers"][0]["resources"] = {}
    marks: dict[str, Any] = pod_item["metadata"]["annotations"]
    marks["volcano.sh/task-spec"] = draw.choice("ab")
    if draw.random() < 0.15:
        marks["volcano.sh/preemptable"] = draw.choice(["true", "false"])
    if draw.random() < 0.1:
        pod_item["spec"]["nodeSelector"] = {"zone": draw.choice("ab")}
    if draw.random() < 0.1:
        pod_item["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    if on and draw.random() < 0.05:
        pod_item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return pod_item
