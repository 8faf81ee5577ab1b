"""Random scenarios for KAI, by seed, in a short form that is easy to vary.

A form (:data:`Form`) has ``actions``, ``nodes``, ``queues`` and ``groups``; :func:`scenario_of_kai`
makes the objects of it. The plugins are those of KAI's default.
"""

from __future__ import annotations

from random import Random
from typing import Any

from shared.model.kai_devices import labels_of
from shared.units.times import rfc3339
from tests.builders.objects import (
    GPU,
    UNLIMITED,
    kai_group,
    kai_queue,
    node,
    pod,
    priority_class,
)

Form = dict[str, Any]
Json = dict[str, Any]

NOW = 1_767_225_600.0
"""2026-01-01: time of the session."""
CLASSES = {"train": 50, "build": 100, "high": 75}
"""Priority classes. From 100 on nobody is preempted."""
DEVICE_MIB = "16000"
ACTIONS = (
    "allocate",
    "allocate, consolidation",
    "allocate, reclaim",
    "allocate, preempt",
    "allocate, consolidation, reclaim, preempt",
)
"""Allocate is first, as in KAI's own cycle: a search for victims expects that nothing fits any
more."""


def drawn_kai(draw: Random) -> Form:
    """A form of a few nodes, queues in departments, and groups, some of whose pods run where they
    fit."""
    nodes = {f"n{i}": _node(draw) for i in range(draw.randint(1, 4))}
    departments = ("north", "south")[: draw.randint(1, 2)]
    queues: dict[str, Json] = {name: _queue(draw, most=12) for name in departments}
    leaves = ("red", "green", "blue")[: draw.randint(1, 3)]
    for name in leaves:
        queues[name] = {"parent": draw.choice(departments), **_queue(draw, most=6)}
    room = {name: dict(amounts) for name, amounts in nodes.items()}
    groups = [_group(draw, name, leaves, room) for name in "abcde"[: draw.randint(1, 5)]]
    return {"actions": draw.choice(ACTIONS), "nodes": nodes, "queues": queues, "groups": groups}


def _node(draw: Random) -> Json:
    return {"cpu": draw.choice([4, 8, 16]), "gpu": draw.choice([0, 1, 2, 2, 4, 4, 8])}


def _queue(draw: Random, *, most: int) -> Json:
    spec: Json = {"quota": draw.randint(0, most), "weight": draw.randint(0, 3)}
    if draw.random() < 0.2:
        spec["limit"] = draw.randint(1, most)
    if draw.random() < 0.2:
        spec["cpuQuota"] = 1000 * draw.randint(1, 8)
    if draw.random() < 0.2:
        spec["priority"] = draw.choice([50, 200])
    return spec


def _group(draw: Random, name: str, queues: tuple[str, ...], room: dict[str, Json]) -> Json:
    runs = draw.random() < 0.55
    kinds = [_pods(draw, room if runs else {}) for _ in range(draw.choice([1, 1, 1, 2]))]
    size = sum(each["times"] for each in kinds)
    least = 1 if draw.random() < 0.4 else draw.randint(1, size)
    return {
        "name": name,
        "queue": draw.choice(queues),
        "min": least,
        "class": draw.choice(["train", "train", "train", "high", "build"]),
        "pods": kinds,
    }


def _pods(draw: Random, room: dict[str, Json]) -> Json:
    """Some equal pods, on one node if it has room for all of them."""
    kind: Json = {"times": draw.randint(1, 3), "cpu": draw.choice([0.5, 1, 1, 2])}
    if draw.random() < 0.15:
        kind["percent"] = draw.choice([25, 50, 50, 75])
    else:
        kind["gpu"] = draw.choice([0, 1, 1, 1, 2, 2, 4])
    times = kind["times"]
    devices = times * kind.get("gpu", 1)  # a running pod with a part of a device has it alone
    fits = [
        on
        for on, left in room.items()
        if left["cpu"] >= times * kind["cpu"] and left["gpu"] >= devices
    ]
    if fits and draw.random() < 0.9:
        kind["on"] = on = draw.choice(fits)
        room[on]["cpu"] -= times * kind["cpu"]
        room[on]["gpu"] -= devices
    return kind


def scenario_of_kai(name: str, form: Form) -> Json:
    """The form as ``quadrant replay`` and the Go program read it."""
    cluster: Json = {
        "nodes": [_node_object(*each) for each in form["nodes"].items()],
        "queues": [
            _queue_object(i, *each) for i, each in enumerate(sorted(form["queues"].items()))
        ],
        "podGroups": [_group_object(i, group) for i, group in enumerate(form["groups"])],
        "pods": [item for group in form["groups"] for item in _pod_objects(group)],
        "priorityClasses": [priority_class(*each) for each in CLASSES.items()],
    }
    policy = {"dialect": "kai", "actions": form["actions"]}
    return {"id": name, "now": rfc3339(NOW), "policy": policy, "cluster": cluster}


def _created(position: int) -> str:
    """A time by which objects are ordered: equal ones would be a tie."""
    return rfc3339(NOW - 7200 + 60 * position)


def _node_object(name: str, amounts: Json) -> Json:
    item = node(name, cpu=amounts["cpu"], memory="64Gi", gpus=amounts["gpu"])
    item["status"]["capacity"] = item["status"]["allocatable"]
    if amounts["gpu"]:
        item["metadata"]["labels"] = {
            "nvidia.com/gpu.count": str(amounts["gpu"]),
            "nvidia.com/gpu.memory": DEVICE_MIB,
        }
    return item


def _queue_object(position: int, name: str, written: Json) -> Json:
    gpu = {
        "quota": written["quota"],
        "overQuotaWeight": written["weight"],
        "limit": written.get("limit", -1),
    }
    cpu = UNLIMITED | {"quota": written.get("cpuQuota", -1)}
    item = kai_queue(name, written.get("parent", ""), gpu=gpu, cpu=cpu)
    if "priority" in written:
        item["spec"]["priority"] = written["priority"]
    item["metadata"] |= {"uid": name, "creationTimestamp": _created(position)}
    return item


def _group_object(position: int, group: Json) -> Json:
    # KAI's definition refuses 0, which a variant may have.
    spec = {"minMember": max(1, group["min"]), "priorityClassName": group["class"]}
    item = kai_group(group["name"], group["queue"], **spec)
    item["metadata"] |= {"uid": group["name"], "creationTimestamp": _created(position)}
    if any("on" in kind for kind in group["pods"]):
        started = {"kai.scheduler/last-start-timestamp": _created(position)}
        item["metadata"]["annotations"] = started
    return item


def _pod_objects(group: Json) -> list[Json]:
    return [
        _pod_object(group, f"{part}-{i}", kind)
        for part, kind in enumerate(group["pods"])
        for i in range(kind["times"])
    ]


def _pod_object(group: Json, number: str, kind: Json) -> Json:
    requests = {"cpu": str(kind["cpu"]), "memory": "1Gi"}
    if kind.get("gpu"):
        requests[GPU] = str(kind["gpu"])
    spec: Json = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "c", "resources": {"requests": requests}}],
    }
    if "on" in kind:
        spec["nodeName"] = kind["on"]
    item = pod(f"{group['name']}-{number}", **spec)
    marks = {"pod-group-name": group["name"]}
    item["metadata"]["uid"] = f"ns-{group['name']}-{number}"
    if "percent" in kind:
        marks["gpu-fraction"] = f"{kind['percent'] / 100:g}"
        if "on" in kind:
            item["metadata"]["labels"] = labels_of([f"{group['name']}-{number}"])
            marks["received-resource-type"] = "Fraction"
    item["metadata"]["annotations"] = marks
    item["status"] = {"phase": "Running" if "on" in kind else "Pending"}
    return item
