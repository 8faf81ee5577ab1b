"""Deletions and changes by users in a seeded scenario: jobs, members, groups, queues, nodes.

Everything created here, or that cannot finish because of these changes, is deleted in the end, so
that the run still ends by itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from coordinator.intake.documents.document import Key
from coordinator.jobs.gang_repair import REPAIR_SECONDS
from laboratory.scenarios.workload import CORES
from laboratory.simulation.scenario import Item, UserRequest
from laboratory.workloads.drawn_objects import hyper_node, member_of
from laboratory.workloads.manifests import manifest

CLEAN_UP = 2.5
"""Seconds after everything else, when all objects that waited for a name have been created."""

WAITED_FOR = 30.0
"""Seconds after everything else, when all jobs that can finish have finished."""

LET_IN = 10.0
"""Seconds after everything else, when all jobs that the policy lets in have had turns."""

REPAIRED = REPAIR_SECONDS + 10.0
"""Seconds after everything else, when broken gangs are repaired or released."""

GROUP = "scheduling.k8s.io/group-name"

NOWHERE = "nowhere"
"""The name of a queue that does not exist."""


@dataclass(slots=True)
class _DrawnChanges:
    """The changes drawn so far."""

    draw: Random
    before: list[UserRequest]
    """The wishes that are changed."""
    queues: tuple[str, ...]
    wishes: list[UserRequest] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    """Names of groups that may never finish."""
    elastic: list[str] = field(default_factory=list)
    """Jobs that cannot finish if too many members failed with a node while others wait."""

    def put(self, at: float, item: Item) -> None:
        self.wishes.append(UserRequest(at, (item,)))

    def delete(self, at: float, kind: str, name: str) -> None:
        namespace = "ns" if kind in ("Job", "Pod", "PodGroup") else ""
        self.wishes.append(UserRequest(at, delete=Key(kind, namespace, name)))

    def soon(self) -> float:
        """A random delay: before placement, during the bind, while the job runs, or after its
        end."""
        draw = self.draw
        return draw.choice([draw.uniform(0, 0.02), draw.uniform(0, 0.1), draw.uniform(0, 2.5)])


def churn(
    draw: Random, setup: tuple[Item, ...], wishes: list[UserRequest], queues: tuple[str, ...]
) -> list[UserRequest]:
    """Changes to the objects of ``wishes``, drawn independently of them."""
    changes = _DrawnChanges(draw, wishes, queues)
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


def _job(changes: _DrawnChanges, at: float, item: Item) -> None:
    """Delete a job, and perhaps create and delete it again under its name."""
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


def _group(changes: _DrawnChanges, at: float, item: Item) -> None:
    """Delete and recreate members, change the group's minimum or queue, or delete and recreate the
    whole group."""
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


def _member(changes: _DrawnChanges, at: float, pod: Item) -> None:
    draw = changes.draw
    if draw.random() < 0.4:
        deleted_at = at + changes.soon()
        changes.delete(deleted_at, "Pod", pod["metadata"]["name"])
        if draw.random() < 0.5:
            changes.put(deleted_at + draw.uniform(0, 1), pod)
    elif draw.random() < 0.3:
        metadata = pod["metadata"] | {"labels": {"told": "later"}}
        changes.put(at + changes.soon(), pod | {"metadata": metadata})


def _for_ever(changes: _DrawnChanges, number: int, queue: str) -> None:
    """Add a job that runs until it is deleted."""
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
    return manifest(
        "Job", name, {"queue": queue, "minAvailable": tasks, "tasks": [role]}, namespace="ns"
    )


def lasting(draw: Random, before: list[UserRequest], queues: tuple[str, ...]) -> list[UserRequest]:
    """Gangs that run until they are deleted, long after everything else: if one is held in part, no
    end of its own resolves that."""
    changes = _DrawnChanges(draw, before, queues)
    last = max(wish.at for wish in before)
    for number in range(draw.randint(1, 2)):
        gang = _endless(f"l{number}", draw.choice(queues), draw.randint(2, CORES))
        changes.put(draw.uniform(0, 1), gang)
        changes.delete(last + REPAIRED + draw.uniform(0, 1), "Job", f"l{number}")
    return changes.wishes


def clean_up(before: list[UserRequest]) -> list[UserRequest]:
    """Delete every gang in the end: one that lost members while others were evicted may have too
    few left to ever be valid again, as in Volcano."""
    last = max(wish.at for wish in before)
    gangs = {
        item["metadata"]["name"]
        for wish in before
        for item in wish.items
        if item["kind"] == "Job" and _width(item) > 1
    }
    return [UserRequest(last + WAITED_FOR, delete=Key("Job", "ns", name)) for name in sorted(gangs)]


def clean_up_groups(before: list[UserRequest]) -> list[UserRequest]:
    """Delete every group in the end of which members may come after others were lost: what is left
    of it may be too few to ever be valid again (seed 131852)."""
    last = max(wish.at for wish in before)
    items = [item for wish in before for item in wish.items]
    members = Counter(
        item["metadata"].get("annotations", {}).get(GROUP)
        for item in items
        if item["kind"] == "Pod"
    )
    groups = {
        item["metadata"]["name"]
        for item in items
        if item["kind"] == "PodGroup"
        and members[item["metadata"]["name"]] > item["spec"]["minMember"]
    }
    return [
        UserRequest(last + WAITED_FOR, delete=Key("PodGroup", "ns", name))
        for name in sorted(groups)
    ]


def clear_away(before: list[UserRequest]) -> list[UserRequest]:
    """Delete every job and group in the end, under a policy that may let nobody in."""
    last = max(wish.at for wish in before)
    names = {
        (item["kind"], item["metadata"]["name"])
        for wish in before
        for item in wish.items
        if item["kind"] in ("Job", "PodGroup")
    }
    return [
        UserRequest(last + LET_IN, delete=Key(kind, "ns", name)) for kind, name in sorted(names)
    ]


def _short_lived_queue(changes: _DrawnChanges) -> None:
    """Add a queue that is deleted once its jobs are gone."""
    draw = changes.draw
    queue: Item = manifest("Queue", "short", {"weight": 2})
    at = draw.uniform(0, 1)
    changes.put(at, queue)
    last = at
    for number in range(draw.randint(0, 2)):
        changes.put(at, _endless(f"s{number}", "short", draw.randint(1, 3)))
        deleted_at = at + changes.soon()
        changes.delete(deleted_at, "Job", f"s{number}")
        last = max(last, deleted_at)
    changes.delete(last + draw.uniform(0, 0.5), "Queue", "short")


def _nodes(changes: _DrawnChanges, nodes: list[Item]) -> None:
    """Delete a node with its running pods and add another under its name; add and delete a
    domain."""
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
        members = [member_of("Node", node["metadata"]["name"]) for node in nodes[:3]]
        at = draw.uniform(0, 0.5)
        changes.put(at, hyper_node("h", 1, members))
        changes.delete(at + draw.uniform(0, 1), "HyperNode", "h")
