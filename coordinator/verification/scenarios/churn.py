"""What users of a seeded scenario take away and change: jobs, members, groups, queues, nodes.

Everything that is put here, or that changes here cannot finish, is deleted in the end, so that a
run still comes to an end by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from coordinator.intake.documents.document import Key
from coordinator.jobs.gang_repair import REPAIR_SECONDS
from coordinator.verification.scenarios.workload import CORES
from coordinator.verification.simulation.scenario import Item, Wish

CLEAN_UP = 2.5
"""Seconds after all else: everybody who had to wait for a name has come by then."""

WAITED_FOR = 30.0
"""Seconds after all else: all that can finish has by then."""

REPAIRED = REPAIR_SECONDS + 10.0
"""Seconds after all else: a gang that was broken is whole again by then, or released."""

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
    changes = _Changes(draw, wishes, queues)
    some = draw.choice([0.0, 0.1, 0.4, 0.8])
    if not some:
        return []
    for wish in wishes:
        for item in wish.items:
            if item["kind"] == "Job" and draw.random() < some:
                _job(changes, wish.at, item)
            elif item["kind"] == "PodGroup" and draw.random() < max(some, 0.5):
                _group(changes, wish.at, item)
    for number in range(draw.randint(0, 3)):
        _for_ever(changes, number, draw.choice(queues))
    _short_lived_queue(changes)
    _nodes(changes, [item for item in setup if item["kind"] == "Node"])
    last = max(wish.at for wish in (*wishes, *changes.wishes))
    for name in changes.groups:
        changes.delete(last + CLEAN_UP + draw.uniform(0, 1), "PodGroup", name)
    for name in changes.elastic:
        changes.delete(last + WAITED_FOR, "Job", name)
    return changes.wishes


def _job(changes: _Changes, at: float, item: Item) -> None:
    """Deleted, and perhaps created again under its name, and deleted again."""
    draw = changes.draw
    name = item["metadata"]["name"]
    at += changes.soon()
    changes.delete(at, "Job", name)
    while draw.random() < 0.4:
        at += draw.choice([0.0, draw.uniform(0, 0.5)])
        changes.put(at, item)
        if draw.random() < 0.5:
            return
        at += changes.soon()
        changes.delete(at, "Job", name)


def _group(changes: _Changes, at: float, item: Item) -> None:
    """Members go and come back, the group asks for another minimum or queue, or goes as a whole and
    comes back."""
    draw, name = changes.draw, item["metadata"]["name"]
    changes.groups.append(name)
    members = [
        (wish.at, pod_item)
        for wish in changes.before
        for pod_item in wish.items
        if pod_item["kind"] == "Pod" and pod_item["metadata"]["name"].startswith(f"{name}-")
    ]
    for when, pod in members:
        _member(changes, when, pod)
    for _ in range(draw.randint(0, 3)):
        queue = draw.choice([*changes.queues, NOWHERE])
        spec = item["spec"] | {"minMember": draw.randint(1, 4), "queue": queue}
        changes.put(at + changes.soon(), item | {"spec": spec})
    if draw.random() < 0.4:
        deleted_at = at + changes.soon()
        changes.delete(deleted_at, "PodGroup", name)
        changes.put(deleted_at + draw.uniform(0, 0.5), item)
        for when, pod in members:
            if draw.random() < 0.7:
                changes.put(max(when, deleted_at) + draw.uniform(0, 1), pod)


def _width(job: Item) -> int:
    return sum(role["replicas"] for role in job["spec"]["tasks"])


def _member(changes: _Changes, at: float, pod: Item) -> None:
    draw = changes.draw
    if draw.random() < 0.4:
        deleted_at = at + changes.soon()
        changes.delete(deleted_at, "Pod", pod["metadata"]["name"])
        if draw.random() < 0.5:
            changes.put(deleted_at + draw.uniform(0, 1), pod)
    elif draw.random() < 0.3:
        metadata = pod["metadata"] | {"labels": {"told": "later"}}
        changes.put(at + changes.soon(), pod | {"metadata": metadata})


def _for_ever(changes: _Changes, number: int, queue: str) -> None:
    """A job that runs until it is deleted."""
    at = changes.draw.uniform(0, 2)
    changes.put(at, _endless(f"e{number}", queue, changes.draw.randint(1, CORES)))
    changes.delete(at + changes.soon(), "Job", f"e{number}")


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


def lasting(draw: Random, before: list[Wish], queues: tuple[str, ...]) -> list[Wish]:
    """Gangs that no end of theirs frees from being held in part: they run until they are deleted,
    long after everything else."""
    changes = _Changes(draw, before, queues)
    last = max(wish.at for wish in before)
    for number in range(draw.randint(1, 2)):
        gang = _endless(f"l{number}", draw.choice(queues), draw.randint(2, CORES))
        changes.put(draw.uniform(0, 1), gang)
        changes.delete(last + REPAIRED + draw.uniform(0, 1), "Job", f"l{number}")
    return changes.wishes


def clean_up(before: list[Wish]) -> list[Wish]:
    """Delete every gang in the end: one whose members were lost while the rest was evicted has too
    few left ever to be valid again, as in Volcano."""
    last = max(wish.at for wish in before)
    gangs = {
        item["metadata"]["name"]
        for wish in before
        for item in wish.items
        if item["kind"] == "Job" and _width(item) > 1
    }
    return [Wish(last + WAITED_FOR, delete=Key("Job", "ns", name)) for name in sorted(gangs)]


def _short_lived_queue(changes: _Changes) -> None:
    """It can go when its jobs have gone."""
    draw = changes.draw
    queue: Item = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "short"},
        "spec": {"weight": 2},
    }
    at = draw.uniform(0, 1)
    changes.put(at, queue)
    last = at
    for number in range(draw.randint(0, 2)):
        changes.put(at, _endless(f"s{number}", "short", draw.randint(1, 3)))
        deleted_at = at + changes.soon()
        changes.delete(deleted_at, "Job", f"s{number}")
        last = max(last, deleted_at)
    changes.delete(last + draw.uniform(0, 0.5), "Queue", "short")


def _nodes(changes: _Changes, nodes: list[Item]) -> None:
    """A node goes, with what runs on it, and another one comes under its name; a domain comes and
    goes."""
    draw = changes.draw
    if draw.random() < 0.5:
        node = draw.choice(nodes)
        at = draw.uniform(0.1, 1.5)
        changes.delete(at, "Node", node["metadata"]["name"])
        changes.put(at + draw.uniform(0, 0.5), node)
        changes.elastic += [
            item["metadata"]["name"]
            for wish in changes.before
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
        changes.put(at, hyper)
        changes.delete(at + draw.uniform(0, 1), "HyperNode", "h")
