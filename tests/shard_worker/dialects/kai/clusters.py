"""A small cluster under a KAI policy: nodes and queues by calls, jobs as PodGroups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shard_worker.dialects.kai.registry import open_kai_session
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.harness import Cluster
from shard_worker.session_model.status import Status
from shared.model.constraints import Constraints, PodTerm, Requirement
from shared.model.gpu_request import WHOLE
from shared.model.groups import COMPOSITE
from shared.model.kai import KaiPodGroup, KaiQueue, KaiShare, KaiSubGroup, KaiTopology
from shared.model.kai import KaiTopologyConstraint as Constraint
from shared.model.model import Role, TaskClass
from shared.policy.dialect import parse_policy
from shared.units.things import Things

GPU = "nvidia.com/gpu"
FREE = KaiShare(quota=-1, weight=1000, limit=-1)


class KaiCluster:
    """Built by calls, opened once. Everything is in queue ``team`` of ``department`` unless said;
    GPUs are whole devices."""

    def __init__(self, **policy: object) -> None:
        self.policy = parse_policy({"dialect": "kai", **policy})
        self._cluster = Cluster()
        self._queues: list[KaiQueue] = []
        self._groups: list[KaiPodGroup] = []
        self.topologies: list[KaiTopology] = []

    def node(
        self,
        name: str,
        *,
        gpus: int = 0,
        labels: dict[str, str] | None = None,
        resources: Mapping[str, float] | None = None,
    ) -> None:
        devices = {f"kai-gpu/{at}": WHOLE for at in range(gpus)}
        resources = {**(resources or {}), **({GPU: gpus} if gpus else {})}
        self._cluster.node(name, labels=labels, resources=resources, devices=devices)

    def queue(
        self,
        name: str,
        *,
        parent: str = "department",
        quota: int = -1,
        limit: int = -1,
        priority: int = 100,
    ) -> None:
        gpu = KaiShare(
            quota=quota if quota < 0 else quota * 1000,
            weight=1000,
            limit=limit if limit < 0 else limit * 1000,
        )
        created = float(len(self._queues))
        self._queues.append(
            KaiQueue(name, FREE, FREE, gpu, parent, priority, created=created, uid=name)
        )

    def job(
        self,
        name: str,
        *,
        tasks: int = 1,
        gpus: int = 1,
        minimum: int | None = None,
        queue: str = "team",
        on: Sequence[str | None] = (),
        status: Status = Status.RUNNING,
        priority: int = 50,
        sub_groups: Sequence[KaiSubGroup] = (),
        members: Sequence[str] = (),
        topology: Constraint | None = None,
        marks: Mapping[str, str] | None = None,
        resources: Mapping[str, float] | None = None,
        holding: Sequence[Things] = (),
        app: str = "",
        away_from: str = "",
    ) -> None:
        """``on``: nodes of the first tasks, ``holding``: what these have of devices. ``members``:
        the sub group of each task. ``marks``: annotations of its pods, ``resources``: what they
        want instead of whole GPUs; with either of them they want none. ``app``: a label of its
        pods; they are on no node (label ``host``) with a pod whose app is ``away_from``."""
        self._default_queues()
        expected = dict(resources or {}) if resources or marks or not gpus else {GPU: gpus}
        requests = self._cluster.requests(pods=1, **expected)
        apart = PodTerm("host", selector=(Requirement("app", "In", (away_from,)),), anti=True)
        constraints = Constraints(pod_terms=(apart,)) if away_from else None
        cid = self._cluster.class_of(TaskClass(requests=requests, constraints=constraints))
        labels = (("app", app),) if app else ()
        inside = list(members) or [""] * tasks
        roles = [
            Role(
                "task",
                cid,
                at,
                1,
                names=(f"{name}-{at}",),
                labels=labels + ((("kai.scheduler/subgroup-name", sub),) if sub else ()),
                annotations=tuple(sorted((marks or {}).items())),
            )
            for at, sub in enumerate(inside)
        ]
        job = self._cluster.job(
            name,
            tasks=len(roles),
            roles=roles,
            on=on,
            devices=holding,
            status=status,
            priority=priority,
        )
        self._groups.append(
            KaiPodGroup(
                job.namespace,
                name,
                queue,
                uid=name,
                created=job.created,
                min_member=len(roles) if minimum is None else minimum,
                sub_groups=tuple(sub_groups),
                topology=topology,
            )
        )

    def tree(self, group: KaiPodGroup, pods: Mapping[str, int]) -> None:
        """A tree of Kubernetes' own groups, with so many pods of one GPU in each PodGroup."""
        self._default_queues()
        cid = self._cluster.class_of(TaskClass(requests=self._cluster.requests(pods=1, **{GPU: 1})))
        roles, first = list[Role](), 0
        for name, count in pods.items():
            names = tuple(f"{name}-{at}" for at in range(count))
            roles.append(Role(name, cid, first, count, priority=50, names=names))
            first += count
        name = group.name.removeprefix(f"{COMPOSITE}/")
        self._cluster.job(name, tasks=first, roles=roles, priority=50, kind=COMPOSITE, queue="team")
        self._groups.append(group)

    def _default_queues(self) -> None:
        if not self._queues:
            self.queue("department", parent="")
            self.queue("team")

    def open(self) -> KaiSession:
        world = self._cluster.open().world
        world.objects.kai_queues = {queue.name: queue for queue in self._queues}
        world.objects.kai_groups = {group.key: group for group in self._groups}
        world.objects.kai_topologies = {topology.name: topology for topology in self.topologies}
        session = open_kai_session(self.policy)
        session.enter(world)
        return session


def placed(session: KaiSession) -> dict[str, tuple[str, str]]:
    """Task -> (status, node) of those that have a place."""
    world = session.world
    return {
        task.name: (task.status.name or "", world.node(task.row).name)
        for task in sorted(world.tasks(), key=lambda task: task.name)
        if task.row >= 0
    }


def image(session: KaiSession) -> object:
    """Everything that a statement may change: amounts of nodes, statuses, and queues."""
    world = session.world
    slots = range(len(world.view.slot_names))
    kinds = ("used", "releasing", "nominated")
    return (
        [world.view.column(kind, slot).tolist() for kind in kinds for slot in slots],
        [(t.name, t.status, t.row, t.evicted, t.devices) for t in world.tasks()],
        world.view.things.image(),
        {
            name: (queue.allocated, queue.non_preemptible, queue.requested, queue.fair_share)
            for name, queue in session.queues.items()
        },
        {row: [task.name for task in tasks] for row, tasks in world.resident.items() if tasks},
    )
