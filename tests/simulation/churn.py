"""What users of a seeded scenario take away and change: jobs, members, groups, queues, nodes.

Everything that is put here, or that changes here cannot finish, is deleted in the end, so that a
run still comes to an end by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from coordinator.objects.document import Key

Item = dict[str, Any]
Batch = tuple[float, list[Item]]

CLEAN_UP = 20.0
"""Seconds: everybody who comes late has come by then."""

NOWHERE = "nowhere"
"""A queue that does not exist."""


@dataclass(slots=True)
class Churn:
    batches: list[Batch] = field(default_factory=list)
    deletes: list[tuple[float, Key]] = field(default_factory=list)

    def delete(self, at: float, kind: str, name: str) -> None:
        namespace = "ns" if kind in ("Job", "Pod", "PodGroup") else ""
        self.deletes.append((at, Key(kind, namespace, name)))


def churn(draw: Random, batches: list[Batch], queues: tuple[str, ...]) -> Churn:
    """Changes to what ``batches`` bring, drawn apart from them."""
    made = Churn()
    some = draw.choice([0.0, 0.1, 0.4, 0.8])
    if not some:
        return made
    for at, items in batches:
        for item in items:
            if item["kind"] == "Job" and draw.random() < some:
                _job(draw, made, at, item)
            elif item["kind"] == "PodGroup" and draw.random() < max(some, 0.5):
                _group(draw, made, at, item, batches=batches, queues=queues)
    for number in range(draw.randint(0, 3)):
        _for_ever(draw, made, number, draw.choice(queues))
    _short_lived_queue(draw, made)
    _nodes(draw, made, batches)
    return made


def _soon(draw: Random) -> float:
    """Before it is placed, while it is bound, while it runs, or when it has ended."""
    return draw.choice([draw.uniform(0, 0.02), draw.uniform(0, 0.1), draw.uniform(0, 2.5)])


def _job(draw: Random, made: Churn, at: float, item: Item) -> None:
    """Deleted, and perhaps created again under its name, and deleted again."""
    name = item["metadata"]["name"]
    at += _soon(draw)
    made.delete(at, "Job", name)
    while draw.random() < 0.4:
        at += draw.choice([0.0, draw.uniform(0, 0.5)])
        made.batches.append((at, [item]))
        if draw.random() < 0.5:
            return
        at += _soon(draw)
        made.delete(at, "Job", name)


def _group(
    draw: Random,
    made: Churn,
    at: float,
    item: Item,
    *,
    batches: list[Batch],
    queues: tuple[str, ...],
) -> None:
    """Members go and come back, the group asks for another minimum or queue, or goes as a whole and
    comes back."""
    name = item["metadata"]["name"]
    made.delete(CLEAN_UP + draw.uniform(0, 1), "PodGroup", name)
    members = [
        (when, one)
        for when, items in batches
        for one in items
        if one["kind"] == "Pod" and one["metadata"]["name"].startswith(f"{name}-")
    ]
    for when, pod in members:
        if draw.random() < 0.4:
            gone = when + _soon(draw)
            made.delete(gone, "Pod", pod["metadata"]["name"])
            if draw.random() < 0.5:
                made.batches.append((gone + draw.uniform(0, 1), [pod]))
        elif draw.random() < 0.3:
            metadata = pod["metadata"] | {"labels": {"told": "later"}}
            made.batches.append((when + _soon(draw), [pod | {"metadata": metadata}]))
    for _ in range(draw.randint(0, 3)):
        queue = draw.choice([*queues, NOWHERE])
        spec = item["spec"] | {"minMember": draw.randint(1, 4), "queue": queue}
        made.batches.append((at + _soon(draw), [item | {"spec": spec}]))
    if draw.random() < 0.4:
        gone = at + _soon(draw)
        made.delete(gone, "PodGroup", name)
        made.batches.append((gone + draw.uniform(0, 0.5), [item]))
        for when, pod in members:
            if draw.random() < 0.7:
                made.batches.append((max(when, gone) + draw.uniform(0, 1), [pod]))


def _for_ever(draw: Random, made: Churn, number: int, queue: str) -> None:
    """A job that runs until it is deleted."""
    at = draw.uniform(0, 2)
    made.batches.append((at, [_endless(f"e{number}", queue, draw.randint(1, 4))]))
    made.delete(at + _soon(draw), "Job", f"e{number}")


def _endless(name: str, queue: str, tasks: int) -> Item:
    requests = {"requests": {"cpu": "1"}}
    role = {
        "name": "a",
        "replicas": tasks,
        "template": {"spec": {"containers": [{"name": "c", "resources": requests}]}},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"queue": queue, "minAvailable": tasks, "tasks": [role]},
    }


def _short_lived_queue(draw: Random, made: Churn) -> None:
    """It can go when its jobs have gone."""
    queue: Item = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "short"},
        "spec": {"weight": 2},
    }
    at = draw.uniform(0, 1)
    made.batches.append((at, [queue]))
    last = at
    for number in range(draw.randint(0, 2)):
        made.batches.append((at, [_endless(f"s{number}", "short", draw.randint(1, 3))]))
        gone = at + _soon(draw)
        made.delete(gone, "Job", f"s{number}")
        last = max(last, gone)
    made.delete(last + draw.uniform(0, 0.5), "Queue", "short")


def _nodes(draw: Random, made: Churn, batches: list[Batch]) -> None:
    """A node goes, with what runs on it, and another one comes under its name; a domain comes and
    goes."""
    _, setup = batches[0]
    nodes = [item for item in setup if item["kind"] == "Node"]
    if draw.random() < 0.5:
        node = draw.choice(nodes)
        at = draw.uniform(0.1, 1.5)
        made.delete(at, "Node", node["metadata"]["name"])
        made.batches.append((at + draw.uniform(0, 0.5), [node]))
    if draw.random() < 0.5:
        members = [
            {"type": "Node", "selector": {"exactMatch": {"name": node["metadata"]["name"]}}}
            for node in nodes[:3]
        ]
        hyper: Item = {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": "h"},
            "spec": {"tier": 1, "members": members},
        }
        at = draw.uniform(0, 0.5)
        made.batches.append((at, [hyper]))
        made.delete(at + draw.uniform(0, 1), "HyperNode", "h")
