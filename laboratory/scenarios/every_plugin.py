"""Scenarios under a policy of plugins drawn from the registry, with something for each to judge.

Extends the workload as :mod:`laboratory.scenarios.contended` does, which it follows.
What is drawn may be more than any node has, or nothing that the policy lets in: such jobs wait, and
are deleted in the end (:func:`~laboratory.scenarios.churn.clear_away`). Such a seed
has to show that nothing is placed or evicted against its policy.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

from laboratory.scenarios.workload import QUEUES
from laboratory.simulation.scenario import Item, UserRequest
from laboratory.workloads.drawn_demands import APPS, ask_for_more
from laboratory.workloads.drawn_objects import (
    job_marks,
    node_marks,
    objects_around,
    queue_spec,
)
from laboratory.workloads.drawn_policies import policy_of
from laboratory.workloads.manifests import manifest
from shared.manifests.fields.metadata import DURATION

EXTENDER = "http://extender.invalid"
"""Nobody is asked over HTTP: see :mod:`laboratory.workloads.extender_answers`."""
TREE = 0.3
"""Fraction of the seeds whose queues have parents."""
DEMANDING = 2.0
"""Roles and pods that may ask for more than cores: the fraction is this by the number of tasks,
because few nodes have what is asked for."""
LASTING = 0.4
"""Fraction of the roles and pods whose tasks run until they are deleted, so that room is scarce."""
MEASURED = 0.5
"""Fraction of the nodes with figures of real usage."""


@dataclass(frozen=True, slots=True)
class DrawnWorkload:
    """A workload under a policy of its own."""

    setup: tuple[Item, ...]
    wishes: list[UserRequest]
    policy: Item
    later: tuple[Item, ...]
    """Policies to change to."""
    usage: dict[str, dict[str, float]] = field(default_factory=dict)
    """Node -> percent of its CPU and memory in use."""


def every_plugin(draw: Random, setup: tuple[Item, ...], wishes: list[UserRequest]) -> DrawnWorkload:
    """The same cluster and jobs, with a policy, with what its plugins look at, and with tasks that
    ask for it."""
    tree = draw.random() < TREE
    policy, *later = (policy_of(draw, tree=tree, extender=EXTENDER) for _ in range(3))
    items = [*setup, *(item for wish in wishes for item in wish.items)]
    names = sorted({item["metadata"]["name"] for item in items if item["kind"] == "Node"})
    marks = {name: _marks(draw, name) for name in names}
    objects = [_object(draw, item, marks, tree=tree) for item in setup]
    # Domains are those of `contended`: a node is in one of a tier only.
    objects += [o for o in objects_around(draw, names) if o["kind"] != "HyperNode"]
    if tree:
        objects += [manifest("Queue", "half", {"weight": 1, "parent": "root"})]
    changed = [
        UserRequest(wish.at, tuple(_object(draw, item, marks, tree=tree) for item in wish.items))
        for wish in wishes
    ]
    usage = {name: _figures(draw) for name in names if draw.random() < MEASURED}
    return DrawnWorkload(tuple(objects), changed, policy, tuple(later), usage)


def _marks(draw: Random, name: str) -> Item:
    marks = node_marks(draw)
    marks["labels"] |= {"zone": draw.choice("ab")}
    marks["spec"].pop("unschedulable", None)  # users cordon nodes, and take it back
    return marks


def _figures(draw: Random) -> dict[str, float]:
    return {"cpu": float(draw.randint(0, 100)), "memory": float(draw.randint(0, 90))}


def _object(draw: Random, item: Item, marks: dict[str, Item], *, tree: bool) -> Item:
    match item["kind"]:
        case "Node":
            return _node(item, marks[item["metadata"]["name"]])
        case "Queue" if item["metadata"]["name"] in QUEUES:
            return _queue(draw, item, tree=tree)
        case "Job":
            return _job(draw, item)
        case "Pod":
            return _pod(draw, item)
        case _:
            return item


def _node(item: Item, marks: Item) -> Item:
    changed = deepcopy(item)
    metadata = changed["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), **marks["labels"]}
    metadata["annotations"] = {**metadata.get("annotations", {}), **marks["annotations"]}
    changed["spec"] = {**changed.get("spec", {}), **marks["spec"]}
    changed["status"]["allocatable"] |= marks["allocatable"]
    return changed


def _queue(draw: Random, item: Item, *, tree: bool) -> Item:
    """Complete the queue's spec with drawn fields. Its own fields stay, and it gets no capability:
    its jobs are as wide as the one that it has."""
    drawn = queue_spec(draw)
    drawn.pop("capability", None)
    spec: Item = {**drawn, **item["spec"]}
    if tree:
        spec["parent"] = draw.choice(["root", "half"])
    return {**item, "spec": spec}


def _job(draw: Random, item: Item) -> Item:
    changed = deepcopy(item)
    changed["metadata"]["annotations"] = job_marks(draw)
    for role in changed["spec"]["tasks"]:
        _ask(draw, role["template"], tasks=role["replicas"])
    return changed


def _pod(draw: Random, item: Item) -> Item:
    changed = deepcopy(item)
    _ask(draw, changed, tasks=1 + draw.randint(0, 3))
    return changed


def _ask(draw: Random, pod: Item, *, tasks: int) -> None:
    """Change a pod, or a role's template, in place."""
    metadata = pod["metadata"]
    metadata["labels"] = {"app": draw.choice(APPS), **metadata.get("labels", {})}
    marks = metadata.setdefault("annotations", {})
    if draw.random() < LASTING:
        marks.pop(DURATION, None)
    if draw.random() < 0.2:
        marks["volcano.sh/preemptable"] = draw.choice(["true", "false"])
    if draw.random() < 0.2:
        pod["spec"]["tolerations"] = [{"key": "batch", "operator": "Exists"}]
    if draw.random() * tasks < DEMANDING:
        ask_for_more(draw, pod)
