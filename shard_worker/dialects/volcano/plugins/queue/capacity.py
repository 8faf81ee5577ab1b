"""capacity: each queue's capability, deserved amounts and guarantee, as written by the user.

A queue takes idle resources up to its capability. What it has beyond its deserved amounts is
borrowed: other queues get it back by reclaim, but never its guarantee. With ``enableHierarchy`` the
queues form a tree below ``root``: only leaves hold jobs, and what a leaf takes counts for every
queue above it.

Arguments: ``ancestorReclaimLevel`` (0): how many parents of a victim's queue must have more than
they deserve, too, unless they are the reclaimer's as well; with a tree only.
``overwriteRootQueueRealCapability`` (false): root may have what it says, not what the cluster has.
``capacity.DynamicResourceAllocationEnable`` (false): devices that tasks claim count, by class;
``capacity.DRAConsumableCapacityEnable`` (false): claimed parts of shared devices count, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING

from shard_worker.dialects.volcano.plugins.queue.capacity_devices import Claimed
from shard_worker.dialects.volcano.plugins.queue.capacity_reclaim import Reclaim, deserves_more
from shard_worker.eviction.victims import in_order
from shard_worker.framework.rules import PERMIT, REJECT, EventHandler, Purpose
from shard_worker.framework.session import Session
from shard_worker.framework.sort_keys import Key, QueuePath
from shard_worker.session_model.queue_limits import CLOSED, QueueRefusal, beyond, exceeds_with
from shard_worker.session_model.queue_totals import QUEUE_GATE, reserves, used, whole
from shard_worker.session_model.queue_tree import (
    Branch,
    CachedTree,
    Tree,
    grow_tree,
    kinship,
    parting,
    side_by_side,
)
from shard_worker.session_model.workload import Amounts, ClusterInfo, JobInfo, QueueInfo, add
from shard_worker.session_model.world import World
from shared.model.model import Requests
from shared.policy.model import PluginOption
from shared.units.resources import share
from shared.units.slots import PODS

if TYPE_CHECKING:
    from shard_worker.session_model.job import SessionJob, TaskInfo


class Capacity:
    name = "capacity"

    def __init__(self, option: PluginOption) -> None:
        self.hierarchical = option.enabled("enableHierarchy")
        self._level = option.whole("ancestorReclaimLevel", 0) if self.hierarchical else 0
        self._root_as_written = option.switch("overwriteRootQueueRealCapability", False)
        self._grown = CachedTree()
        self._judged: tuple[ClusterInfo, int, str] | None = None
        self._devices = option.switch("capacity.DynamicResourceAllocationEnable", False)
        self._consumable = option.switch("capacity.DRAConsumableCapacityEnable", False)
        self._claims: Claimed | None = None

    def on_session_open(self, ssn: Session) -> None:
        self._session = ssn
        if self.hierarchical:
            ssn.add_queue_order_fn(self.compare_queues)
            ssn.report_queue_path(self.queue_path)
            ssn.add_victim_queue_order_fn(self.compare_victim_queues)
        else:
            ssn.add_queue_order_fn(key=self.queue_order)
        ssn.read_annotations(QUEUE_GATE)
        ssn.add_allocatable_fn(self.allocatable, scalar=self.task_allocatable)
        ssn.add_simulate_allocatable_fn(self.task_allocatable)
        ssn.add_preemptive_fn(self.preemptive)
        ssn.add_reclaimable_fn(self.reclaimable)
        ssn.add_unified_evictable_fn(self.unified_evictable)
        ssn.add_job_enqueueable_fn(self.job_enqueueable)
        ssn.report_limits(self.lacking, room=self.room, hard=True)
        ssn.report_shares(self.deserved, self.most)
        if self._devices:
            ssn.add_event_handler(EventHandler(self._allocated, self._deallocated))

    # --- the queues ---------------------------------------------------------------------------

    def tree(self, cluster: ClusterInfo) -> Tree:
        """Capability, deserved amounts and guarantee of each queue, up to date with the cluster."""
        return self._grown.of(cluster, self._grow)

    def deserved(self, queue: QueueInfo, cluster: ClusterInfo) -> dict[int, float]:
        """The queue's deserved amounts, if set; for display."""
        branch = self.tree(cluster).branches.get(queue.queue.qid)
        return {} if branch is None else dict(branch.written)

    def most(self, queue: QueueInfo, cluster: ClusterInfo) -> dict[int, float]:
        """The most that the queue may have in the current tree; for display."""
        branch = self.tree(cluster).branches.get(queue.queue.qid)
        return {} if branch is None else {s: m for s, m in branch.real.items() if m != inf}

    def _grow(self, cluster: ClusterInfo) -> Tree:
        claims = self._claimed(cluster)
        devices = () if claims is None else claims.slots.values()
        if self.hierarchical:
            return grow_tree(cluster, devices, root_as_written=self._root_as_written)
        return side_by_side(cluster, devices)

    def trouble(self, cluster: ClusterInfo) -> str:
        """The reason why no queue gets anything: the queues do not form a tree, or a queue with
        children holds jobs. "" if neither is so."""
        judged = self._judged
        if judged is None or judged[0] is not cluster or judged[1] != cluster.revision:
            judged = self._judged = (cluster, cluster.revision, self._judge(cluster))
        return judged[2]

    def _judge(self, cluster: ClusterInfo) -> str:
        tree = self.tree(cluster)
        if tree.trouble:
            return tree.trouble
        for branch in tree.branches.values():
            # Volcano stops as well: nothing is schedulable until the tree is repaired. Here the
            # reason is told.
            if not branch.leaf and cluster.queues[branch.qid].jobs:
                return f"queue {branch.queue.name}: holds jobs, and has queues below it"
        return ""

    def _branch(self, queue: QueueInfo, cluster: ClusterInfo) -> Branch | None:
        """The queue's node in the tree if it may get resources; else None."""
        if self.trouble(cluster):
            return None
        branch = self.tree(cluster).branches.get(queue.queue.qid)
        return branch if branch is not None and branch.leaf else None

    # --- order --------------------------------------------------------------------------------

    def queue_order(self, queue: QueueInfo, cluster: ClusterInfo) -> Key:
        """Higher queue priority first, then the smaller used part of the deserved amounts; on ties
        queues that deserve something."""
        branch = self.tree(cluster).branches[queue.queue.qid]
        return (-queue.queue.priority, *self._need(branch, cluster))

    def _need(self, branch: Branch, cluster: ClusterInfo) -> tuple[float, bool]:
        """(largest used part of the deserved amounts, deserves nothing). A queue that deserves
        nothing counts as full."""
        if not branch.written:
            # Volcano counts it as full, so that queues that deserve something go first.
            return 1.0, True
        has = self._has(branch, cluster)
        return max(share(has.get(slot, 0), most) for slot, most in branch.written), False

    def compare_queues(self, left: QueueInfo, right: QueueInfo, cluster: ClusterInfo) -> float:
        """By queue priority, then leaves first, then the shares of the ancestors at which the two
        paths part."""
        if left.queue.priority != right.queue.priority:
            return right.queue.priority - left.queue.priority
        branches = self.tree(cluster).branches
        left_branch, right_branch = branches.get(left.queue.qid), branches.get(right.queue.qid)
        if left_branch is None or right_branch is None or left_branch is right_branch:
            return 0
        if left_branch.leaf != right_branch.leaf:
            return -1 if left_branch.leaf else 1
        left_branch, right_branch = parting(left_branch, right_branch)
        if left_branch.qid not in cluster.queues or right_branch.qid not in cluster.queues:
            return 0
        first, second = self._need(left_branch, cluster), self._need(right_branch, cluster)
        return -1 if first < second else 1 if first > second else 0

    def queue_path(self, queue: QueueInfo, cluster: ClusterInfo) -> QueuePath:
        """:meth:`compare_queues` as a path: priority, whether it is a leaf, its branches."""
        priority = ("priority", queue.queue.priority), -queue.queue.priority
        branch = self.tree(cluster).branches.get(queue.queue.qid)
        if branch is None:
            return (priority,)
        way = (at for at in branch.way if at.qid in cluster.queues)
        shares = [(at.qid, self._need(at, cluster)) for at in way]
        return (priority, (("leaf", branch.leaf), not branch.leaf), *shares)

    def compare_victim_queues(
        self, left: QueueInfo, right: QueueInfo, evictor: QueueInfo, world: World
    ) -> float:
        """Victims from closer relatives of the evictor's queue first."""
        branches = self.tree(world).branches
        left_branch, right_branch, own_branch = (
            branches.get(info.queue.qid) for info in (left, right, evictor)
        )
        if left_branch is None or right_branch is None or own_branch is None:
            return 0
        return kinship(right_branch, own_branch) - kinship(left_branch, own_branch)

    # --- may a queue have more? ---------------------------------------------------------------

    def allocatable(self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo) -> bool:
        """Whether the queue is open, and it and all its ancestors stay within their capability."""
        return self.lacking(queue, requests, cluster) is None

    def task_allocatable(self, queue: QueueInfo, task: TaskInfo, world: World) -> bool:
        """As :meth:`allocatable`, with amounts that scheduling gates of the queue's tasks reserve
        counted as used, except this task's own reservation."""
        own_reserve = task.requests if reserves(task.role) else ()
        return (
            self.lacking(queue, self._asks(task), world, gates=True, own_reserve=own_reserve)
            is None
        )

    def lacking(
        self,
        queue: QueueInfo,
        requests: Requests,
        cluster: ClusterInfo,
        *,
        gates: bool = False,
        own_reserve: Requests = (),
    ) -> QueueRefusal | None:
        """The first queue without room (the queue or an ancestor) and the resource; None if all
        have room. ``gates``: count amounts reserved by gates as used, minus ``own_reserve``.
        """
        branch = self._branch(queue, cluster)
        if branch is None:
            return QueueRefusal(queue, why=self.trouble(cluster) or "it has queues below it")
        if not queue.queue.open:
            return QueueRefusal(queue, why=CLOSED)
        for at in self._upwards(branch, cluster):
            info = cluster.queues[at.qid]
            has = self._has(at, cluster)
            if gates and (reserved := whole(info, "reserved")):
                has = dict(has)
                add(has, reserved.items(), 1)
                add(has, own_reserve, -1)
            over = beyond(has, requests, at.real, cluster)
            if over:
                return QueueRefusal(info, tuple(over))
        return None

    def room(self, queue: QueueInfo, cluster: ClusterInfo) -> dict[int, float] | None:
        """The most that :meth:`allocatable` accepts, plus one unit, as differences of fractions are
        not exact."""
        branch = self._branch(queue, cluster)
        if branch is None or not queue.queue.open:
            return None
        least: dict[int, float] = {}
        for at in self._upwards(branch, cluster):
            has = self._has(at, cluster)
            for slot, most in at.real.items():
                if slot != PODS:
                    headroom = most - has.get(slot, 0) + 1
                    least[slot] = min(headroom, least.get(slot, headroom))
        return least

    def _upwards(self, branch: Branch, cluster: ClusterInfo) -> list[Branch]:
        """The queue, its ancestors, and root if it has a specification."""
        root = self.tree(cluster).root
        way = [branch, *branch.above]
        if root is not None and root is not branch and root.qid in cluster.queues:
            way.append(root)
        return way

    def preemptive(self, queue: QueueInfo, tasks: Sequence[TaskInfo], world: World) -> bool:
        """Whether the queue may reclaim for the tasks.

        It must stay within its capability, and in some requested resource the queue (or, with
        ``ancestorReclaimLevel``, an ancestor) must stay within its deserved amount.
        """
        branch = self._branch(queue, world)
        if branch is None or not queue.queue.open:
            return False
        requested = _sum(self._asks(task) for task in tasks)
        if beyond(self._has(branch, world), requested, branch.real, world):
            return False
        way = (branch, *branch.above[: self._level])
        return any(deserves_more(at, self._has(at, world), requested) for at in way)

    def job_enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> int:
        """Permit if the queue is open and the job's minResources fit it and all ancestors, in
        addition to those of other jobs."""
        queue, least = cluster.queues.get(info.qid), info.job.min_resources
        branch = None if queue is None else self._branch(queue, cluster)
        if queue is None or branch is None or not queue.queue.open:
            return REJECT
        if least is None:
            return PERMIT
        needed: Amounts = dict(least)
        claimed = self._claimed(cluster)
        if claimed is not None:
            add(needed, claimed.least(claimed.world.session_job(info.job.jid)).items(), 1)
        for at in (branch, *branch.above):
            above = cluster.queues[at.qid]
            others = [whole(above, "kept"), whole(above, "inqueue")]
            if claimed is not None:
                others.append(claimed.held(at.qid))
            if exceeds_with(_counted(needed, at), others, at.real):
                return REJECT
        root = self.tree(cluster).root
        if root is not None:
            others = [cluster.kept, cluster.inqueue]
            if exceeds_with(dict(least), others, root.real):
                return REJECT
        return PERMIT

    # --- who gives it back? -------------------------------------------------------------------

    def reclaimable(
        self, reclaimer: TaskInfo, candidates: Sequence[TaskInfo], world: World
    ) -> list[TaskInfo]:
        """Candidates from queues that have more than they deserve; see :class:`Reclaim`."""
        return self._victims(reclaimer.job, self._asks(reclaimer), candidates, world)

    def unified_evictable(
        self, job: SessionJob, candidates: Sequence[TaskInfo], purpose: Purpose, world: World
    ) -> list[TaskInfo] | None:
        """As :meth:`reclaimable`, for all waiting tasks of a job. None (no opinion) on
        preemption."""
        if purpose is not Purpose.RECLAIM:
            return None
        needed = _sum(self._asks(task) for task in job.pending_tasks())
        return self._victims(job, needed, candidates, world)

    def _victims(
        self, job: SessionJob, needed: Requests, candidates: Sequence[TaskInfo], world: World
    ) -> list[TaskInfo]:
        branch = None if job.queue is None else self._branch(job.queue, world)
        if branch is None:
            return []
        reclaim = Reclaim(
            branches=self.tree(world).branches,
            reclaimer=branch,
            requests=needed,
            gives=self._gives,
            level=self._level,
            has=lambda at: self._has(at, world),
        )
        return reclaim.victims(in_order(self._session, job, candidates))

    # --- devices ------------------------------------------------------------------------------

    def _claimed(self, cluster: ClusterInfo) -> Claimed | None:
        """The devices that tasks claim; None if devices do not count or no tasks are known."""
        if not self._devices or not isinstance(cluster, World):
            return None
        if self._claims is None or self._claims.world is not cluster:
            self._claims = Claimed(cluster, consumable=self._consumable)
        return self._claims

    def _allocated(self, task: TaskInfo) -> None:
        self._moved(task, Claimed.allocate)

    def _deallocated(self, task: TaskInfo) -> None:
        self._moved(task, Claimed.deallocate)

    def _moved(self, task: TaskInfo, notify: Callable[[Claimed, TaskInfo], None]) -> None:
        """Update the device counts after an allocation or eviction of the session. A count that was
        just recomputed includes it already."""
        before = self._claims
        claims = self._claimed(self._session.world)
        if claims is not None and claims is before:
            notify(claims, task)

    def _asks(self, task: TaskInfo) -> Requests:
        claims = self._claimed(self._session.world)
        return task.requests if claims is None else claims.asks(task)

    def _gives(self, task: TaskInfo) -> Requests:
        claims = self._claimed(self._session.world)
        return task.requests if claims is None else claims.gives(task)

    def _has(self, branch: Branch, cluster: ClusterInfo) -> Amounts:
        """The amounts in use by the queue and those below it. Callers must not change them."""
        has = used(cluster.queues[branch.qid])
        claims = self._claimed(cluster)
        if claims is None or not claims.held(branch.qid):
            return has
        both = dict(has)
        add(both, claims.held(branch.qid).items(), 1)
        return both


def _sum(many: Iterable[Requests]) -> Requests:
    total: Amounts = {}
    for requests in many:
        add(total, requests, 1)
    return tuple(sorted(total.items()))


def _counted(amounts: Amounts, branch: Branch) -> Amounts:
    """The amounts, without devices that have no limit."""
    return {s: a for s, a in amounts.items() if branch.real.get(s) != inf}
