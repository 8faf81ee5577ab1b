"""The load of a chaos run on a real API server, by seed: gangs, single pods, deletions; some ask
for shares of GPUs, volumes or claimed devices.

No controllers make pods: who is evicted does not come again. So what may be evicted are pods of
their own without an end, and gangs that the load deletes later anyway. Everything else ends by
itself, as its kubelet counts the seconds of its annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from laboratory.chaos.kubernetes import demands
from laboratory.chaos.kubernetes.demands import Item
from laboratory.chaos.kubernetes.dialect import QUEUES, ChaosDialect
from laboratory.chaos.load import (
    CORDON_STEPS,
    ENDLESS_STEPS,
    LASTS,
    NAMESPACE,
    RANKS,
)
from laboratory.local_kubernetes.controllers.volumes import PROVISIONER
from laboratory.local_kubernetes.kubelets import DURATION
from laboratory.workloads.demands import devices, storage_class
from laboratory.workloads.manifests import manifest

CROWDED_STEPS = 8
"""After which a gang comes that has room only where others go: they have to run by then."""
MOST_SHARES = 8
"""Pods without an end that have a share of a GPU: the widest gang that asks for some fits beside
them."""


@dataclass(frozen=True, slots=True)
class Create:
    items: list[Item]


@dataclass(frozen=True, slots=True)
class Patch:
    path: str
    """Path of one object on the API server."""
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


def first_objects(nodes: Sequence[str], dialect: ChaosDialect) -> list[Item]:
    """Objects that exist from the start, besides the nodes."""
    ranks = [
        manifest("PriorityClass", f"rank-{name}", value=value) for name, value in RANKS.items()
    ]
    offered = devices(nodes, each=demands.CLAIMED_DEVICES)
    return [*dialect.queues(), *ranks, *offered, storage_class(PROVISIONER), demands.budget()]


def first_policy(seed: int, dialect: ChaosDialect) -> str:
    """The policy that a run begins with: it evicts."""
    return dialect.policy(Random(seed), evicting=True)


class KubernetesLoad:
    """``steps()`` yields the operations of each step, for ever; ``ending()`` those left to do."""

    def __init__(self, seed: int, dialect: ChaosDialect, *, nodes: list[str], cores: int) -> None:
        """``cores`` of each node; most containers ask for one."""
        self._rng = Random(seed)
        self._dialect = dialect
        self._seed, self._nodes, self._cores = seed, nodes, cores
        self._number, self._step = 0, 0
        self._later: dict[int, list[Operation]] = {}
        self._endless: list[str] = []
        """Pods of their own without an end."""
        self._shares: list[str] = []
        """Endless pods that have a share of a GPU."""
        self._asked: set[str] = set()
        """Pods whose eviction was requested: a budget may have kept them."""
        self._recent: list[tuple[str, int]] = []
        """(gang, width)"""
        self._kinds: tuple[tuple[Callable[[], list[Operation]], int], ...] = (
            (self._gang, 30),
            (self._half, 10),
            (self._wide, 6),
            (self._pods, 20),
            (self._shared, 14),
            (self._lasting_share, 8),
            (self._with_volumes, 6),
            (self._claiming, 6),
            (self._lasting, 14),
            (self._endless_gang, 8),
            (self._delete, 8),
            (self._evict, 6),
            (self._cordon, 3),
            (self._policy, 2),
            (self._limit, dialect.limits_often),
        )

    def steps(self) -> Iterator[list[Operation]]:
        yield self._beginning()
        while True:
            self._step += 1
            draws = [draw for draw, _ in self._kinds]
            (drawn,) = self._rng.choices(draws, [often for _, often in self._kinds])
            yield [*self._later.pop(self._step, []), *drawn()]

    def ending(self) -> list[Operation]:
        """Delayed operations, and the end of what does not end by itself."""
        rest = [operation for step in sorted(self._later) for operation in self._later[step]]
        self._later.clear()
        endless = [*self._endless, *self._shares, *sorted(self._asked)]
        return [*rest, Remove([pod_path(name) for name in endless])]

    def _beginning(self) -> list[Operation]:
        """Something of all that a rule is about, before the first fault; and then a gang for which
        others have to go. A short run draws little, and much of that while nobody leads."""
        self._put_off(CROWDED_STEPS, *self._wide())
        kinds = (self._shared, self._lasting_share, self._with_volumes, self._claiming)
        first = [operation for draw in kinds for operation in draw()]
        while len(self._endless) < demands.MOST_LASTING:
            first += self._lasting()
        return first

    # --- what is drawn --------------------------------------------------------------------------

    def _gang(self) -> list[Operation]:
        width = self._rng.choice((2, 2, 3, 4, 6, 8))
        return [self._group(width, width, self._rng.uniform(0.2, 2.0))]

    def _half(self) -> list[Operation]:
        width = self._rng.randint(4, 8)
        minimum, end = (width + 1) // 2, self._rng.uniform(0.2, 1.5)
        if not self._dialect.ends_in_part:
            return self._until_removed(width, minimum)
        return [self._group(width, minimum, end)]

    def _wide(self) -> list[Operation]:
        """Wider than a shard, so that its pods are on nodes of several."""
        capacity = len(self._nodes) * self._cores
        width = self._rng.randint(capacity // 2, capacity * 5 // 8)
        end = self._rng.uniform(0.2, 1.0)
        return [self._group(width, width, end, queue=self._dialect.crowded_queue)]

    def _pods(self) -> list[Operation]:
        seconds = [self._rng.uniform(0.2, 2.0) for _ in range(self._rng.randint(1, 4))]
        return [Create([self._pod(self._name("pod"), end=end, rank="high") for end in seconds])]

    def _shared(self) -> list[Operation]:
        """A gang whose pods have GPUs, or shares of some."""
        width = self._rng.choice((1, 2, 2, 3, 4))
        created = self._group(width, width, self._rng.uniform(0.2, 2.0))
        for pod in created.items[1:]:
            self._dialect.ask_gpus(pod, self._rng)
        return [created]

    def _lasting_share(self) -> list[Operation]:
        """A pod without an end that has a share: it also runs while the ledger is lost."""
        if len(self._shares) >= MOST_SHARES:
            return [Remove([pod_path(self._shares.pop(0))])]
        pod = self._pod(self._name("share"), rank="high")
        self._dialect.ask_gpus(pod, self._rng)
        self._shares.append(pod["metadata"]["name"])
        return [Create([pod])]

    def _with_volumes(self) -> list[Operation]:
        """A gang whose pods wait for volumes of their own, which are made where they are placed."""
        width = self._rng.randint(1, 3)
        created = self._group(width, width, self._rng.uniform(0.2, 1.5))
        claims = [demands.ask_volume(pod) for pod in created.items[1:]]
        return [Create([*claims, *created.items])]

    def _claiming(self) -> list[Operation]:
        """A gang whose pods have devices by claims."""
        width = self._rng.randint(1, 4)
        created = self._group(width, width, self._rng.uniform(0.2, 1.5))
        claims = [demands.ask_device(pod) for pod in created.items[1:]]
        return [Create([*claims, *created.items])]

    def _lasting(self) -> list[Operation]:
        """Pods without an end, which those of a higher rank may displace as far as their budget
        allows."""
        if len(self._endless) >= demands.MOST_LASTING:
            return [Remove([pod_path(self._endless.pop(0))])]
        names = [self._name("lasting") for _ in range(self._rng.randint(1, 4))]
        self._endless += names
        pods = [self._pod(name, rank="low", labels=LASTS) for name in names]
        for pod in pods:
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            requests["cpu"] = str(demands.LASTING_CORES)
        return [Create(pods)]

    def _endless_gang(self) -> list[Operation]:
        width = self._rng.randint(1, 6)
        return self._until_removed(width, width)

    def _until_removed(self, width: int, minimum: int) -> list[Operation]:
        created = self._group(width, minimum, None)
        name = created.items[0]["metadata"]["name"]
        self._put_off(self._rng.randint(1, ENDLESS_STEPS), self._remove_gang(name, width))
        return [created]

    def _delete(self) -> list[Operation]:
        """A gang that was made lately: before it is placed, while it is bound, or while it runs."""
        if not self._recent:
            return self._gang()
        return [self._remove_gang(*self._recent.pop(self._rng.randrange(len(self._recent))))]

    def _evict(self) -> list[Operation]:
        if not self._endless:
            return self._lasting()
        name = self._endless.pop(self._rng.randrange(len(self._endless)))
        self._asked.add(name)
        return [Evict(name)]

    def _cordon(self) -> list[Operation]:
        path = f"/api/v1/nodes/{self._rng.choice(self._nodes)}"
        self._put_off(CORDON_STEPS, Patch(path, {"spec": {"unschedulable": None}}))
        return [Patch(path, {"spec": {"unschedulable": True}})]

    def _policy(self) -> list[Operation]:
        return [NewPolicy(self._dialect.policy(self._rng, evicting=self._rng.random() < 0.7))]

    def _limit(self) -> list[Operation]:
        return [Patch(*self._dialect.another_limit(self._rng))]

    # --- objects --------------------------------------------------------------------------------

    def _group(self, width: int, minimum: int, end: float | None, *, queue: str = "") -> Create:
        """``queue``: "" for any."""
        name = self._name("gang")
        if end is not None:
            self._recent = [*self._recent[-5:], (name, width)]
        drawn = self._rng.choice(QUEUES)
        group = self._dialect.group(name, minimum, queue or drawn, ends=end is not None)
        pods = [self._pod(f"{name}-{i}", end=end, group=name, rank="high") for i in range(width)]
        return Create([group, *pods])

    def _pod(
        self,
        name: str,
        *,
        end: float | None = None,
        group: str = "",
        rank: str,
        labels: dict[str, str] | None = None,
    ) -> Item:
        seconds = self._dialect.gang_seconds if group else DURATION
        notes = {seconds: f"{end:.2f}"} if end is not None else {}
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        spec = {
            "schedulerName": self._dialect.scheduler,
            "containers": [container],
            "priorityClassName": f"rank-{rank}",
            "terminationGracePeriodSeconds": 1,
        }
        metadata = {"annotations": notes, "labels": dict(labels or {})}
        pod = manifest("Pod", name, spec, namespace=NAMESPACE, metadata=metadata)
        self._dialect.put_in(pod, group)
        return pod

    def _remove_gang(self, name: str, width: int) -> Remove:
        group = self._dialect.group_path(name)
        return Remove([group, *(pod_path(f"{name}-{i}") for i in range(width))])

    def _put_off(self, steps: int, *operations: Operation) -> None:
        self._later.setdefault(self._step + steps, []).extend(operations)

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"s{self._seed}-{kind}-{self._number}"


def pod_path(name: str) -> str:
    return f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
