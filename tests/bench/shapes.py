"""Clusters under a KAI policy in which victims are searched for, or shares of GPUs given, each a
session of the core alone.

Every node has eight GPUs. Two queues of one department have half of all GPUs as their quota each,
unless said; what runs belongs to ``rich``, what waits to ``poor``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shard_worker.dialects.kai.registry import open_kai_session
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.harness import Cluster
from shard_worker.session_model.status import Status
from shared.model.constraints import Constraints, PodTerm, Requirement
from shared.model.gpu_request import FRACTION, WHOLE
from shared.model.kai import (
    KaiLevel,
    KaiPodGroup,
    KaiQueue,
    KaiShare,
    KaiTopology,
    KaiTopologyConstraint,
)
from shared.policy.dialect import parse_policy

GPUS = 8
"""GPUs of a node."""
GPU = "nvidia.com/gpu"
RACK = "rack"
NODES_OF_A_RACK = 9
"""One fewer than the pods of a gang that must not leave one, or must not meet in one."""
GANG = 10
"""Pods of a gang where not said otherwise."""
FREE = KaiShare(quota=-1, weight=1000, limit=-1)


class ShapedCluster:
    """Nodes, the two queues, and jobs by calls."""

    def __init__(self, nodes: int, *, quota: int | None = None, rich_quota: int | None = None):
        """``quota``: of the queue that waits, ``rich_quota``: of the other, in GPUs."""
        self.nodes = nodes
        self._cluster = Cluster()
        half = nodes * GPUS // 2
        self._queues = [
            KaiQueue("department", FREE, FREE, FREE, created=0.0, uid="department"),
            _queue("rich", half if rich_quota is None else rich_quota, created=1.0),
            _queue("poor", half if quota is None else quota, created=2.0),
        ]
        self._groups: list[KaiPodGroup] = []
        self._topologies: dict[str, KaiTopology] = {}
        devices = {f"kai-gpu/{at}": WHOLE for at in range(GPUS)}
        for at in range(nodes):
            self._cluster.node(
                node_name(at),
                cpu=128,
                memory=1024,
                labels={RACK: f"rack-{at // NODES_OF_A_RACK:05}"},
                resources={GPU: GPUS},
                devices=devices,
            )

    def running(self, name: str, *, node: int, device: int) -> None:
        """A job of one GPU on this device."""
        devices = ((f"kai-gpu/{device}", (WHOLE,)),)
        self._job(name, "rich", pods=1, gpus=1, on=node_name(node), devices=[devices])

    def full(self) -> None:
        """Jobs of one GPU on all GPUs, the last nodes filled last."""
        for node in range(self.nodes):
            for device in range(GPUS):
                self.running(f"rich-{node * GPUS + device:06}", node=node, device=device)

    def waiting(
        self,
        name: str,
        *,
        pods: int = 1,
        gpus: int = 1,
        apart: bool = False,
        together: bool = False,
        queue: str = "poor",
    ) -> None:
        """A gang of pods with whole GPUs. ``apart``: no two pods in a rack; ``together``: all of
        them in one."""
        labels = (("gang", name),)
        constraint = None
        if together:
            self._topologies[RACK] = KaiTopology(RACK, (KaiLevel(RACK),))
            constraint = KaiTopologyConstraint(RACK, required=RACK)
        rules: dict[str, object] = {}
        if apart:
            term = PodTerm(RACK, selector=(Requirement("gang", "In", (name,)),), anti=True)
            rules = {"constraints": Constraints(pod_terms=(term,))}
        self._job(
            name,
            queue,
            pods=pods,
            gpus=gpus,
            rules=rules,
            labels=labels,
            topology=constraint,
        )

    def sharing(self, name: str) -> None:
        """A job of one pod that wants half of a GPU."""
        self._job(name, "poor", pods=1, gpus=0, annotations=((FRACTION, "0.5"),))

    def _job(
        self,
        name: str,
        queue: str,
        *,
        pods: int,
        gpus: int,
        on: str | None = None,
        devices: list[tuple[tuple[str, tuple[int, ...]], ...]] | None = None,
        rules: Mapping[str, object] | None = None,
        labels: tuple[tuple[str, str], ...] = (),
        annotations: tuple[tuple[str, str], ...] = (),
        topology: KaiTopologyConstraint | None = None,
    ) -> None:
        job = self._cluster.job(
            name,
            tasks=pods,
            cpu=1,
            on=() if on is None else (on,),
            devices=devices or (),
            resources={GPU: gpus} if gpus else {},
            rules=rules,
            members={"labels": labels, "annotations": annotations},
            priority=50,
        )
        self._groups.append(
            KaiPodGroup(
                job.namespace,
                name,
                queue,
                uid=name,
                created=job.created,
                min_member=pods,
                topology=topology,
            )
        )

    def open(self, **policy: object) -> KaiSession:
        """A session over it."""
        world = self._cluster.open().world
        world.objects.kai_queues = {queue.name: queue for queue in self._queues}
        world.objects.kai_groups = {group.key: group for group in self._groups}
        world.objects.kai_topologies = self._topologies
        session = open_kai_session(parse_policy({"dialect": "kai", **policy}))
        session.enter(world)
        return session


def node_name(at: int) -> str:
    return f"node-{at:05}"


def _queue(name: str, quota: int, *, created: float) -> KaiQueue:
    gpu = KaiShare(quota=quota * 1000, weight=1000, limit=-1)
    return KaiQueue(name, FREE, FREE, gpu, "department", created=created, uid=name)


@dataclass(frozen=True, slots=True)
class SessionShape:
    """One measured shape: a cluster, the action that is timed, and what must come out."""

    title: str
    action: str
    goals: Mapping[int, float]
    """Nodes -> seconds, of the sizes that are measured."""
    build: Callable[[int], KaiSession]
    """(nodes) -> a session on which the action has not run."""
    placed: Callable[[int], int]
    """(nodes) -> tasks of waiting jobs that come to ``reached``."""
    reached: Status = Status.PIPELINED
    """A promise, but where nobody has to go."""


def _full_and_gang(
    cluster: ShapedCluster, pods: int, *, apart: bool = False, together: bool = False
) -> KaiSession:
    """Every GPU is taken, and a gang of whole nodes waits."""
    cluster.full()
    cluster.waiting("gang", pods=pods, gpus=GPUS, apart=apart, together=together)
    return cluster.open()


def _reclaim(nodes: int) -> KaiSession:
    return _full_and_gang(ShapedCluster(nodes), nodes // 2)


def _reclaim_many(nodes: int) -> KaiSession:
    cluster = ShapedCluster(nodes)
    cluster.full()
    for at in range(nodes * GPUS):
        cluster.waiting(f"poor-{at:06}")
    return cluster.open()


def _never_by_quota(nodes: int) -> KaiSession:
    """The gang's queue may have all that it asks for, and the other one GPU more than it leaves."""
    asks = GANG * GPUS
    cluster = ShapedCluster(nodes, quota=asks, rich_quota=nodes * GPUS - asks + 1)
    return _full_and_gang(cluster, GANG)


def _never_apart(nodes: int) -> KaiSession:
    racks = -(-nodes // NODES_OF_A_RACK)
    return _full_and_gang(ShapedCluster(nodes), racks + 1, apart=True)


def _never_together(nodes: int) -> KaiSession:
    return _full_and_gang(ShapedCluster(nodes), GANG, together=True)


def _consolidate(nodes: int) -> KaiSession:
    """One GPU of each node is taken, and gangs want whole nodes."""
    cluster = ShapedCluster(nodes)
    for node in range(nodes):
        cluster.running(f"rich-{node:06}", node=node, device=0)
    for at in range(gangs_that_fit(nodes)):
        cluster.waiting(f"gang-{at:03}", pods=GANG, gpus=GPUS)
    return cluster.open(options={"max-consolidation-preemptees": -1})


def gangs_that_fit(nodes: int) -> int:
    """41 of 500 nodes."""
    return nodes * 41 // 500


def _fractions(nodes: int) -> KaiSession:
    cluster = ShapedCluster(nodes, quota=nodes * GPUS)
    for at in range(2 * GPUS * nodes):
        cluster.sharing(f"half-{at:06}")
    return cluster.open()


_NEVER_GOALS = {100: 0.2, 200: 0.2, 1000: 1.0}


def _none(_: int) -> int:
    return 0


SHAPES: Mapping[str, tuple[SessionShape, ...]] = {
    "reclaim": (
        SessionShape(
            "gang of half of the nodes",
            "reclaim",
            {500: 0.4, 1000: 1.0},
            _reclaim,
            lambda nodes: nodes // 2,
        ),
    ),
    "reclaim-many": (
        SessionShape(
            "as many jobs wait as run",
            "reclaim",
            {500: 5.0},
            _reclaim_many,
            lambda nodes: nodes * GPUS // 2,
        ),
    ),
    "reclaim-never": (
        SessionShape("a quota forbids one GPU", "reclaim", _NEVER_GOALS, _never_by_quota, _none),
        SessionShape("anti-affinity forbids it", "reclaim", _NEVER_GOALS, _never_apart, _none),
        SessionShape("a topology forbids it", "reclaim", _NEVER_GOALS, _never_together, _none),
    ),
    "consolidate": (
        SessionShape(
            "gangs of ten whole nodes",
            "consolidation",
            {500: 5.0},
            _consolidate,
            lambda nodes: gangs_that_fit(nodes) * GANG,
        ),
    ),
    "fractions": (
        SessionShape(
            "jobs of half a GPU",
            "allocate",
            {1000: 3.2},  # 5,000 a second
            _fractions,
            lambda nodes: 2 * GPUS * nodes,
            reached=Status.BINDING,
        ),
    ),
}
"""Name of the benchmark -> its shapes."""
