"""Random clusters as ``kubectl get`` might write them, in which every predicate has something to
say: labels, taints, ports, volumes, claims, devices, NUMA domains, node groups, zones, topology."""

from __future__ import annotations

from random import Random

from laboratory.workloads.demands import HOSTNAME
from laboratory.workloads.drawn_objects import (
    node_marks,
    objects_around,
    queue_spec,
)
from shared.model.model import Node
from tests.builders.objects import priority_class, queue
from tests.laboratory.replay.build import Json, foreign, node
from tests.random_clusters.pods import group_of


def cluster(draw: Random, *, tree: bool) -> list[Json]:
    nodes = [_node(draw, i) for i in range(draw.randint(2, 6))]
    names = [obj["metadata"]["name"] for obj in nodes]
    named = ("red", "green", "blue")[: draw.randint(1, 3)]
    queues = [queue(name, **queue_spec(draw)) for name in named]
    items = [*nodes, *queues, priority_class("mid", 10), priority_class("top", 100)]
    if tree:
        items += [queue("root"), queue("half", parent="root")]
        for obj in queues:
            obj["spec"]["parent"] = draw.choice(["root", "half"])
    items += objects_around(draw, names)
    room = {obj["metadata"]["name"]: int(obj["status"]["allocatable"]["cpu"]) for obj in nodes}
    for i in range(draw.randint(1, 8)):
        items += group_of(draw, f"g{i}", [q["metadata"]["name"] for q in queues], room)
    items += [foreign(f"f{i}", on=draw.choice(names), cpu=0.5) for i in range(draw.randint(0, 2))]
    return items


def node_usage(draw: Random, nodes: list[Node]) -> dict[str, dict[str, float]]:
    """Drawn figures of a metrics source for some of the nodes."""
    some = [node.name for node in nodes if draw.random() < 0.7]
    return {name: {"cpu": draw.uniform(0, 100), "memory": draw.uniform(0, 100)} for name in some}


def _node(draw: Random, i: int) -> Json:
    name = f"n{i}"
    obj = node(name, cpu=draw.randint(1, 8), zone=draw.choice("ab"))
    marks = node_marks(draw)
    obj["metadata"]["labels"] |= {HOSTNAME: name, **marks["labels"]}
    if marks["annotations"]:
        obj["metadata"]["annotations"] = marks["annotations"]
    obj["status"]["allocatable"] |= marks["allocatable"]
    return {**obj, "spec": marks["spec"]}
