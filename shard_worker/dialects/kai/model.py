"""State of a KAI session beside its world: the tree of queues with their amounts, and jobs as trees
of sub groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shard_worker.dialects.kai.mig import mig_amount
from shard_worker.dialects.kai.rules.amounts import NOTHING, Amounts
from shard_worker.dialects.kai.rules.groups import PodSet, SubGroupSet
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.status import Status
from shared.model.groups import COMPOSITE
from shared.model.kai import (
    DEFAULT_POD_SET,
    PREEMPTIBLE_BELOW,
    Below,
    KaiPodGroup,
    KaiQueue,
    KaiShare,
    KaiTopologyConstraint,
)
from shared.model.model import Requests
from shared.model.objects import ClusterObjects
from shared.units.slots import CPU, MEMORY

POD_SET_LABEL = "kai.scheduler/subgroup-name"
SortKey = tuple[Any, ...]
Tree = SubGroupSet[TaskInfo]
Member = PodSet[TaskInfo] | Tree


def amounts_of(requests: Requests, names: Sequence[str]) -> Amounts:
    """Convert a request to the amounts that are divided among queues. ``names``: of slots. Every
    resource whose name ends in ``gpu`` is a GPU; a MIG instance counts for the slices of its
    profile."""
    cpu = memory = gpu = 0
    for slot, amount in requests:
        if slot == CPU:
            cpu += amount
        elif slot == MEMORY:
            memory += amount
        elif slot < len(names) and names[slot].endswith("gpu"):
            gpu += amount
    return Amounts(cpu, memory, gpu + mig_amount(requests, names))


# --- queues ---------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class QueueState:
    """One queue of the tree; amounts with all its descendants."""

    record: KaiQueue
    chain: tuple[QueueState, ...] = ()
    """Itself, then its ancestors, nearest first."""
    children: list[QueueState] = field(default_factory=list)
    allocated: Amounts = NOTHING
    """Without what is leaving."""
    non_preemptible: Amounts = NOTHING
    requested: Amounts = NOTHING
    """Allocated and pending."""
    fair_share: Amounts = NOTHING

    @property
    def uid(self) -> str:
        return self.record.uid or self.record.name

    @property
    def quota(self) -> Amounts:
        return self._of(lambda share: share.quota)

    @property
    def limit(self) -> Amounts:
        return self._of(lambda share: share.limit)

    @property
    def weight(self) -> Amounts:
        return self._of(lambda share: share.weight)

    def _of(self, part: Callable[[KaiShare], int]) -> Amounts:
        record = self.record
        return Amounts(part(record.cpu), part(record.memory), part(record.gpu))

    def charge(self, amounts: Amounts, *, preemptible: bool) -> None:
        """Count amounts that a task of the queue holds from now on, here and above."""
        for queue in self.chain:
            queue.allocated = queue.allocated.plus(amounts)
            if not preemptible:
                queue.non_preemptible = queue.non_preemptible.plus(amounts)

    def discharge(self, amounts: Amounts, *, preemptible: bool) -> None:
        """Take back what :meth:`charge` counted."""
        self.charge(NOTHING.minus(amounts), preemptible=preemptible)

    def ask(self, amounts: Amounts) -> None:
        """Count amounts that a task holds or waits for."""
        for queue in self.chain:
            queue.requested = queue.requested.plus(amounts)


ROOT = "default"
"""The name of the only parent where the tree is flattened."""
_ALL = KaiShare(quota=-1, weight=1000, limit=-1)


def queue_tree(records: Iterable[KaiQueue], *, flat: bool = False) -> dict[str, QueueState]:
    """The queues by name. Those whose ancestors are missing or go round are left out, with all
    below them. ``flat``: only leaves count, below one parent without bounds."""
    states = {record.name: QueueState(record) for record in records}
    if flat:
        parents = {state.record.parent for state in states.values()}
        leaves = {name: state for name, state in states.items() if name not in parents}
        root = QueueState(KaiQueue(ROOT, _ALL, _ALL, _ALL, uid=ROOT))
        root.chain = (root,)
        for leaf in leaves.values():
            leaf.chain = (leaf, root)
            root.children.append(leaf)
        return {**leaves, ROOT: root}
    rooted: dict[str, QueueState] = {}
    for name, state in states.items():
        if chain := _chain(state, states):
            state.chain = chain
            rooted[name] = state
            if len(chain) > 1:
                chain[1].children.append(state)
    return rooted


def _chain(state: QueueState, states: Mapping[str, QueueState]) -> tuple[QueueState, ...]:
    chain = [state]
    while parent := chain[-1].record.parent:
        above = states.get(parent)
        if above is None or above in chain:
            return ()
        chain.append(above)
    return tuple(chain)


# --- jobs -----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class KaiJob:
    """A job as KAI's rules see it."""

    job: SessionJob
    group: KaiPodGroup
    queue: QueueState
    root: Tree
    preemptible: bool

    @property
    def key(self) -> str:
        return self.job.job.key

    @property
    def waits(self) -> bool:
        """Whether a task of it has no place yet."""
        return self.job.census.by_status[Status.PENDING] > 0


def kai_job_of(
    job: SessionJob,
    queue: QueueState,
    objects: ClusterObjects,
    order: Callable[[TaskInfo], SortKey],
) -> KaiJob:
    """A job as KAI's rules see it, also one that no PodGroup of KAI's stands for. ``queue``: its
    own; ``order``: of tasks within a pod set."""
    kept = kai_group_of(job, objects)
    group = _group_like(job) if kept is None else kept
    by_role = kept is None and bool(job.job.role_minima)
    root = _by_role(job) if by_role else group_tree(group, job.tasks, order)
    return KaiJob(job, group, queue, root, group.is_preemptible(job.job.priority))


def kai_group_of(job: SessionJob, objects: ClusterObjects) -> KaiPodGroup | None:
    """The PodGroup of KAI's that a job is; None for a pod or a Job without."""
    return objects.kai_groups.get(job.job.kai_group)


def _group_like(job: SessionJob) -> KaiPodGroup:
    """A PodGroup for a pod or a Job without."""
    spec = job.job
    return KaiPodGroup(
        spec.namespace,
        spec.name,
        spec.queue,
        min_member=spec.groups[0].minimum,
        preemptible=spec.priority < PREEMPTIBLE_BELOW,
    )


def _by_role(job: SessionJob) -> Tree:
    """The tree of a Job whose tasks have minima of their own.

    A tree of KAI's has no minimum of tasks above its pod sets. What the Job needs beyond the minima
    of its tasks is asked of the tasks without one, or else of the sets from the first on: otherwise
    members beyond the minima of their sets were evicted as surplus, and the gang was left in part.
    """
    sets: list[PodSet[TaskInfo]] = []
    for at, (name, _) in enumerate(job.job.role_minima, start=1):
        tasks = [task for task in job.tasks if task.role.group == at]
        sets.append(PodSet(name, job.job.groups[at].minimum, tasks))
    rest = [task for task in job.tasks if task.role.group == 0]
    missing = job.job.groups[0].minimum - sum(group.minimum for group in job.job.groups[1:])
    if rest:
        return SubGroupSet("", [*sets, PodSet("", max(missing, 0), rest)])
    if missing > 0 and not any(pod_set.minimum for pod_set in sets):
        return SubGroupSet("", [PodSet("", missing, list(job.tasks))])
    for pod_set in sets:
        more = min(max(missing, 0), len(pod_set.tasks) - pod_set.minimum)
        pod_set.minimum += more
        missing -= more
    return SubGroupSet("", sets)


def group_tree(
    group: KaiPodGroup, tasks: Iterable[TaskInfo], order: Callable[[TaskInfo], Any]
) -> Tree:
    """The tree of a PodGroup with its tasks, in the order of the key. Tasks of a pod set that is
    not there are in none."""
    ordered = sorted(tasks, key=order)
    by_name: dict[str, list[TaskInfo]] = {}
    for task in ordered:
        by_name.setdefault(pod_set_of(task), []).append(task)
    if not group.sub_groups:
        only = PodSet(DEFAULT_POD_SET, group.min_member, ordered)
        return SubGroupSet("", [only], group.min_sub_group)
    return SubGroupSet("", list(_members(group.below(), "", by_name)), group.min_sub_group)


def _members(below: Below, parent: str, tasks: Mapping[str, list[TaskInfo]]) -> Iterator[Member]:
    for child in below.get(parent, ()):
        if child.name not in below:
            yield PodSet(child.name, child.min_member or 0, tasks.get(child.name, []))
        else:
            members = list(_members(below, child.name, tasks))
            yield SubGroupSet(child.name, members, child.min_sub_group)


def pod_set_of(task: TaskInfo) -> str:
    """The pod set that a task's label names; of Kubernetes' own groups its PodGroup."""
    if task.job.job.kind == COMPOSITE:
        return task.role.name
    return dict(task.role.labels).get(POD_SET_LABEL, DEFAULT_POD_SET)


def constraint_of(job: KaiJob, group: Member) -> KaiTopologyConstraint | None:
    """The constraint of the job itself, or of one of its sub groups."""
    if group is job.root:
        constraint = job.group.topology
    else:
        named = (sub for sub in job.group.sub_groups if sub.name == group.name)
        constraint = next((sub.topology for sub in named), None)
    return constraint if constraint is not None and constraint.topology else None
