"""Scenarios under a KAI policy: the objects of a workload as KAI's users write them.

Queues become a tree of KAI's, PodGroups and most Jobs become KAI's PodGroups with pods, some with a
tree of sub groups, and some single tasks pods of their own; users change queues while jobs run.
What is drawn for an object hangs on its name, so that one that is submitted again is the same. Some
of it may fit nowhere, or is not served: all jobs are deleted in the end
(:func:`~laboratory.scenarios.churn.clear_away`).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from coordinator.intake.documents.document import Key
from laboratory.scenarios.every_plugin import DrawnWorkload
from laboratory.scenarios.workload import QUEUES
from laboratory.simulation.scenario import Item, UserRequest
from laboratory.workloads.drawn_kai import (
    BRANCH,
    ROOT,
    ZONE,
    group_marks,
    in_pool,
    kai_group,
    kai_policy,
    kai_queue,
    kai_topology,
    kai_usage,
    node_gpus,
    pod_requests,
)
from laboratory.workloads.manifests import manifest
from shared.codec.packed import replace
from shared.manifests.fields.metadata import DURATION
from shared.manifests.kai.groups import GROUP_NAME, QUEUE_LABEL, SUB_GROUP

STAYS_A_JOB = 0.25
"""Fraction of the Jobs that stay ours, with the name of a KAI queue."""
ALONE = 0.6
"""Fraction of the others of one task that become a pod of their own."""
CHANGES = 4
"""Most changes of queues while jobs run."""
MOVES = 3
"""Most nodes, queues and groups that leave the node pool while jobs run; most of them come back."""
COMES_BACK = 0.8


def under_kai(seed: int, setup: tuple[Item, ...], wishes: list[UserRequest]) -> DrawnWorkload:
    """The same cluster and jobs, told in KAI's words."""
    draw = Random(seed)
    policy, *later = (kai_policy(draw) for _ in range(3))
    names = _Names(seed, wishes)
    objects = [item for written in setup for item in names.items(written)]
    objects += [kai_queue(draw, ROOT, "", inner=True), kai_queue(draw, BRANCH, ROOT, inner=True)]
    changed = [
        replace(
            wish,
            items=tuple(item for written in wish.items for item in names.items(written)),
            delete=None if wish.delete is None else names.key(wish.delete),
        )
        for wish in wishes
    ]
    changed += [UserRequest(draw.uniform(0, 2.5), (item,)) for item in _changes(draw, names)]
    apart = Random(seed + 1)
    for drawn in (policy, *later):
        if apart.random() < 0.5:
            drawn["usageDBConfig"] = kai_usage(apart)
    changed += _moves(apart, objects, changed)
    return DrawnWorkload((*objects, kai_topology()), changed, policy, tuple(later))


def _moves(draw: Random, objects: list[Item], wishes: list[UserRequest]) -> list[UserRequest]:
    """Nodes, queues and PodGroups that leave the node pool."""
    initial = [(0.0, item) for item in objects if item["kind"] in ("Node", "Queue")]
    initial += [
        (wish.at, item)
        for wish in wishes
        for item in wish.items
        if item["kind"] == "PodGroup" and wish.delete is None
    ]
    moves: list[UserRequest] = []
    for since, item in draw.sample(initial, min(len(initial), draw.randint(0, MOVES))):
        leaves = since + draw.uniform(0.1, 1.5)
        moves.append(UserRequest(leaves, (in_pool(item, "elsewhere"),)))
        if draw.random() < COMES_BACK:
            moves.append(UserRequest(leaves + draw.uniform(0.1, 1.0), (in_pool(item, ""),)))
    return moves


def _changes(draw: Random, names: _Names) -> Iterator[Item]:
    for _ in range(draw.randint(0, CHANGES)):
        name = draw.choice([*QUEUES, BRANCH, ROOT])
        if name in QUEUES:
            yield kai_queue(draw, name, draw.choice([names.parent(name), ROOT, BRANCH]))
        else:
            yield kai_queue(draw, name, "" if name == ROOT else ROOT, inner=True)


class _Names:
    """KAI's objects and names in place of a workload's."""

    def __init__(self, seed: int, wishes: list[UserRequest]) -> None:
        self._seed = seed
        self._jobs: dict[str, Item] = {}
        """KAI's PodGroup of a Job, or a pod: the first of its objects."""
        for wish in wishes:
            for item in wish.items:
                if item["kind"] == "Job" and (items := self._items_of_job(item)) != [item]:
                    self._jobs[item["metadata"]["name"]] = items[0]

    def _draw(self, *names: str) -> Random:
        return Random(f"{self._seed}/{'/'.join(names)}")

    def parent(self, queue: str) -> str:
        return self._draw("parent", queue).choice([ROOT, BRANCH])

    # --- objects --------------------------------------------------------------------------------

    def items(self, item: Item) -> list[Item]:
        """The objects that stand for one of the workload's."""
        name: str = item["metadata"]["name"]
        match item["kind"]:
            case "Node":
                return [self._node(item, name)]
            case "Queue":
                return [kai_queue(self._draw("queue", name), name, self.parent(name))]
            case "Job":
                return self._items_of_job(item)
            case "PodGroup":
                spec = {part: item["spec"][part] for part in ("minMember", "queue")}
                return [kai_group(name, spec | group_marks(self._draw("group", name)))]
            case "Pod":
                return [self._member(item, name)]
            case _:
                return [item]

    def key(self, key: Key) -> Key:
        """Key of the object to delete instead."""
        match key.kind:
            case "Queue" | "PodGroup":
                return Key(f"Kai{key.kind}", key.namespace, key.name)
            case "Job" if key.name in self._jobs:
                kind = self._jobs[key.name]["kind"]
                return Key("KaiPodGroup" if kind == "PodGroup" else kind, "ns", key.name)
            case _:
                return key

    def _node(self, item: Item, name: str) -> Item:
        draw = self._draw("node", name)
        metadata = item["metadata"]
        labels = {**metadata.get("labels", {}), ZONE: draw.choice("ab")}
        status = {"allocatable": item["status"]["allocatable"] | node_gpus(draw)}
        return {**item, "metadata": {**metadata, "labels": labels}, "status": status}

    def _member(self, item: Item, name: str) -> Item:
        annotations = item["metadata"]["annotations"]
        group = annotations["scheduling.k8s.io/group-name"]
        marks = {DURATION: annotations[DURATION], GROUP_NAME: group}
        labels = item["metadata"].get("labels", {})
        return _pod(self._draw("pod", name), name, marks, labels)

    # --- jobs -----------------------------------------------------------------------------------

    def _items_of_job(self, item: Item) -> list[Item]:
        name, spec = item["metadata"]["name"], item["spec"]
        draw = self._draw("job", name)
        if "policies" in spec or name.startswith("s") or draw.random() < STAYS_A_JOB:
            return [item]
        tasks = spec["tasks"]
        if len(tasks) == 1 and tasks[0]["replicas"] == 1 and draw.random() < ALONE:
            return [_pod(draw, name, _marks(tasks[0]), {QUEUE_LABEL: spec["queue"]})]
        subs, pod_sets = _tree(draw, spec)
        minima = {"subGroups": subs} if subs else {"minMember": spec["minAvailable"]}
        group = kai_group(name, {"queue": spec["queue"], **minima, **group_marks(draw)})
        return [group, *self._members(draw, name, tasks, pod_sets)]

    def _members(
        self, draw: Random, name: str, tasks: list[Item], pod_sets: list[str]
    ) -> Iterator[Item]:
        for task in tasks:
            chance = draw.random()
            for number in range(task["replicas"]):
                marks = _marks(task) | {GROUP_NAME: name}
                labels: Item = {}
                if pod_sets:
                    in_turn = pod_sets[number % len(pod_sets)]
                    labels[SUB_GROUP] = task["name"] if len(tasks) > 1 else in_turn
                pod = f"{name}-{task['name']}{number}"
                yield _pod(self._draw("role", name, str(chance)), pod, marks, labels)


def _tree(draw: Random, spec: Item) -> tuple[list[Item], list[str]]:
    """(sub groups, names of the pod sets): none, one for each role, or two below others."""
    tasks = spec["tasks"]
    if len(tasks) > 1:
        subs = [
            {"name": task["name"], "minMember": task.get("minAvailable", task["replicas"])}
            for task in tasks
        ]
        return subs, [task["name"] for task in tasks]
    replicas = tasks[0]["replicas"]
    if replicas < 2 or draw.random() < 0.7:
        return [], []
    half = max(1, replicas // 2 - draw.randint(0, 1))
    leaves: list[Item] = [{"name": name, "minMember": half} for name in ("left", "right")]
    if draw.random() < 0.5:
        return leaves, ["left", "right"]
    top: Item = {"name": "top"}
    if draw.random() < 0.6:
        top["minSubGroup"] = draw.randint(1, 2)
    return [top, *({**leaf, "parent": "top"} for leaf in leaves)], ["left", "right"]


def _marks(task: Item) -> Item:
    annotations = task["template"].get("metadata", {}).get("annotations", {})
    return {DURATION: annotations[DURATION]} if DURATION in annotations else {}


def _pod(draw: Random, name: str, marks: Item, labels: Item) -> Item:
    """A pod that KAI's scheduler places."""
    requests, shares = pod_requests(draw)
    spec: Item = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "c", "resources": {"requests": requests}}],
    }
    if draw.random() < 0.1:
        spec["nodeSelector"] = {ZONE: draw.choice("ab")}
    metadata = {"annotations": {**marks, **shares}, "labels": labels}
    return manifest("Pod", name, spec, namespace="ns", metadata=metadata)
