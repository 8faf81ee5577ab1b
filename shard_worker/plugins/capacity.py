"""capacity: what each queue may have (capability), deserves and is guaranteed, said outright.

A queue takes what is idle up to its capability. What it has beyond what it deserves is borrowed:
other queues get it back by reclaim, but never what is guaranteed to it. With ``enableHierarchy``
the queues form a tree below ``root``: only leaves hold jobs, and what a leaf takes counts for every
queue above it.

Arguments: ``ancestorReclaimLevel`` (0): how many parents of a victim's queue must have more than
they deserve, too, where they are not the reclaimer's as well; with a tree only.
``overwriteRootQueueRealCapability`` (false): root may have what it says, not what the cluster has.
``capacity.DynamicResourceAllocationEnable`` (false): devices that tasks claim count, by class;
``capacity.DRAConsumableCapacityEnable`` (false): what they claim of shared devices, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING

from shard_worker.plugins.capacity_devices import Claimed
from shard_worker.plugins.capacity_reclaim import Reclaim, deserves_more
from shard_worker.queue_limits import CLOSED, Lacking, beyond, exceeds_with
from shard_worker.queue_totals import reserves, used, whole
from shard_worker.queue_tree import Branch, Grown, Tree, grow_tree, kinship, parting, side_by_side
from shard_worker.rules import EventHandler, Purpose
from shard_worker.session import PERMIT, REJECT, Key, Session
from shard_worker.victims import in_order
from shard_worker.workload import Amounts, ClusterInfo, JobInfo, QueueInfo, add
from shard_worker.world import World
from shared.model import Requests
from shared.policy import PluginOption
from shared.resources import share

if TYPE_CHECKING:
    from shard_worker.session_job import SessionJob
    from shard_worker.tasks import TaskInfo


class Capacity:
    name = "capacity"

    def __init__(self, option: PluginOption) -> None:
        self.hierarchical = option.enabled("enableHierarchy")
        self._level = option.whole("ancestorReclaimLevel", 0) if self.hierarchical else 0
        self._root_as_written = option.switch("overwriteRootQueueRealCapability", False)
        self._grown = Grown(self._grow)
        self._judged: tuple[ClusterInfo, int, str] | None = None
        self._devices = option.switch("capacity.DynamicResourceAllocationEnable", False)
        self._consumable = option.switch("capacity.DRAConsumableCapacityEnable", False)
        self._claims: Claimed | None = None

    def on_session_open(self, ssn: Session) -> None:
        self._session = ssn
        if self.hierarchical:
            ssn.add_queue_order_fn(self.compare_queues)
            ssn.add_victim_queue_order_fn(self.compare_victim_queues)
        else:
            ssn.add_queue_order_fn(key=self.queue_order)
        ssn.add_allocatable_fn(self.allocatable, scalar=self.task_allocatable)
        ssn.add_simulate_allocatable_fn(self.task_allocatable)
        ssn.add_preemptive_fn(self.preemptive)
        ssn.add_reclaimable_fn(self.reclaimable)
        ssn.add_unified_evictable_fn(self.unified_evictable)
        ssn.add_job_enqueueable_fn(self.job_enqueueable)
        ssn.tell_limits(self.lacking, hard=True)
        ssn.tell_shares(self.deserved, self.most)
        if self._devices:
            ssn.add_event_handler(EventHandler(self._allocated, self._deallocated))

    # --- the queues ---------------------------------------------------------------------------

    def tree(self, cluster: ClusterInfo) -> Tree:
        """What each queue may have, deserves and is guaranteed now."""
        return self._grown.of(cluster)

    def deserved(self, queue: QueueInfo, cluster: ClusterInfo) -> dict[int, float]:
        """What the queue deserves, of what it deserves anything; for people to read."""
        branch = self.tree(cluster).branches.get(queue.queue.qid)
        return {} if branch is None else dict(branch.written)

    def most(self, queue: QueueInfo, cluster: ClusterInfo) -> dict[int, float]:
        """The most the queue may have as the tree stands; for people to read."""
        branch = self.tree(cluster).branches.get(queue.queue.qid)
        return {} if branch is None else {s: m for s, m in branch.real.items() if m != inf}

    def _grow(self, cluster: ClusterInfo) -> Tree:
        claims = self._claimed(cluster)
        devices = () if claims is None else claims.slots.values()
        if self.hierarchical:
            return grow_tree(cluster, devices, root_as_written=self._root_as_written)
        return side_by_side(cluster, devices)

    def trouble(self, cluster: ClusterInfo) -> str:
        """Why no queue gets anything: the tree is none, or a queue that has others below it holds
        jobs. "" where all is well."""
        judged = self._judged
        if judged is None or judged[0] is not cluster or judged[1] != cluster.revision:
            judged = self._judged = (cluster, cluster.revision, self._judge(cluster))
        return judged[2]

    def _judge(self, cluster: ClusterInfo) -> str:
        tree = self.tree(cluster)
        if tree.trouble:
            return tree.trouble
        for branch in tree.branches.values():
            if not branch.leaf and cluster.queues[branch.qid].jobs:
                return f"queue {branch.queue.name}: holds jobs, and has queues below it"
        return ""

    def _branch(self, queue: QueueInfo, cluster: ClusterInfo) -> Branch | None:
        """The place of a queue that may get something; None where none may."""
        if self.trouble(cluster):
            return None
        branch = self.tree(cluster).branches.get(queue.queue.qid)
        return branch if branch is not None and branch.leaf else None

    # --- order --------------------------------------------------------------------------------

    def queue_order(self, queue: QueueInfo, cluster: ClusterInfo) -> Key:
        """Higher queue priority first, then the smaller part of what it deserves in use; of equals
        those that deserve something."""
        branch = self.tree(cluster).branches[queue.queue.qid]
        return (-queue.queue.priority, *self._need(branch, cluster))

    def _need(self, branch: Branch, cluster: ClusterInfo) -> tuple[float, bool]:
        """The largest part in use of what it deserves; one that deserves nothing counts as full."""
        if not branch.written:
            return 1.0, True
        has = self._has(branch, cluster)
        return max(share(has.get(slot, 0), most) for slot, most in branch.written), False

    def compare_queues(self, left: QueueInfo, right: QueueInfo, cluster: ClusterInfo) -> float:
        """Queue priority, leaves first, then the shares of those above them where they part."""
        if left.queue.priority != right.queue.priority:
            return right.queue.priority - left.queue.priority
        branches = self.tree(cluster).branches
        one, other = branches.get(left.queue.qid), branches.get(right.queue.qid)
        if one is None or other is None or one is other:
            return 0
        if one.leaf != other.leaf:
            return -1 if one.leaf else 1
        one, other = parting(one, other)
        if one.qid not in cluster.queues or other.qid not in cluster.queues:
            return 0
        first, second = self._need(one, cluster), self._need(other, cluster)
        return -1 if first < second else 1 if first > second else 0

    def compare_victim_queues(
        self, left: QueueInfo, right: QueueInfo, evictor: QueueInfo, world: World
    ) -> float:
        """Closer relatives of the evictor's queue are taken from first."""
        branches = self.tree(world).branches
        one, other, own = (branches.get(info.queue.qid) for info in (left, right, evictor))
        if one is None or other is None or own is None:
            return 0
        return kinship(other, own) - kinship(one, own)

    # --- may a queue have more? ---------------------------------------------------------------

    def allocatable(self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo) -> bool:
        """The queue is open, and it and all above it stay within what they may have."""
        return self.lacking(queue, requests, cluster) is None

    def task_allocatable(self, queue: QueueInfo, task: TaskInfo, world: World) -> bool:
        """As :meth:`allocatable`; what gates keep for tasks of the queue counts as used, except
        what they keep for this very task."""
        kept = task.requests if reserves(task.role) else ()
        return self.lacking(queue, self._asks(task), world, gates=True, kept=kept) is None

    def lacking(
        self,
        queue: QueueInfo,
        requests: Requests,
        cluster: ClusterInfo,
        *,
        gates: bool = False,
        kept: Requests = (),
    ) -> Lacking | None:
        """The queue, itself or one above it, that has no room, and of what; None where all do.

        ``gates``: what gates keep counts as used, less ``kept``."""
        branch = self._branch(queue, cluster)
        if branch is None:
            return Lacking(queue, why=self.trouble(cluster) or "it has queues below it")
        if not queue.queue.open:
            return Lacking(queue, why=CLOSED)
        for at in self._upwards(branch, cluster):
            info = cluster.queues[at.qid]
            has = self._has(at, cluster)
            if gates and (reserved := whole(info, "reserved")):
                has = dict(has)
                add(has, reserved.items(), 1)
                add(has, kept, -1)
            over = beyond(has, requests, at.real, cluster)
            if over:
                return Lacking(info, tuple(over))
        return None

    def _upwards(self, branch: Branch, cluster: ClusterInfo) -> list[Branch]:
        """The queue, all above it, and root where somebody describes it."""
        root = self.tree(cluster).root
        way = [branch, *branch.above]
        if root is not None and root is not branch and root.qid in cluster.queues:
            way.append(root)
        return way

    def preemptive(self, queue: QueueInfo, tasks: Sequence[TaskInfo], world: World) -> bool:
        """A queue may reclaim within its capability, where in something that is asked for it, or
        with ``ancestorReclaimLevel`` one above it, would stay within what it deserves."""
        branch = self._branch(queue, world)
        if branch is None or not queue.queue.open:
            return False
        asked = _sum(self._asks(task) for task in tasks)
        if beyond(self._has(branch, world), asked, branch.real, world):
            return False
        way = (branch, *branch.above[: self._level])
        return any(deserves_more(at, self._has(at, world), asked) for at in way)

    def job_enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> int:
        """The queue is open, and what the job needs at least fits in it and in all above it,
        beside what other jobs need at least."""
        queue, least = cluster.queues.get(info.qid), info.job.min_resources
        branch = None if queue is None else self._branch(queue, cluster)
        if queue is None or branch is None or not queue.queue.open:
            return REJECT
        if least is None:
            return PERMIT
        asked: Amounts = dict(least)
        claimed = self._claimed(cluster)
        if claimed is not None:
            add(asked, claimed.least(claimed.world.session_job(info.job.jid)).items(), 1)
        for at in (branch, *branch.above):
            above = cluster.queues[at.qid]
            others = [whole(above, "kept"), whole(above, "inqueue")]
            if claimed is not None:
                others.append(claimed.held(at.qid))
            if exceeds_with(_counted(asked, at), others, at.real):
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
        """Those whose queues have more than they deserve; see :class:`Reclaim`."""
        return self._victims(reclaimer.job, self._asks(reclaimer), candidates, world)

    def unified_evictable(
        self, job: SessionJob, candidates: Sequence[TaskInfo], purpose: Purpose, world: World
    ) -> list[TaskInfo] | None:
        """As :meth:`reclaimable`, for all that waits of a job; no opinion on preemption."""
        if purpose is not Purpose.RECLAIM:
            return None
        asked = _sum(self._asks(task) for task in job.pending_tasks())
        return self._victims(job, asked, candidates, world)

    def _victims(
        self, job: SessionJob, asked: Requests, candidates: Sequence[TaskInfo], world: World
    ) -> list[TaskInfo]:
        branch = None if job.queue is None else self._branch(job.queue, world)
        if branch is None:
            return []
        reclaim = Reclaim(
            branches=self.tree(world).branches,
            reclaimer=branch,
            asked=asked,
            gives=self._gives,
            level=self._level,
            has=lambda at: self._has(at, world),
        )
        return reclaim.victims(in_order(self._session, job, candidates))

    # --- devices ------------------------------------------------------------------------------

    def _claimed(self, cluster: ClusterInfo) -> Claimed | None:
        """What tasks claim of devices; None where it does not count, or no task is known."""
        if not self._devices or not isinstance(cluster, World):
            return None
        if self._claims is None or self._claims.world is not cluster:
            self._claims = Claimed(cluster, consumable=self._consumable)
        return self._claims

    def _allocated(self, task: TaskInfo) -> None:
        self._moved(task, Claimed.allocate)

    def _deallocated(self, task: TaskInfo) -> None:
        self._moved(task, Claimed.deallocate)

    def _moved(self, task: TaskInfo, tell: Callable[[Claimed, TaskInfo], None]) -> None:
        """A count that is made anew has the task as it stands now."""
        before = self._claims
        claims = self._claimed(self._session.world)
        if claims is not None and claims is before:
            tell(claims, task)

    def _asks(self, task: TaskInfo) -> Requests:
        claims = self._claimed(self._session.world)
        return task.requests if claims is None else claims.asks(task)

    def _gives(self, task: TaskInfo) -> Requests:
        claims = self._claimed(self._session.world)
        return task.requests if claims is None else claims.gives(task)

    def _has(self, branch: Branch, cluster: ClusterInfo) -> Amounts:
        """What the queue and those below it use. Not to be changed."""
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


def _counted(asked: Amounts, branch: Branch) -> Amounts:
    """Without the devices of which nobody says how many the queue may have."""
    return {s: a for s, a in asked.items() if branch.real.get(s) != inf}
