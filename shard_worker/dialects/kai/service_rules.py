"""KAI's rules at the engine's own points: what Order and turns over columns ask, on live totals.

A replay runs KAI's actions over a whole world (:mod:`shard_worker.dialects.kai.session`). A
service has turns instead, of which Order gives one after the other, and workers place each over
columns. Both use the same rules (:mod:`shard_worker.dialects.kai.rules`). Where a service decides
less than KAI does, :data:`TOLD` says so, and what it would decide wrongly is not placed.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.model import amounts_of
from shard_worker.dialects.kai.plugins.predicates import Predicates
from shard_worker.dialects.kai.rules.amounts import NOTHING, Amounts
from shard_worker.dialects.kai.rules.fair_share import QueueDemand, fair_shares
from shard_worker.dialects.kai.rules.queue_order import Candidate, QueueFigures
from shard_worker.framework.rules import PERMIT, REJECT, NodeColumns, Rows
from shard_worker.framework.session import Session
from shard_worker.session_model.demands import Preference
from shard_worker.session_model.job import SessionJob
from shard_worker.session_model.workload import ClusterInfo, JobInfo, Progress, QueueInfo
from shard_worker.session_model.world import World
from shared.codec.packed import replace
from shared.messages.reason import Reason
from shared.messages.skips import written
from shared.model.kai import PREEMPTIBLE_BELOW, KaiPodGroup, KaiQueue, KaiShare
from shared.model.model import Requests, TaskClass
from shared.policy.kai_model import KaiPolicy
from shared.policy.kai_names import IDLE_ACTIONS
from shared.policy.model import PluginOption, Policy, PolicyError, PolicyProblem
from shared.units.slots import CPU

TOLD = (
    "queue order: queues are compared by what they have, without the next job of each",
    "jobs that may not be evicted, sub groups deeper than one level or with a minSubGroup, and "
    "topology constraints wait with reason NotServed; so do parts of GPUs",
    "node pools: nodes, queues and PodGroups of all pools count",
    "usage over time, queueDepthPerAction and scheduling signatures are not looked at",
    "limits of GPUs are those of nvidia.com/gpu",
    "kubeflow, ray, taskorder, nominatednode: tasks of a job go by their index",
)
"""What a service decides otherwise than KAI, for whoever checks a policy or starts one."""
GANG = "gang"
"""The engine's name of the rules that keep gangs whole."""
_PACKING = 9.0
_KIND = 10.0


def open_service_session(policy: Policy) -> Session:
    """A session of a KAI policy for a service. Raises PolicyError for what it cannot follow."""
    kai = policy.kai or KaiPolicy()
    if kai.options.partition_label_value:
        message = "a service has one node pool in this version, that of all nodes; leave it out"
        field = "options.partition-label-value"
        raise PolicyError(PolicyProblem(field, message, kai.options.partition_label_value))
    if not kai.options.full_hierarchy_fairness:
        message = "a service divides by the whole tree in this version; leave it out"
        raise PolicyError(PolicyProblem("options.full-hierarchy-fairness", message, "False"))
    # Actions that evict have the names of Volcano's: the engine would run those.
    actions = tuple(name for name in policy.actions if name not in IDLE_ACTIONS)
    session = Session(replace(policy, actions=actions))
    options = [option for tier in policy.tiers for option in tier]
    with session.speaking(0, PluginOption(GANG)):
        _Gangs().register(session)
    for option in options:
        with session.speaking(0, option):
            _register(session, option)
    session.warnings += [f"a service differs from KAI: {text}" for text in TOLD]
    return session


def _register(session: Session, option: PluginOption) -> None:
    match option.name:
        case "predicates":
            Predicates(option).on_session_open(session)
        case "priority":
            session.add_job_order_fn(key=lambda info, _: -info.job.priority)
        case "elastic":
            session.add_job_order_fn(key=_elastic)
        case "proportion":
            session.add_queue_order_fn(key=QueueShares(option).key)
        case "nodeplacement":
            session.add_node_order_fn(scorer=Placement(option))
        case "resourcetype":
            session.add_node_order_fn(scorer=KindOfNode())
        case _:
            pass


# --- jobs -----------------------------------------------------------------------------------------


def _elastic(info: JobInfo, cluster: ClusterInfo) -> float:
    """Jobs below their minimum, then those at it, then those above it."""
    del cluster
    return float(np.sign(info.held[0] - info.job.groups[0].minimum))


class _Gangs:
    """A job starts with the pods that it needs, or not at all. No plugin of KAI's: always so."""

    def register(self, session: Session) -> None:
        session.serve(Preference.GANG)
        session.add_job_valid_fn(_why_not)
        session.add_job_ready_fn(_whole_job_ready, counted=_ready)
        session.add_job_pipelined_fn(_whole_job_pipelined, counted=_pipelined)


def _ready(progress: Progress) -> bool:
    held, extra = progress.held, progress.best_effort
    return all(h + e >= n for h, e, n in zip(held, extra, progress.minimum, strict=True))


def _pipelined(progress: Progress) -> int:
    there = zip(progress.held, progress.waiting, progress.best_effort, strict=True)
    least = progress.minimum
    return PERMIT if all(sum(n) >= m for n, m in zip(there, least, strict=True)) else REJECT


def _whole_job_ready(job: SessionJob, world: World) -> bool:
    del world
    return job.is_ready and job.roles_reach(lambda now: now.ready + now.pending_best_effort)


def _whole_job_pipelined(job: SessionJob, world: World) -> int:
    del world
    reached = job.is_pipelined and job.roles_reach(
        lambda now: now.ready + now.waiting + now.pending_best_effort
    )
    return PERMIT if reached else REJECT


def _why_not(info: JobInfo, cluster: ClusterInfo) -> str | None:
    """Why the job cannot be placed as it is: what a service does not follow yet, or pods that are
    missing."""
    job, objects = info.job, cluster.objects
    group = objects.kai_groups.get(job.key) if job.kind == "PodGroup" else None
    lacks = _unserved(group, job.priority)
    if lacks:
        return written(Reason.NOT_SERVED, f"{lacks}; this version places no such job")
    if any(queue.parent == job.queue for queue in objects.kai_queues.values()):
        text = f"queue {job.queue} has queues below it, and only leaves hold jobs; name one of them"
        return written(Reason.NOT_SERVED, text)
    for index, part in enumerate(job.groups):
        members = [role for role in job.roles if not index or role.group == index]
        there = sum(role.count for role in members) - (0 if index else info.failed)
        if there < part.minimum:
            name = "the job" if not index else job.role_minima[index - 1][0]
            return f"NotEnoughPods: {there} of the {part.minimum} pods that {name} needs exist"
    return None


def _unserved(group: KaiPodGroup | None, priority: int) -> str:
    if not (priority < PREEMPTIBLE_BELOW if group is None else group.is_preemptible(priority)):
        return "it may not be evicted (its priority is 100 or more, or its preemptibility says so)"
    if group is None:
        return ""
    subs = group.sub_groups
    if group.topology is not None or any(sub.topology is not None for sub in subs):
        return "it has a topologyConstraint"
    if any(sub.parent for sub in subs):
        return "its sub groups have sub groups"
    if group.min_sub_group not in (None, len(subs)):
        return "it has a minSubGroup that is less than all of them"
    return ""


# --- queues ---------------------------------------------------------------------------------------


class QueueShares:
    """proportion: fair shares by the tree, and the order of its leaves that follows from them."""

    def __init__(self, option: PluginOption) -> None:
        self._k = Fraction(option.number("kValue", 1.0))
        self._shares: dict[str, Amounts] = {}
        self._rank: dict[str, float] = {}
        """Queue -> its place by age and name."""
        self._total = NOTHING
        self._computed_for: tuple[ClusterInfo, int] | None = None

    def key(self, queue: QueueInfo, cluster: ClusterInfo) -> tuple[float, ...]:
        """The keys of the queues from the root down to this one: siblings are compared where two
        paths part."""
        self._refresh(cluster)
        path = [queue, *queue.above][::-1]
        return tuple(part for info in path for part in self._key(info, cluster))

    def _key(self, info: QueueInfo, cluster: ClusterInfo) -> tuple[float, ...]:
        name = info.queue.name
        record = cluster.objects.kai_queues.get(name)
        if record is None:
            return (float("inf"),) * 7
        figures = QueueFigures(
            uid=name,
            created=record.created,
            priority=record.priority,
            quota=_of(record, "quota"),
            limit=_of(record, "limit"),
            fair_share=self._shares.get(name, NOTHING),
            allocated=_held(info, cluster),
        )
        key = Candidate(figures, cluster=self._total).key
        return (*(float(part) for part in key), self._rank[name])

    def _refresh(self, cluster: ClusterInfo) -> None:
        computed = self._computed_for
        if computed is not None and computed[0] is cluster and computed[1] == cluster.revision:
            return
        queues = cluster.objects.kai_queues
        by_age = sorted(queues.values(), key=lambda queue: (queue.created, queue.name))
        self._rank = {queue.name: float(at) for at, queue in enumerate(by_age)}
        self._total = amounts_of(tuple(cluster.total.items()), cluster.names)
        requested = _requested(cluster)
        demands = [
            QueueDemand(
                uid=record.name,
                parent=record.parent or None,
                created=record.created,
                priority=record.priority,
                quota=_of(record, "quota"),
                limit=_of(record, "limit"),
                weight=_of(record, "weight"),
                requested=requested.get(record.name, NOTHING),
            )
            for record in by_age
        ]
        self._shares = fair_shares(self._total, demands, k=self._k)
        self._computed_for = (cluster, cluster.revision)


def _of(record: KaiQueue, part: str) -> Amounts:
    shares: Iterable[KaiShare] = (record.cpu, record.memory, record.gpu)
    return Amounts(*(getattr(share, part) for share in shares))


def _held(info: QueueInfo, cluster: ClusterInfo) -> Amounts:
    """What a queue and all below it hold, with open turns."""
    own = amounts_of(tuple(info.allocated.items()), cluster.names)
    if info.below is None:
        return own
    return own.plus(amounts_of(tuple(info.below.allocated.items()), cluster.names))


def _requested(cluster: ClusterInfo) -> dict[str, Amounts]:
    """What each queue and all below it hold or ask for."""
    totals: dict[str, Amounts] = {}
    for info in cluster.queues.values():
        own = amounts_of(tuple(info.requested.items()), cluster.names)
        for queue in (info, *info.above):
            name = queue.queue.name
            totals[name] = totals.get(name, NOTHING).plus(own)
    return totals


# --- nodes ----------------------------------------------------------------------------------------


class Placement:
    """nodeplacement over columns: tasks with GPUs by free GPUs, the others by free cores.

    KAI's score of a node depends on the fullest and the emptiest one. For the order of nodes only
    which is fuller counts, so that a score of the node alone does: it falls with what is free, and
    stays below the next larger kind of reason.
    """

    node_local = True

    def __init__(self, option: PluginOption) -> None:
        self._spread = {kind: option.text(kind) == "spread" for kind in ("gpu", "cpu")}

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        slots, spread = self._slots(cls.requests, view)
        there = np.zeros(len(view.column("used", CPU)[rows]))
        used = there.copy()
        for slot in slots:
            there += view.column("allocatable", slot)[rows]
            used += view.column("used", slot)[rows] - view.column("releasing", slot)[rows]
        free = np.maximum(there - used, 0.0)
        score = free / np.maximum(there, 1.0) if spread else _PACKING / (1.0 + free)
        result: NDArray[np.float64] = np.where(there > 0, score, 0.0)
        return result

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        slots, spread = self._slots(cls.requests, view)
        there = used = 0.0
        for slot in slots:
            there += view.column("allocatable", slot).item(row)
            used += view.column("used", slot).item(row) - view.column("releasing", slot).item(row)
        if there <= 0:
            return 0.0
        free = max(there - used, 0.0)
        return free / max(there, 1.0) if spread else _PACKING / (1.0 + free)

    def _slots(self, requests: Requests, view: NodeColumns) -> tuple[list[int], bool]:
        """(the slots that count for the task, whether the emptiest node goes first)."""
        gpus = _gpus(view)
        if any(slot in gpus for slot, _ in requests):
            return gpus, self._spread["gpu"]
        return [CPU], self._spread["cpu"]


class KindOfNode:
    """resourcetype over columns: tasks without GPUs on nodes without GPUs."""

    node_local = True

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        gpus = _gpus(view)
        there = np.zeros(len(view.column("used", CPU)[rows]))
        if any(slot in gpus for slot, _ in cls.requests):
            return there
        for slot in gpus:
            there += view.column("allocatable", slot)[rows]
        result: NDArray[np.float64] = np.where(there > 0, 0.0, _KIND)
        return result

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        gpus = _gpus(view)
        if any(slot in gpus for slot, _ in cls.requests):
            return 0.0
        return 0.0 if any(view.column("allocatable", s).item(row) for s in gpus) else _KIND


def _gpus(view: NodeColumns) -> list[int]:
    return [slot for slot, name in enumerate(view.slot_names) if name.endswith("gpu")]
