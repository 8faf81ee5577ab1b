"""A KAI session of one turn in a worker: its job over all nodes, with the queues' totals as the
coordinator told them.

Fair shares and the order of queues are decided once, by the coordinator. Here are what a job's own
placement needs: the chain of its queue, its tree of sub groups, nodes and their devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.actions import stale_gang_eviction
from shard_worker.dialects.kai.actions.allocate import turn
from shard_worker.dialects.kai.actions.run import EVICTING
from shard_worker.dialects.kai.actions.searching import is_delayed, may_search, run_for
from shard_worker.dialects.kai.devices import device_memory
from shard_worker.dialects.kai.model import (
    KaiJob,
    QueueState,
    Tree,
    amounts_of,
    group_tree,
    queue_tree,
)
from shard_worker.dialects.kai.rules.amounts import Amounts
from shard_worker.dialects.kai.rules.capacity import OverCapacity
from shard_worker.dialects.kai.rules.groups import PodSet, SubGroupSet
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.rules import Mask, Scores
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.queue_totals import used
from shard_worker.view.mode import Mode
from shared.messages.reason import Reason
from shared.model.kai import PREEMPTIBLE_BELOW, KaiPodGroup
from shared.model.node_pool import NodePool
from shared.policy.model import PluginOption, Policy
from shared.units.quantity import quantity
from shared.units.queue_slots import GPU_SHARE, NON_PREEMPTIBLE
from shared.units.slots import CPU, MEMORY

if TYPE_CHECKING:
    from shard_worker.session_model.world import World

OWN_SHARD = 5e1
"""A node of the own shard goes before others: below what is idle, zones and devices in use, above
the kind of node and packing. So two workers with room of their own do not meet."""
DELAYED = "its preemptionDelay is not over: it evicts nobody yet"
NOT_SEARCHED = "it may not take from others, as queues and quotas stand"
NO_NODES = "no set of nodes has room for all of it together"


class TurnSession(KaiSession):
    """The combined rules of a KAI policy over the world of one turn."""

    divides = False

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        options = self.kai.options
        self.pool = NodePool(options.nodepool_label_key, options.partition_label_value)
        self._usable: Mask | None = None
        """The rows that are looked at, once a search began: they are asked for with each job."""
        with self.speaking(0, PluginOption("shards")):
            self.add_batch_node_order_fn(_own_shard)

    def _read(self, world: World) -> None:
        self._usable = None
        objects, names = world.objects, world.view.slot_names
        memories = device_memory(world)[world.view.exists()]
        if len(memories):
            self._memories = int(memories.min()), int(memories.max())
        flat = not self.kai.options.full_hierarchy_fairness
        records = (r for r in objects.kai_queues.values() if self.pool.has(dict(r.labels)))
        self.queues = queue_tree(records, flat=flat)
        self.cluster = amounts_of(tuple(world.total.items()), names)
        _count(self.queues, world)
        _share_out(self, world)
        self.kai_jobs = {}
        for job in world.linked_jobs():
            self._add(job, world)

    def _add(self, job: SessionJob, world: World) -> None:
        """Add a job of the node pool whose queue may hold jobs."""
        queue = self.queues.get(job.job.queue)
        if queue is None or queue.children or not self.pool.has_job(job.job):
            return
        group = _group_of(job, world)
        root = group_tree(group, job.tasks, self.kai_task_key)
        if group.key not in world.objects.kai_groups and job.job.role_minima:
            root = _by_role(job)
        preemptible = group.is_preemptible(job.job.priority)
        self.kai_jobs[job.job.jid] = KaiJob(job, group, queue, root, preemptible)

    def read_residents(self, job: KaiJob, of_own_queue: bool | None) -> None:
        """Add the jobs with tasks on nodes that may be victims for a job: of its queue, of others,
        or (None) of any. A job that is read is an object for each of its tasks."""
        self.started |= self.world.job_starts
        self._usable = self.rows()
        for resident in self.world.jobs_on_nodes(job.queue.record.name, of_own_queue):
            if resident.job.jid not in self.kai_jobs:
                self._add(resident, self.world)

    def may_lose(self, job: KaiJob) -> bool:
        """Only who is on nodes that the shard may use, and waits for no promise of its own."""
        if job.job.job.jid in self.world.view.nominations:
            return False
        rows = self._usable if self._usable is not None else self.rows()
        return all(rows[task.row] for task in job.job.tasks if task.row >= 0)

    def rows(self) -> Mask:
        """Behind walls the nodes of the own shard."""
        view = self.world.view
        own = view.own if self.world.mode is Mode.HARD else np.ones(view.size, np.bool_)
        return super().rows() & own & view.live() & ~view.withheld


def run_for_job(ssn: TurnSession, job: SessionJob, action: str) -> None:
    """Give the job one turn; where nothing is placed, note why."""
    kai_job = ssn.kai_job(job)
    if kai_job is None:
        text = f"queue {job.job.queue} does not exist, or has queues below it"
        ssn.skip(job, Reason.MISCONFIGURED, text)
    elif action == stale_gang_eviction.NAME:
        if not stale_gang_eviction.evict(ssn, kai_job):
            ssn.skip(job, Reason.NOT_ENOUGH_RESOURCES, "it is a whole gang, or gone")
    elif not kai_job.root.ready:
        ssn.skip(job, Reason.NOT_ENOUGH_TASKS, "too few of its pods exist, or wait without a gate")
    elif action in EVICTING:
        _search(ssn, kai_job, action)
    elif not turn(ssn, kai_job):
        refusal = ssn.over_capacity.get(job.job.jid)
        if refusal is not None:
            ssn.skip(job, Reason.WAITING_FOR_QUOTA, _told(refusal))
        elif missing := _missing_level(kai_job, ssn.world):
            ssn.skip(job, Reason.MISCONFIGURED, missing)
        elif not job.unschedulable:
            ssn.skip(job, Reason.TOPOLOGY_PLACEMENT_FAILED, NO_NODES)


def _search(ssn: TurnSession, job: KaiJob, action: str) -> None:
    """Search victims for the job; where none are found, note how that ended."""
    if is_delayed(job, ssn.world.now):
        ssn.skip(job.job, Reason.NOT_ENOUGH_RESOURCES, DELAYED)
        return
    rules = EVICTING[action](ssn)
    found = False
    if may_search(ssn, rules, job):
        ssn.read_residents(job, rules.of_own_queue)
        found = run_for(ssn, rules, job)
    if not found:
        ended = ssn.searches.ended.get(job.job.job.jid, NOT_SEARCHED)
        ssn.skip(job.job, Reason.NOT_ENOUGH_RESOURCES, ended)


def _missing_level(job: KaiJob, world: World) -> str:
    """What of a topology that the job names is not there; "" for nothing."""
    constraints = (job.group.topology, *(sub.topology for sub in job.group.sub_groups))
    for constraint in filter(None, constraints):
        topology = world.objects.kai_topologies.get(constraint.topology)
        if topology is None:
            return f"topology {constraint.topology} does not exist; create it, or name another"
        for level in filter(None, (constraint.required, constraint.preferred)):
            if topology.level(level) is None:
                return f"topology {topology.name} has no level {level}; add it, or name another"
    return ""


def _told(refusal: OverCapacity) -> str:
    """Why the turn would exceed what a queue may have, in one sentence."""
    resource = refusal.resource
    has, asks, may = (quantity(resource, n) for n in (refusal.has, refusal.asks, refusal.may))
    return (
        f"{refusal.bound.value}: queue {refusal.queue} has {has} of the {may} {resource} that it "
        f"may have, and the job asks for {asks}"
    )


def _own_shard(task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
    del task
    if world.mode is not Mode.SOFT:
        return np.zeros(len(rows), np.float64)
    return np.where(world.view.own[rows], OWN_SHARD, 0.0)


def _group_of(job: SessionJob, world: World) -> KaiPodGroup:
    """The PodGroup of the job; one like it for a pod or a Job without."""
    kept = world.objects.kai_groups.get(job.job.key) if job.job.kind == "PodGroup" else None
    if kept is not None:
        return kept
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


def _share_out(ssn: TurnSession, world: World) -> None:
    """Take the fair shares that the coordinator told."""
    for name, share in world.queue_shares.items():
        if name in ssn.queues:
            ssn.queues[name].fair_share = Amounts(*share)


def _count(queues: dict[str, QueueState], world: World) -> None:
    """Take what the queues hold, open turns of others included."""
    names = world.view.slot_names
    slots = {name: slot for slot, name in enumerate(names)}
    held = (CPU, MEMORY, slots.get(GPU_SHARE, -1))
    kept = tuple(slots.get(name, -1) for name in NON_PREEMPTIBLE)
    for info in world.queues.values():
        state = queues.get(info.queue.name)
        if state is not None:
            total = used(info)
            state.allocated = Amounts(*(total.get(slot, 0) for slot in held))
            state.non_preemptible = Amounts(*(total.get(slot, 0) for slot in kept))
