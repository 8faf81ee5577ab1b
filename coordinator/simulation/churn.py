"""What users of a seeded scenario take away and change: jobs, members, groups, queues, nodes.

Everything that is put here, or that changes here cannot finish, is deleted in the end, so that a
run still comes to an end by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from coordinator.objects.document import Key
from coordinator.simulation.scenario import Item, Wish
from coordinator.simulation.workload import CORES

CLEAN_UP = 2.5
"""Seconds after all else: everybody who had to wait for a name has come by then."""

WAITED_FOR = 30.0
"""Seconds after all else: all that can finish has by then."""

NOWHERE = "nowhere"
"""A queue that does not exist."""


@dataclass(slots=True)
class _Changes:
    """What was drawn so far."""

    draw: Random
    before: list[Wish]
    """What is changed by it."""
    queues: tuple[str, ...]
    wishes: list[Wish] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    """Names of those that may never finish."""
    elastic: list[str] = field(default_factory=list)
    """Jobs that cannot, once too many members failed with a node while others wait."""

    def put(self, at: float, item: Item) -> None:
        self.wishes.append(Wish(at, (item,)))

    def delete(self, at: float, kind: str, name: str) -> None:
        namespace = "ns" if kind in ("Job", "Pod", "PodGroup") else ""
        self.wishes.append(Wish(at, delete=Key(kind, namespace, name)))

    def soon(self) -> float:
        """Before it is placed, while it is bound, while it runs, or when it has ended."""
        draw = self.draw
        return draw.choice([draw.uniform(0, 0.02), draw.uniform(0, 0.1), draw.uniform(0, 2.5)])


def churn(
    draw: Random, setup: tuple[Item, ...], wishes: list[Wish], queues: tuple[str, ...]
) -> list[Wish]:
    """Changes to what ``wishes`` bring, drawn apart from them."""
    made = _Changes(draw, wishes, queues)
    some = draw.choice([0.0, 0.1, 0.4, 0.8])
    if not some:
        return []
    for wish in wishes:
        for item in wish.items:
            if item["kind"] == "Job" and draw.random() < some:
                _job(made, wish.at, item)
            elif item["kind"] == "PodGroup" and draw.random() < max(some, 0.5):
                _group(made, wish.at, item)
    for number in range(draw.randint(0, 3)):
        _for_ever(made, number, draw.choice(queues))
    _short_lived_queue(made)
    _nodes(made, [item for item in setup if item["kind"] == "Node"])
    last = max(wish.at for wish in (*wishes, *made.wishes))
    for name in made.groups:
        made.delete(last + CLEAN_UP + draw.uniform(0, 1), "PodGroup", name)
    for name in made.elastic:
        made.delete(last + WAITED_FOR, "Job", name)
    return made.wishes


def _job(made: _Changes, at: float, item: Item) -> None:
    """Deleted, and perhaps created again under its name, and deleted again."""
    draw = made.draw
    name = item["metadata"]["name"]
    at += made.soon()
    made.delete(at, "Job", name)
    while draw.random() < 0.4:
        at += draw.choice([0.0, draw.uniform(0, 0.5)])
        made.put(at, item)
        if draw.random() < 0.5:
            return
        at += made.soon()
        made.delete(at, "Job", name)


def _group(made: _Changes, at: float, item: Item) -> None:
    """Members go and come back, the group asks for another minimum or queue, or goes as a whole and
    comes back."""
    draw, name = made.draw, item["metadata"]["name"]
    made.groups.append(name)
    members = [
        (wish.at, one)
        for wish in made.before
        for one in wish.items
        if one["kind"] == "Pod" and one["metadata"]["name"].startswith(f"{name}-")
    ]
    for when, pod in members:
        _member(made, when, pod)
    for _ in range(draw.randint(0, 3)):
        queue = draw.choice([*made.queues, NOWHERE])
        spec = item["spec"] | {"minMember": draw.randint(1, 4), "queue": queue}
        made.put(at + made.soon(), item | {"spec": spec})
    if draw.random() < 0.4:
        gone = at + made.soon()
        made.delete(gone, "PodGroup", name)
        made.put(gone + draw.uniform(0, 0.5), item)
        for when, pod in members:
            if draw.random() < 0.7:
                made.put(max(when, gone) + draw.uniform(0, 1), pod)


def _width(job: Item) -> int:
    return sum(role["replicas"] for role in job["spec"]["tasks"])


def _member(made: _Changes, at: float, pod: Item) -> None:
    draw = made.draw
    if draw.random() < 0.4:
        gone = at + made.soon()
        made.delete(gone, "Pod", pod["metadata"]["name"])
        if draw.random() < 0.5:
            made.put(gone + draw.uniform(0, 1), pod)
    elif draw.random() < 0.3:
        metadata = pod["metadata"] | {"labels": {"told": "later"}}
        made.put(at + made.soon(), pod | {"metadata": metadata})


def _for_ever(made: _Changes, number: int, queue: str) -> None:
    """A job that runs until it is deleted."""
    at = made.draw.uniform(0, 2)
    made.put(at, _endless(f"e{number}", queue, made.draw.randint(1, CORES)))
    made.delete(at + made.soon(), "Job", f"e{number}")


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


def _short_lived_queue(made: _Changes) -> None:
    """It can go when its jobs have gone."""
    draw = made.draw
    queue: Item = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "short"},
        "spec": {"weight": 2},
    }
    at = draw.uniform(0, 1)
    made.put(at, queue)
    last = at
    for number in range(draw.randint(0, 2)):
        made.put(at, _endless(f"s{number}", "short", draw.randint(1, 3)))
        gone = at + made.soon()
        made.delete(gone, "Job", f"s{number}")
        last = max(last, gone)
    made.delete(last + draw.uniform(0, 0.5), "Queue", "short")


def _nodes(made: _Changes, nodes: list[Item]) -> None:
    """A node goes, with what runs on it, and another one comes under its name; a domain comes and
    goes."""
    draw = made.draw
    if draw.random() < 0.5:
        node = draw.choice(nodes)
        at = draw.uniform(0.1, 1.5)
        made.delete(at, "Node", node["metadata"]["name"])
        made.put(at + draw.uniform(0, 0.5), node)
        made.elastic += [
            item["metadata"]["name"]
            for wish in made.before
            for item in wish.items
            if item["kind"] == "Job" and _width(item) > item["spec"]["minAvailable"]
        ]
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
        made.put(at, hyper)
        made.delete(at + draw.uniform(0, 1), "HyperNode", "h")
