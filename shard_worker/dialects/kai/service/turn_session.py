"""A KAI session of one turn in a worker: its job over all nodes, with the queues' totals as the
coordinator told them.

Fair shares and the order of queues are decided once, by the coordinator. Here are what a job's own
placement needs: the chain of its queue, its tree of sub groups, nodes and their devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.actions import stale_gang_eviction
from shard_worker.dialects.kai.actions.allocate import NAME as ALLOCATE
from shard_worker.dialects.kai.actions.allocate import turn
from shard_worker.dialects.kai.actions.run import EVICTING
from shard_worker.dialects.kai.actions.searching import is_delayed, may_search, run_for
from shard_worker.dialects.kai.claimed_gpus import ClaimedGpus
from shard_worker.dialects.kai.devices import known_memories
from shard_worker.dialects.kai.model import (
    KaiJob,
    QueueState,
    kai_job_of,
    queue_tree,
)
from shard_worker.dialects.kai.node_kinds import total_of
from shard_worker.dialects.kai.not_placed import why_no_turn, why_not_placed
from shard_worker.dialects.kai.points import JOB_ORDER
from shard_worker.dialects.kai.rules.amounts import Amounts
from shard_worker.dialects.kai.rules.groups import tasks_to_allocate
from shard_worker.dialects.kai.search.solver import least_cost
from shard_worker.dialects.kai.search.unread_jobs import UnreadJobs
from shard_worker.dialects.kai.service.resident_jobs import ResidentJobs
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.rules import Mask, Scores
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.queue_totals import used, whole
from shard_worker.session_model.status import OCCUPYING
from shard_worker.view.mode import Mode
from shared.messages.reason import Reason
from shared.model.node_pool import NodePool
from shared.policy.model import PluginOption, Policy
from shared.units.queue_slots import GPU_SHARE, NON_PREEMPTIBLE
from shared.units.slots import CPU, MEMORY

if TYPE_CHECKING:
    from shard_worker.session_model.world import World

OWN_SHARD = 5e1
"""A node of the own shard goes before others: below what is idle, zones and devices in use, above
the kind of node and packing. So two workers with room of their own do not meet. Searches have no
such preference (:attr:`TurnSession.evicts`)."""
DELAYED = "its preemptionDelay is not over: it evicts nobody yet"
RESIDENTS = "kai residents"
"""By this name a worker's turns keep what they know of jobs on nodes."""
NOT_SEARCHED = "it may not take from others, as queues and quotas stand"


class TurnSession(KaiSession):
    """The combined rules of a KAI policy over the world of one turn."""

    divides = False
    reads_columns = True
    """Whether jobs that may be victims stay columns until a search reaches them; the outcome is the
    same."""
    evicts = False
    """Whether the turn searches for victims. Then no node goes before others for being the own
    shard's: what a search finds must not depend on who searches. A mover that was on such a node
    went back to it although another shard's was fuller, so that nothing was consolidated for ever
    (docs/decisions/0110-gangs-of-a-rack.md)."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        options = self.kai.options
        self.pool = NodePool(options.nodepool_label_key, options.partition_label_value)
        self._usable: Mask | None = None
        """The rows that are looked at, once a search began: they are asked for with each job."""
        with self.speaking(0, PluginOption("shards")):
            self.add_batch_node_order_fn(self._own_shard)

    def _read(self, world: World) -> None:
        self._usable = self.unread = None
        self.evicts = False
        objects = world.objects
        self._memories = known_memories(world)
        self.claimed = ClaimedGpus(objects, whole=False)
        flat = not self.kai.options.full_hierarchy_fairness
        records = (r for r in objects.kai_queues.values() if self.pool.has(dict(r.labels)))
        self.queues = queue_tree(records, flat=flat)
        self.cluster = total_of(world, self.kai.options)
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
        self.kai_jobs[job.job.jid] = kai_job_of(job, queue, world.objects, self.kai_task_key)
        for task in job.tasks:
            if task.cls.constraints is not None and task.status & OCCUPYING:
                self.claimed.hold(queue.uid, task)  # the coordinator has counted it

    def read_residents(self, job: KaiJob, of_own_queue: bool | None) -> None:
        """Add the jobs with tasks on nodes that may be victims for a job: of its queue, of others,
        or (None) of any. Those that columns say enough of are :attr:`unread`."""
        world, name = self.world, job.queue.record.name
        self.started |= world.job_starts
        self._usable = self.rows()
        jids = [] if world.others is None else world.others.jids_on_nodes(name, of_own_queue)
        for resident in world.read(self._read_columns(jids, self._usable)):
            if resident.job.jid not in self.kai_jobs:
                self._add(resident, world)

    def _read_columns(self, jids: Sequence[int], usable: Mask) -> Sequence[int]:
        """Take jobs on nodes as columns; returns those that have to be objects."""
        ranks = [rule.fn for rule in self.rules(JOB_ORDER) if rule.fn is not None]
        if not self.reads_columns or len(ranks) < len(self.rules(JOB_ORDER)):
            return jids  # an order that needs the objects needs all of them
        reading = self._residents().read(self, self.world, jids, usable=usable)
        if reading is None:
            return jids
        self.unread = UnreadJobs(reading.columns, ranks, self._object)
        self.world.inhabit(reading.rows)
        return reading.others

    def _residents(self) -> ResidentJobs:
        """Cached jobs on nodes, shared by the turns."""
        residents = self.world.lasting.get(RESIDENTS)
        if not isinstance(residents, ResidentJobs) or residents.pool != self.pool:
            residents = self.world.lasting[RESIDENTS] = ResidentJobs(self.pool)
        return residents

    def _object(self, jid: int) -> KaiJob:
        """The job of a line of the columns, which a search reached."""
        if jid not in self.kai_jobs:
            self._add(self.world.session_job(jid), self.world)
        return self.kai_jobs[jid]

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

    def preferred_rows(self) -> Mask | None:
        return None if self.evicts or self.world.mode is not Mode.SOFT else self.world.view.own

    def _own_shard(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        del task, world
        preferred = self.preferred_rows()
        if preferred is None:
            return np.zeros(len(rows), np.float64)
        return np.where(preferred[rows], OWN_SHARD, 0.0)


def run_for_job(ssn: TurnSession, job: SessionJob, action: str) -> None:
    """Give the job one turn; where nothing is placed, note why."""
    ssn.evicts = action in EVICTING
    kai_job = ssn.kai_job(job)
    if kai_job is not None and action == stale_gang_eviction.NAME:
        if not stale_gang_eviction.evict(ssn, kai_job):
            ssn.skip(job, Reason.NOT_ENOUGH_RESOURCES, "it is a whole gang, or gone")
    elif kai_job is None or not kai_job.root.ready:
        ssn.skip(job, *why_no_turn(job, kai_job))
    elif action in EVICTING:
        _search(ssn, kai_job, action)
    elif not turn(ssn, kai_job) and (refused := why_not_placed(ssn, kai_job)):
        ssn.skip(job, *refused)


def _search(ssn: TurnSession, job: KaiJob, action: str) -> None:
    """Search victims for the job; where none are found, note how that ended."""
    if is_delayed(job, ssn.world.now):
        ssn.skip(job.job, Reason.NOT_ENOUGH_RESOURCES, DELAYED)
        return
    if _placed_without_victims(ssn, job):
        return
    rules = EVICTING[action](ssn)
    was_found = False
    if may_search(ssn, rules, job):
        ssn.read_residents(job, rules.of_own_queue)
        was_found = run_for(ssn, rules, job)
    if not was_found:
        ended = ssn.searches.ended.get(job.job.job.jid, NOT_SEARCHED)
        ssn.skip(job.job, Reason.NOT_ENOUGH_RESOURCES, ended)


def _placed_without_victims(ssn: TurnSession, job: KaiJob) -> bool:
    """Place the job where room has come since its turn to allocate found none: a node, or what
    others left. In a cycle of KAI's both see the same cluster, so that nobody goes for a job that
    has a place; every scenario of a search has a victim."""
    if ALLOCATE not in ssn.policy.actions:
        return False
    tasks = tasks_to_allocate(job.root)
    return least_cost(ssn, tasks) == Amounts() and turn(ssn, job)


def _share_out(ssn: TurnSession, world: World) -> None:
    """Take the fair shares that the coordinator told."""
    for name, share in world.queue_shares.items():
        if name in ssn.queues:
            ssn.queues[name].fair_share = Amounts(*share)


def _count(queues: dict[str, QueueState], world: World) -> None:
    """Take what the queues hold, open turns of others included."""
    names = world.view.slot_names
    slots = {name: slot for slot, name in enumerate(names)}
    slots_held = (CPU, MEMORY, slots.get(GPU_SHARE, -1))
    protected_slots = tuple(slots.get(name, -1) for name in NON_PREEMPTIBLE)
    for info in world.queues.values():
        state = queues.get(info.queue.name)
        if state is not None:
            totals = used(info), whole(info, "claimed")
            allocated, protected = (
                [sum(total.get(slot, 0) for total in totals) for slot in slots_of]
                for slots_of in (slots_held, protected_slots)
            )
            state.allocated, state.non_preemptible = Amounts(*allocated), Amounts(*protected)
