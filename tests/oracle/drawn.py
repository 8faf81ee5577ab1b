"""Random scenarios of our own, by seed: small ones, in a short form that is easy to vary.

A form (:data:`Form`) has ``actions``, ``tiers`` of plugins, ``nodes``, ``queues``, ``groups`` and
``racks``; :func:`scenario_of` makes the objects of it.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.builders.objects import GPU, hyper_node, node, pod, pod_group, priority_class, queue

Form = dict[str, Any]
Json = dict[str, Any]

BASIC = ["priority", "gang", "conformance"]
SHARED = ["drf", "predicates", "proportion", "nodeorder"]
DESERVED = ["predicates", "capacity", "nodeorder"]
TREE = ["predicates", ["capacity", {"enableHierarchy": True}], "nodeorder"]
PACKED = ["predicates", "proportion", ["binpack", {"arguments": {"binpack.weight": 5}}]]
RACKS = ["predicates", "proportion", "network-topology-aware"]
POLICIES: tuple[tuple[str, list[list[Any]]], ...] = (
    ("allocate", [BASIC, SHARED]),
    ("allocate", [["gang"], PACKED]),
    ("allocate, backfill", [BASIC, SHARED]),
    ("enqueue, allocate", [BASIC, ["overcommit", *SHARED]]),
    ("enqueue, allocate", [BASIC, DESERVED]),
    ("allocate", [BASIC, DESERVED]),
    ("allocate", [BASIC, RACKS]),
    ("preempt", [[*BASIC, "proportion"], ["predicates"]]),
    ("preempt", [BASIC, DESERVED]),
    ("allocate, preempt", [BASIC, SHARED]),
    ("allocate, backfill, preempt", [BASIC, PACKED]),
    ("reclaim", [["conformance", "gang", "proportion"], ["priority", "predicates"]]),
    ("reclaim", [["conformance", "gang", "capacity"], ["predicates"]]),
    ("enqueue, reclaim, allocate", [["gang", "priority"], DESERVED]),
    ("enqueue, reclaim, allocate", [["gang", "priority"], TREE]),
    ("enqueue, allocate, backfill, preempt, reclaim", [BASIC, ["overcommit", *SHARED]]),
    ("enqueue, allocate, preempt, reclaim, backfill", [BASIC, DESERVED]),
)


def drawn(draw: Random) -> Form:
    """A form of a few nodes, queues and groups, some of whose pods run where they fit."""
    actions, tiers = draw.choice(POLICIES)
    gpus = draw.random() < 0.3
    nodes = {f"n{i}": _node(draw, gpus=gpus) for i in range(draw.randint(1, 4))}
    tree, racks = TREE in tiers, RACKS in tiers
    queues = {
        name: _queue(draw, gpus=gpus) for name in ("red", "green", "blue")[: draw.randint(1, 3)]
    }
    leaves = list(queues)
    if tree:
        for spec in queues.values():
            spec["parent"] = draw.choice(["root", "half"])
        queues |= {"root": {}, "half": _queue(draw, gpus=gpus) | {"parent": "root"}}
    room = {name: dict(amounts) for name, amounts in nodes.items()}
    groups = [
        _group(draw, name, leaves, room, racks=racks, gpus=gpus)
        for name in "abcde"[: draw.randint(1, 5)]
    ]
    form = {"actions": actions, "tiers": tiers, "nodes": nodes, "queues": queues, "groups": groups}
    if racks:
        names = list(nodes)
        form["racks"] = {f"s{part}": names[part::2] for part in (0, 1) if names[part::2]}
    return form


def _node(draw: Random, *, gpus: bool) -> Json:
    amounts = {"cpu": draw.randint(2, 8), "memory": draw.choice([8, 16]), "pods": 110}
    return amounts | ({"gpu": draw.choice([0, 2, 4, 8])} if gpus else {})


def _queue(draw: Random, *, gpus: bool) -> Json:
    spec: Json = {"weight": draw.randint(1, 4)}
    for field, chance, most in (
        ("deserved", 0.5, 8),
        ("capability", 0.3, 12),
        ("guarantee", 0.2, 2),
    ):
        if draw.random() < chance:
            spec[field] = {"cpu": draw.randint(1, most), "memory": 2 * most}
            if gpus:
                spec[field]["gpu"] = draw.randint(0, most)
    if draw.random() < 0.15:
        spec["reclaimable"] = False
    return spec


def _group(
    draw: Random, name: str, queues: list[str], room: dict[str, Json], *, racks: bool, gpus: bool
) -> Json:
    runs = draw.random() < 0.5
    kinds = [_pods(draw, room if runs else {}, gpus=gpus) for _ in range(draw.randint(1, 2))]
    size = sum(each["times"] for each in kinds)
    phase = "Running" if any(each.get("on") for each in kinds) else "Inqueue"
    group: Json = {"name": name, "queue": draw.choice(queues), "min": draw.randint(1, size)}
    group |= {"priority": draw.choice([0, 0, 10, 100]), "phase": phase, "pods": kinds}
    if phase == "Inqueue" and draw.random() < 0.4:
        group["phase"] = "Pending"
    if draw.random() < 0.4:
        group["minResources"] = {"cpu": draw.randint(1, size)}
    if racks and draw.random() < 0.7:
        group["topology"] = [draw.choice(["hard", "soft"]), 1]
    return group


def _pods(draw: Random, room: dict[str, Json], *, gpus: bool) -> Json:
    """Some equal pods, on one node if it has room for all of them."""
    times, cpu = draw.randint(1, 4), draw.choice([0.5, 1, 1, 1, 2, 2, 3])
    kind: Json = {"times": times, "cpu": cpu, "memory": draw.choice([1, 1, 2])}
    if gpus:
        kind["gpu"] = draw.choice([0, 1, 1, 2])
    amounts = [name for name in ("cpu", "memory", "gpu") if kind.get(name)]
    fits = [
        on
        for on, left in room.items()
        if all(left.get(name, 0) >= times * kind[name] for name in amounts)
    ]
    if fits and draw.random() < 0.8:
        kind["on"] = draw.choice(fits)
        for name in amounts:
            room[kind["on"]][name] -= times * kind[name]
    if draw.random() < 0.1:
        kind["preemptable"] = draw.random() < 0.5
    return kind


def scenario_of(name: str, form: Form) -> Json:
    """The form as ``quadrant replay`` and the Go program read it."""
    priorities = sorted({group["priority"] for group in form["groups"]} - {0})
    cluster: Json = {
        "nodes": [_node_object(*each) for each in form["nodes"].items()],
        "queues": [_queue_object(*each) for each in form["queues"].items()],
        "podGroups": [_group_object(group) for group in form["groups"]],
        "pods": [item for group in form["groups"] for item in _pod_objects(group)],
        "priorityClasses": [priority_class(f"p{value}", value) for value in priorities],
        "hyperNodes": [
            hyper_node(rack, *members) for rack, members in form.get("racks", {}).items()
        ],
    }
    plugins = [[_plugin(each) for each in tier] for tier in form["tiers"]]
    policy = {"actions": form["actions"], "tiers": [{"plugins": tier} for tier in plugins]}
    return {"id": name, "policy": policy, "cluster": cluster}


def _plugin(entry: Any) -> Json:
    name, options = (entry, {}) if isinstance(entry, str) else entry
    return {"name": name, **options}


_UNITS = {"cpu": ("cpu", ""), "memory": ("memory", "Gi"), "gpu": (GPU, ""), "pods": ("pods", "")}


def _amounts(written: Json) -> dict[str, str]:
    units = {name: _UNITS[name] for name in written}
    return {units[name][0]: f"{amount}{units[name][1]}" for name, amount in written.items()}


def _node_object(name: str, amounts: Json) -> Json:
    item = node(name)
    item["status"] = {"allocatable": _amounts(amounts), "capacity": _amounts(amounts)}
    return item


def _queue_object(name: str, written: Json) -> Json:
    spec = dict(written)
    for field in ("deserved", "capability"):
        if field in spec:
            spec[field] = _amounts(spec[field])
    if "guarantee" in spec:
        spec["guarantee"] = {"resource": _amounts(spec["guarantee"])}
    return queue(name, **spec)


def _group_object(group: Json) -> Json:
    spec: Json = {"queue": group["queue"], "minMember": group["min"]}
    if group["priority"]:
        spec["priorityClassName"] = f"p{group['priority']}"
    if "minResources" in group:
        spec["minResources"] = _amounts(group["minResources"])
    if "topology" in group:
        mode, tier = group["topology"]
        spec["networkTopology"] = {"mode": mode, "highestTierAllowed": tier}
    return pod_group(group["name"], uid=group["name"], **spec) | {
        "status": {"phase": group["phase"]}
    }


def _pod_objects(group: Json) -> list[Json]:
    pods = []
    for part, kind in enumerate(group["pods"]):
        requests = _amounts({key: kind[key] for key in ("cpu", "memory", "gpu") if kind.get(key)})
        spec: Json = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
        spec["priority"] = group["priority"]
        if "on" in kind:
            spec["nodeName"] = kind["on"]
        for i in range(kind["times"]):
            item = pod(f"{group['name']}-{part}-{i}", group=group["name"], **spec)
            item["metadata"]["uid"] = f"ns-{group['name']}-{part}-{i}"
            if "preemptable" in kind:
                marks = item["metadata"]["annotations"]
                marks["volcano.sh/preemptable"] = str(kind["preemptable"]).lower()
            item["status"] = {"phase": "Running" if "on" in kind else "Pending"}
            pods.append(item)
    return pods
