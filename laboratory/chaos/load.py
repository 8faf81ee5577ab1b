"""The load of a chaos run, by seed: jobs, gangs wider than a shard, edits and deletions.

Some jobs ask for host ports, a node per task, devices or volumes; the operator sometimes changes
the policy. Operations are drawn independently of earlier results, so that a seed always means the
same load; only the timing varies. All jobs end by themselves or are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from laboratory.chaos import kai
from laboratory.chaos.policies import draw_policy, evicts
from laboratory.workloads.demands import (
    ask_device,
    ask_own_nodes,
    ask_ports,
    ask_volume,
    claim_template,
    devices,
    disk,
    storage_class,
    volume_claim,
)
from laboratory.workloads.generators import (
    GPU,
    ClusterShape,
    Item,
    job_manifest,
    pod_manifest,
    pod_template,
    role_of,
)
from laboratory.workloads.manifests import manifest

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
QUEUES = ("default", "batch", "small")
GROUP = "scheduling.k8s.io/group-name"

ENDLESS_STEPS = 12
"""Maximum steps that a job without a duration exists before it is deleted."""
CORDON_STEPS = 6
"""Steps that a node stays cordoned."""
LASTING = 6
"""Maximum number of jobs that run until everything else is over: wide jobs still fit beside
them."""

PORTS = (80, 443)
"""Only two, so that jobs compete for the same port."""
DEVICES = 2
"""Devices per node."""
RANKS = {"low": 1, "mid": 5, "high": 10}
"""Priority classes of jobs, with their values."""
NAMESPACE = "default"
LASTS = {"quadrant.dev/lasts": "true"}
"""Label of the pods that a disruption budget counts."""


@dataclass(frozen=True, slots=True)
class SubmitJob:
    items: list[Item]


@dataclass(frozen=True, slots=True)
class Delete:
    job: str
    """The job's name; it is in namespace default."""

    @property
    def path(self) -> str:
        return f"{JOBS}/{self.job}"


@dataclass(frozen=True, slots=True)
class ChangePolicy:
    """Replace the content of the policy file."""

    text: str


Operation = SubmitJob | Delete | ChangePolicy


def cluster(shape: ClusterShape, nodes: list[Item], *, of_kai: bool = False) -> list[Item]:
    """Objects that exist from the start, besides the nodes. ``of_kai``: for a KAI policy."""
    names = [node["metadata"]["name"] for node in nodes]
    ranks: list[Item] = [
        manifest("PriorityClass", name, value=value) for name, value in RANKS.items()
    ]
    offered = [claim_template(NAMESPACE), *devices(names, each=DEVICES)]
    tree = kai.queues(shape) if of_kai else queues(shape)
    return [*tree, *ranks, *offered, storage_class(), _budget()]


def _budget() -> Item:
    """Two of the pods that run until everything else is over must run, whatever is drained."""
    spec = {"minAvailable": 2, "selector": {"matchLabels": LASTS}}
    return manifest("PodDisruptionBudget", "lasting", spec, namespace=NAMESPACE)


def queues(shape: ClusterShape) -> list[Item]:
    """The queues. One may use a quarter of the cluster."""
    specs: dict[str, dict[str, Any]] = {
        "batch": {"weight": 2},
        "small": {"weight": 1, "capability": {GPU: str(shape.capacity // 4)}},
    }
    return [manifest("Queue", name, spec) for name, spec in specs.items()]


class ChaosLoad:
    """``steps()`` yields the operations of each step, forever; ``ending()`` those left to do at the
    end."""

    def __init__(
        self,
        seed: int,
        shape: ClusterShape,
        *,
        shards: int,
        nodes: list[Item],
        walls: bool = False,
        of_kai: bool = False,
    ) -> None:
        """``walls``: jobs may not span shards (mode hard). Then no job asks for a volume, which is
        on one node and would tie the job to that shard. ``of_kai``: in the words of KAI, whose
        actions that evict do nothing in this version."""
        self._evicting = evicts(seed)
        self._of_kai = of_kai
        self._apart = max(1, len(nodes) // shards - 1) if walls else len(nodes)
        self._lasting_left = LASTING
        self._rng = Random(seed)
        self._seed = seed
        self._shape = shape
        # Wider than the only shard would be wider than the cluster.
        self._shard = max(1, shape.capacity // max(2, shards))
        self._nodes = nodes
        self._number = 0
        self._step = 0
        self._later: dict[int, list[Operation]] = {}
        self._at_last: list[Operation] = []
        self._recent: list[str] = []
        self._kinds: tuple[tuple[Callable[[], list[Operation]], int], ...] = (
            (self._narrow, 50),
            (self._wide, 12),
            (self._half, 12),
            (self._endless, 8),
            (self._delete, 8),
            (self._group, 7),
            (self._cordon, 3),
            (self._ports, 4),
            (self._own_nodes, 4),
            (self._devices, 4),
            (self._volume, 0 if walls else 3),
            # Under a KAI policy nobody places a member that asks for nothing in this version.
            (self._idle_member, 0 if of_kai else 4),
            (self._lasting, 2),
            (self._policy, 2),
            (self._limit, 4 if of_kai else 0),
        )

    def steps(self) -> Iterator[list[Operation]]:
        while True:
            self._step += 1
            yield [*self._later.pop(self._step, []), *self._draw()]

    def ending(self) -> list[Operation]:
        """All delayed operations: the last deletions, and nodes restored."""
        rest = [operation for step in sorted(self._later) for operation in self._later[step]]
        rest += self._at_last
        self._later.clear()
        self._at_last.clear()
        return rest

    def _draw(self) -> list[Operation]:
        drawn = self._rng.choices(
            [draw for draw, _ in self._kinds], [often for _, often in self._kinds]
        )
        return drawn[0]()

    def _narrow(self) -> list[Operation]:
        rng = self._rng
        widths = [rng.choice((1, 1, 1, 2, 4, 8)) for _ in range(rng.randint(1, 4))]
        return [SubmitJob([self._job(width, width, rng.uniform(0.2, 2.0)) for width in widths])]

    def _wide(self) -> list[Operation]:
        """A gang wider than a shard, so that its tasks are placed on nodes of several."""
        most = max(self._shard + 2, self._shape.capacity * 5 // 8)
        width = self._rng.randint(self._shard + 1, most)
        return [SubmitJob([self._job(width, width, self._rng.uniform(0.2, 1.0), wide=True)])]

    def _half(self) -> list[Operation]:
        """A gang with a minimum of half its tasks; the others start as room permits."""
        width = self._rng.randint(4, max(5, self._shard // 2))
        return [SubmitJob([self._job(width, (width + 1) // 2, self._rng.uniform(0.2, 1.5))])]

    def _endless(self) -> list[Operation]:
        """A job without a duration, which is deleted later."""
        width = self._rng.randint(1, 6)
        job = self._job(width, width, None)
        self._put_off(self._rng.randint(1, ENDLESS_STEPS), Delete(job["metadata"]["name"]))
        return [SubmitJob([job])]

    def _delete(self) -> list[Operation]:
        """Delete a recent job: before placement, during the bind, or while it runs."""
        if not self._recent:
            return self._narrow()
        return [Delete(self._recent.pop(self._rng.randrange(len(self._recent))))]

    def _group(self) -> list[Operation]:
        """Pods with a PodGroup whose minimum is edited while they are placed."""
        width = self._rng.randint(2, 6)
        name = self._name("group")
        pods = [self._pod(f"{name}-{i}", name) for i in range(width)]
        for _ in range(self._rng.randint(1, 2)):
            edited = self._pod_group(name, self._rng.randint(1, width))
            self._put_off(self._rng.randint(1, 4), SubmitJob([edited]))
        return [SubmitJob([self._pod_group(name, width), *pods])]

    def _cordon(self) -> list[Operation]:
        """Cordon a node for some steps."""
        node = self._rng.choice(self._nodes)
        self._put_off(CORDON_STEPS, SubmitJob([node]))
        return [SubmitJob([node | {"spec": {"unschedulable": True}}])]

    def _ports(self) -> list[Operation]:
        """A job with host ports, so that each task needs its own node or waits."""
        job, template = self._apart_job()
        ask_ports(template, self._rng.sample(PORTS, self._rng.randint(1, len(PORTS))))
        return [SubmitJob([job])]

    def _own_nodes(self) -> list[Operation]:
        """A job with anti-affinity between its own tasks, by a label that no other job has."""
        job, template = self._apart_job()
        ask_own_nodes(template, job["metadata"]["name"])
        return [SubmitJob([job])]

    def _devices(self) -> list[Operation]:
        job, template = self._apart_job()
        ask_device(template)
        return [SubmitJob([job])]

    def _volume(self) -> list[Operation]:
        """A task with a new volume that is local to one node."""
        job, template = self._apart_job(width=1)
        name = job["metadata"]["name"]
        ask_volume(template, name)
        node = self._rng.choice(self._nodes)["metadata"]["name"]
        return [SubmitJob([disk(name, node), volume_claim(name, NAMESPACE), job])]

    def _idle_member(self) -> list[Operation]:
        """A gang with a best-effort member, like a launcher."""
        width, duration = self._rng.randint(1, 6), self._rng.uniform(0.2, 1.5)
        job = self._job(width, width + 1, duration)
        launcher = pod_template(GPU, duration=duration)
        del launcher["spec"]["containers"][0]["resources"]
        job["spec"]["tasks"].append(role_of(1, launcher, name="launcher"))
        return [SubmitJob([job])]

    def _lasting(self) -> list[Operation]:
        """A gang that runs until everything else is over, so that its end cannot hide a broken
        gang."""
        if not self._lasting_left:
            return self._narrow()
        self._lasting_left -= 1
        width = self._rng.randint(2, 4)
        job = self._job(width, width, None)
        job["spec"]["tasks"][0]["template"]["metadata"]["labels"] = LASTS
        self._at_last.append(Delete(job["metadata"]["name"]))
        return [SubmitJob([job])]

    def _policy(self) -> list[Operation]:
        if self._of_kai:
            return [ChangePolicy(kai.draw_policy(self._rng, evicting=self._evicting))]
        return [ChangePolicy(draw_policy(self._rng, evicting=self._evicting))]

    def _limit(self) -> list[Operation]:
        """Another limit for a queue of KAI's, between what its widest job needs and half of all."""
        capacity = self._shape.capacity
        return [SubmitJob([kai.small_queue(self._rng.randint(capacity // 8, capacity // 2))])]

    def _apart_job(self, *, width: int | None = None) -> tuple[Item, Item]:
        """A job with at most one task per node, and its pod template."""
        width = width or self._rng.randint(1, min(6, self._apart))
        job = self._job(width, width, self._rng.uniform(0.2, 1.5))
        template: Item = job["spec"]["tasks"][0]["template"]
        return job, template

    def _put_off(self, steps: int, operation: Operation) -> None:
        self._later.setdefault(self._step + steps, []).append(operation)

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"s{self._seed}-{kind}-{self._number}"

    def _job(self, width: int, minimum: int, duration: float | None, *, wide: bool = False) -> Item:
        name = self._name("job")
        if duration is not None:
            self._recent = [*self._recent[-5:], name]
        roles = [role_of(width, pod_template(GPU, duration=duration))]
        small = width <= self._shape.capacity // 8 and not wide
        queue = self._rng.choice(QUEUES if small else QUEUES[:2])
        rank = self._rank()
        return job_manifest(name, roles, minimum=minimum, namespace=NAMESPACE, queue=queue, **rank)

    def _rank(self) -> dict[str, str]:
        """A priority class, where others may be evicted for a job of a higher one."""
        if not self._evicting:
            return {}
        return {"priorityClassName": self._rng.choice(kai.RANKS if self._of_kai else [*RANKS])}

    def _pod(self, name: str, group: str) -> Item:
        template = pod_template(GPU, duration=self._rng.uniform(0.2, 1.0))
        if self._of_kai:
            return kai.pod(name, template, namespace=NAMESPACE, group=group)
        return pod_manifest(name, template, namespace=NAMESPACE, annotations={GROUP: group})

    def _pod_group(self, name: str, minimum: int) -> Item:
        if self._of_kai:
            return kai.pod_group(name, minimum, namespace=NAMESPACE, rank=self._rank())
        spec = {"minMember": minimum, "queue": "default"}
        return manifest("PodGroup", name, spec, namespace=NAMESPACE)
