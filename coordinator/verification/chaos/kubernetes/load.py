"""The load of a chaos run on a real API server, by seed: gangs, single pods, deletions.

There are no controllers: who is evicted does not come again. So what may be evicted are pods of
their own without an end, and gangs that the load deletes later anyway. Everything else ends by
itself, as its kubelet counts the seconds of its annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from coordinator.verification.chaos.load import CORDON_STEPS, ENDLESS_STEPS, GROUP, NAMESPACE, RANKS
from coordinator.verification.chaos.policies import draw_policy
from coordinator.verification.local_kubernetes.kubelets import DURATION

QUEUES = ("default", "batch")
SCHEDULER = "quadrant"

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Create:
    items: list[Item]


@dataclass(frozen=True, slots=True)
class Patch:
    path: str
    """Of one object on the API server."""
    change: Item


@dataclass(frozen=True, slots=True)
class Remove:
    paths: list[str]


@dataclass(frozen=True, slots=True)
class Evict:
    """Asks by the sub resource, as `kubectl drain` does."""

    pod: str


@dataclass(frozen=True, slots=True)
class NewPolicy:
    text: str


Operation = Create | Patch | Remove | Evict | NewPolicy


def first_objects() -> list[Item]:
    """What exists from the start, besides the nodes."""
    queues: list[Item] = [
        _object("scheduling.volcano.sh/v1beta1", "Queue", name, spec={"weight": weight})
        for weight, name in enumerate(QUEUES, 1)
    ]
    ranks = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        | {"metadata": {"name": f"rank-{name}"}}
        for name, value in RANKS.items()
    ]
    return [*queues, *ranks]


class KubernetesLoad:
    """``steps()`` yields the operations of each step, for ever; ``ending()`` those left to do."""

    def __init__(self, seed: int, *, nodes: list[str], cores: int) -> None:
        """``cores`` of each node; every container asks for one."""
        self._rng = Random(seed)
        self._seed, self._nodes, self._cores = seed, nodes, cores
        self._number, self._step = 0, 0
        self._later: dict[int, list[Operation]] = {}
        self._endless: list[str] = []
        """Pods of their own without an end."""
        self._recent: list[tuple[str, int]] = []
        """(gang, width)"""
        self._kinds: tuple[tuple[Callable[[], list[Operation]], int], ...] = (
            (self._gang, 30),
            (self._half, 10),
            (self._wide, 6),
            (self._pods, 20),
            (self._lasting, 10),
            (self._endless_gang, 8),
            (self._delete, 8),
            (self._evict, 5),
            (self._cordon, 3),
            (self._policy, 2),
        )

    def steps(self) -> Iterator[list[Operation]]:
        while True:
            self._step += 1
            draws = [draw for draw, _ in self._kinds]
            (drawn,) = self._rng.choices(draws, [often for _, often in self._kinds])
            yield [*self._later.pop(self._step, []), *drawn()]

    def ending(self) -> list[Operation]:
        """Delayed operations, and the end of what does not end by itself."""
        rest = [operation for step in sorted(self._later) for operation in self._later[step]]
        self._later.clear()
        return [*rest, Remove([pod_path(name) for name in self._endless])]

    # --- what is drawn --------------------------------------------------------------------------

    def _gang(self) -> list[Operation]:
        width = self._rng.choice((2, 2, 3, 4, 6, 8))
        return [self._group(width, width, self._rng.uniform(0.2, 2.0))]

    def _half(self) -> list[Operation]:
        width = self._rng.randint(4, 8)
        return [self._group(width, (width + 1) // 2, self._rng.uniform(0.2, 1.5))]

    def _wide(self) -> list[Operation]:
        """Wider than a shard, so that its pods are on nodes of several."""
        capacity = len(self._nodes) * self._cores
        width = self._rng.randint(capacity // 2, capacity * 5 // 8)
        return [self._group(width, width, self._rng.uniform(0.2, 1.0))]

    def _pods(self) -> list[Operation]:
        seconds = [self._rng.uniform(0.2, 2.0) for _ in range(self._rng.randint(1, 4))]
        return [Create([self._pod(self._name("pod"), end=end, rank="high") for end in seconds])]

    def _lasting(self) -> list[Operation]:
        """A pod without an end, which those of a higher rank may displace."""
        if len(self._endless) > self._cores:
            return [Remove([pod_path(self._endless.pop(0))])]
        name = self._name("lasting")
        self._endless.append(name)
        return [Create([self._pod(name, rank="low")])]

    def _endless_gang(self) -> list[Operation]:
        width = self._rng.randint(1, 6)
        made = self._group(width, width, None)
        name = made.items[0]["metadata"]["name"]
        self._put_off(self._rng.randint(1, ENDLESS_STEPS), self._remove_gang(name, width))
        return [made]

    def _delete(self) -> list[Operation]:
        """A gang that was made lately: before it is placed, while it is bound, or while it runs."""
        if not self._recent:
            return self._gang()
        return [self._remove_gang(*self._recent.pop(self._rng.randrange(len(self._recent))))]

    def _evict(self) -> list[Operation]:
        if not self._endless:
            return self._lasting()
        name = self._endless.pop(self._rng.randrange(len(self._endless)))
        return [Evict(name)]

    def _cordon(self) -> list[Operation]:
        path = f"/api/v1/nodes/{self._rng.choice(self._nodes)}"
        self._put_off(CORDON_STEPS, Patch(path, {"spec": {"unschedulable": None}}))
        return [Patch(path, {"spec": {"unschedulable": True}})]

    def _policy(self) -> list[Operation]:
        return [NewPolicy(draw_policy(self._rng, evicting=self._rng.random() < 0.5))]

    # --- objects --------------------------------------------------------------------------------

    def _group(self, width: int, minimum: int, end: float | None) -> Create:
        name = self._name("gang")
        if end is not None:
            self._recent = [*self._recent[-5:], (name, width)]
        spec = {"minMember": minimum, "queue": self._rng.choice(QUEUES)}
        spec["priorityClassName"] = "rank-high"
        group = _object("scheduling.volcano.sh/v1beta1", "PodGroup", name, NAMESPACE, spec)
        pods = [self._pod(f"{name}-{i}", end=end, group=name, rank="high") for i in range(width)]
        return Create([group, *pods])

    def _pod(self, name: str, *, end: float | None = None, group: str = "", rank: str) -> Item:
        notes = {DURATION: f"{end:.2f}"} if end is not None else {}
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        spec = {
            "schedulerName": SCHEDULER,
            "containers": [container],
            "priorityClassName": f"rank-{rank}",
            "terminationGracePeriodSeconds": 1,
        }
        made = _object("v1", "Pod", name, NAMESPACE, spec)
        made["metadata"]["annotations"] = notes | ({GROUP: group} if group else {})
        return made

    def _remove_gang(self, name: str, width: int) -> Remove:
        group = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups/{name}"
        return Remove([group, *(pod_path(f"{name}-{i}") for i in range(width))])

    def _put_off(self, steps: int, operation: Operation) -> None:
        self._later.setdefault(self._step + steps, []).append(operation)

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"s{self._seed}-{kind}-{self._number}"


def pod_path(name: str) -> str:
    return f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"


def _object(
    api_version: str, kind: str, name: str, namespace: str = "", spec: Item | None = None
) -> Item:
    metadata: Item = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}}
