"""A session under a KAI policy: the engine's, with KAI's points, queues and jobs beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from shard_worker.dialects.kai.claimed_gpus import ClaimedGpus
from shard_worker.dialects.kai.devices import (
    device_checks,
    device_memory,
    known_memories,
    request_by,
    request_of,
    things_of,
)
from shard_worker.dialects.kai.eviction_points import EvictionPoints
from shard_worker.dialects.kai.evictions import SearchFigures, SearchRecord
from shard_worker.dialects.kai.mig import beside_legacy, refused_legacy
from shard_worker.dialects.kai.model import (
    KaiJob,
    Member,
    QueueState,
    SortKey,
    amounts_of,
    kai_group_of,
    kai_job_of,
    queue_tree,
)
from shard_worker.dialects.kai.node_kinds import NodeKinds, kind_of, total_of
from shard_worker.dialects.kai.points import (
    GPU_ORDER,
    JOB_ORDER,
    JOB_OVER_CAPACITY,
    KAI_POINTS,
    QUEUE_ORDER,
    SUBSET_NODES,
    TASK_ORDER,
)
from shard_worker.dialects.kai.rules.amounts import Amounts, total
from shard_worker.dialects.kai.rules.capacity import OverCapacity
from shard_worker.dialects.kai.rules.devices import Score
from shard_worker.dialects.kai.rules.groups import tasks_to_allocate
from shard_worker.dialects.kai.rules.queue_order import Candidate
from shard_worker.framework.rules import Check, Mask, Scope
from shard_worker.framework.session import Session
from shard_worker.kube_scheduler.devices.claims import DeviceClaimFilter, concerned
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.status import OCCUPYING, Status
from shard_worker.topology.label_domains import LabelSearch
from shared.model.gpu_request import FRACTION, MEMORY, NUMBER
from shared.model.groups import COMPOSITE
from shared.model.model import Pairs, TaskClass
from shared.model.objects import ClusterObjects
from shared.policy.kai_model import KaiPolicy
from shared.policy.model import Policy

if TYPE_CHECKING:
    from shard_worker.dialects.kai.points import Capacity, NodeSets
    from shard_worker.dialects.kai.search.unread_jobs import RankColumn, UnreadJobs
    from shard_worker.framework.extension_points import Rank
    from shard_worker.session_model.world import World


class KaiSession(Session):
    """The combined rules of a KAI policy over a world, which :meth:`enter` sets."""

    divides = True
    """Whether it divides the cluster among queues; a worker's turn goes by what the coordinator
    divided."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._rules |= {point: [] for point in KAI_POINTS.values()}
        self.kai = policy.kai or KaiPolicy()
        self.node_kinds = NodeKinds(self.kai.options)
        self.queues: dict[str, QueueState] = {}
        """By name, those whose ancestors are all there."""
        self.kai_jobs: dict[int, KaiJob] = {}
        """By jid, those whose queue is a leaf of the tree."""
        self.unread: UnreadJobs | None = None
        """Jobs beside them that may be victims, and are no objects yet."""
        self._memories = (0, 0)
        """See :func:`known_memories`."""
        self._amounts: dict[tuple[TaskClass, Pairs], Amounts] = {}
        """Amounts of tasks in their queues, for classes where they are the same on all nodes."""
        self.cluster = Amounts()
        """Amounts to divide among the queues."""
        self.claimed = ClaimedGpus(ClusterObjects(), whole=True)
        """GPUs that tasks hold by claims."""
        self.claim_filter: DeviceClaimFilter | None = None
        """None where the policy checks no claims."""
        self.evictions = EvictionPoints(self)
        self.counts_first = True
        """Whether searches leave out what cannot succeed by the counts; the outcome is the same."""
        self.clock: Callable[[], float] | None = None
        """Seconds, for the budgets of searches by time; None: only their counts are looked at."""
        self.on_search: Callable[[SearchRecord], None] = lambda _: None
        """Takes each search when it has ended."""

    def _begin(self) -> None:
        super()._begin()
        self.over_capacity: dict[int, OverCapacity] = {}
        """jid -> the last refusal by a queue of its chain."""
        self.started: dict[int, float] = {}
        """jid -> when the job's first tasks were bound in this session, seconds since 1970."""
        self.stale: dict[int, float | None] = {}
        """jid -> since when the job is no whole gang, as far as that changed; None: it is again."""
        self.searches = SearchFigures()

    # --- registration ---------------------------------------------------------------------------

    def add_kai_job_order_fn(
        self, rank: Callable[[KaiJob], Rank], *, column: RankColumn | None = None
    ) -> None:
        """Which job of a queue goes first: the one of the smaller rank. ``column``: the same ranks
        of jobs in columns; without it every job that may be a victim becomes an object."""
        self.add(JOB_ORDER, column, scalar=rank)

    def add_kai_task_order_fn(self, rank: Callable[[TaskInfo], Rank]) -> None:
        """Which task of a pod set goes first: the one of the smaller rank."""
        self.add(TASK_ORDER, rank, scalar=None)

    def add_kai_queue_order_fn(self, choose: Callable[[Sequence[Candidate]], int]) -> None:
        """The index of the sibling queue that goes first. The first plugin decides."""
        self.add(QUEUE_ORDER, choose, scalar=None)

    def add_job_over_capacity_fn(self, fn: Capacity) -> None:
        """Why no queue of a job's chain takes a turn of these amounts. The first plugin decides."""
        self.add(JOB_OVER_CAPACITY, fn, scalar=None)

    def add_subset_nodes_fn(self, fn: NodeSets) -> None:
        """(job, group, its tasks, nodes) -> the sets of nodes to try it on, best first. Each plugin
        divides every set of those before it."""
        self.add(SUBSET_NODES, None, scalar=fn)

    def add_gpu_order_fn(self, score: Score) -> None:
        """Which device of a node goes first: the one with the highest sum of scores."""
        self.add(GPU_ORDER, score, scalar=None)

    def keep_devices(self) -> None:
        """Register that a device takes no more than it has; no policy can switch that off."""
        self.read_annotations(FRACTION, MEMORY, NUMBER)
        self.add_live_predicate_fn(device_checks, scope=Scope.NODE)
        self.add_pre_predicate_fn(refused_legacy)
        self.add_live_predicate_fn(self._by_node_kind, scope=Scope.NODE)
        self.add_live_predicate_fn(beside_legacy, scope=Scope.NODE)
        self.add_device_choice_fn(
            lambda task, row, world: things_of(task, row, world, self.gpu_score)
        )

    def _by_node_kind(self, task: TaskInfo, world: World) -> Sequence[Check]:
        view = world.view
        return self.node_kinds.checks(
            kind_of(task.cls, task.role.annotations, view.slot_names), view
        )

    # --- the world ------------------------------------------------------------------------------

    def enter(self, world: World) -> None:
        self._read(world)
        super().enter(world)

    def _read(self, world: World) -> None:
        objects = world.objects
        self._memories = known_memories(world)
        self.claimed = ClaimedGpus(objects, whole=True)
        flat = not self.kai.options.full_hierarchy_fairness
        self.queues = queue_tree(objects.kai_queues.values(), flat=flat)
        self.cluster = total_of(world, self.kai.options)
        self.kai_jobs = {}
        for job in world.session_jobs():
            group = kai_group_of(job, objects)
            name = job.job.queue if group is None else group.queue
            queue = self.queues.get(job.job.queue if job.job.kind == COMPOSITE else name)
            if queue is None or queue.children:
                continue
            kai_job = kai_job_of(job, queue, objects, self.kai_task_key)
            self.kai_jobs[job.job.jid] = kai_job
            self._count(kai_job, world)
        if objects.claims or objects.claim_templates:
            self._count_claims()

    def _count(self, job: KaiJob, world: World) -> None:
        """Count what a job holds and waits for in its queues."""
        queue = job.queue
        for task in job.job.tasks:
            amounts = self.amounts_of_task(task, world, self._memories[0])
            if task.status & OCCUPYING:
                amounts = amounts.plus(Amounts(gpu=self.claimed.hold(queue.uid, task)))
                queue.charge(amounts, preemptible=job.preemptible)
                queue.ask(amounts)
            elif task.status is Status.PENDING and not task.gated:
                queue.ask(amounts)

    def _count_claims(self) -> None:
        """Count the claims that jobs wait for, once all are read: those in use are counted."""
        for name, queue in self.queues.items():
            waiting = [
                task
                for job in self.kai_jobs.values()
                if job.queue is queue
                for task in job.job.tasks
                if task.status is Status.PENDING and not task.gated and task.cls.constraints
            ]
            queue.ask(Amounts(gpu=self.claimed.of(name, waiting)))

    def kai_job(self, job: SessionJob) -> KaiJob | None:
        """None where it has no queue that may hold jobs."""
        return self.kai_jobs.get(job.job.jid)

    def asked_by(self, tasks: Sequence[TaskInfo], *, at_least: bool = False) -> Amounts:
        """Amounts that tasks hold in their queue, or request while they have no node. A request by
        GPU memory then counts as on the node with the smallest devices; ``at_least``: with the
        largest."""
        amounts = self.asked_of_nodes(tasks, at_least=at_least)
        return amounts.plus(Amounts(gpu=self.claimed_by(tasks)))

    def asked_of_nodes(self, tasks: Sequence[TaskInfo], *, at_least: bool = False) -> Amounts:
        """The same without the GPUs of their claims."""
        memory = self._memories[at_least]
        return total(self.amounts_of_task(task, self.world, memory) for task in tasks)

    def claimed_by(self, tasks: Sequence[TaskInfo]) -> int:
        """Thousandths of GPUs that tasks of one queue hold by claims, or would hold."""
        claiming = [task for task in tasks if task.cls.constraints is not None]
        job = self.kai_job(claiming[0].job) if claiming else None
        return 0 if job is None else self.claimed.of(job.queue.uid, claiming)

    def claimed_by_each(self, tasks: Iterable[TaskInfo]) -> Counter[TaskInfo]:
        """The same by task, of any queues; of those that share a claim one has it."""
        claiming: dict[str, list[TaskInfo]] = {}
        for task in tasks:
            job = self.kai_job(task.job) if concerned(task.cls) else None
            if job is not None:
                claiming.setdefault(job.queue.uid, []).append(task)
        held: Counter[TaskInfo] = Counter()
        for queue, of_queue in claiming.items():
            held += self.claimed.of_each(queue, of_queue)
        return held

    def asks_next(self, job: KaiJob) -> Amounts:
        """Requests of the job's next turn."""
        return self.asked_by(tasks_to_allocate(job.root, simulated=True))

    def amounts_of_task(self, task: TaskInfo, world: World, memory: int) -> Amounts:
        """``memory``: of a device, for a task without a node."""
        amounts = self.amounts_anywhere(task.cls, task.role.annotations, world)
        if amounts is not None:
            return amounts
        if task.row >= 0:
            memory = int(device_memory(world)[task.row])
        names = world.view.slot_names
        amounts, request = amounts_of(task.requests, names), request_of(task, names)
        if request is None or not memory:
            return amounts._replace(gpu=0)
        return amounts._replace(gpu=request.charge_of(memory) * request.devices)

    def amounts_anywhere(self, cls: TaskClass, annotations: Pairs, world: World) -> Amounts | None:
        """Amounts of a task of a class in its queue, independent of its node; None where they
        depend on the memory of the node's devices."""
        # Asked of every victim of a search, several times.
        cached = self._amounts.get((cls, annotations))
        if cached is not None:
            return cached
        names = world.view.slot_names
        amounts, request = amounts_of(cls.requests, names), request_by(cls, annotations, names)
        if request is not None and request.memory:
            return None
        if request is not None and not request.is_whole:
            amounts = amounts._replace(gpu=request.part * request.devices)
        self._amounts[cls, annotations] = amounts
        return amounts

    # --- answers --------------------------------------------------------------------------------

    def rows(self) -> Mask:
        """The nodes that jobs may be placed on."""
        return self.world.view.exists()

    def preferred_rows(self) -> Mask | None:
        """The nodes that go before others, and their domains before other domains; None where none
        do. A session over everything prefers none, a worker those of its own shard."""
        return None

    def may_lose(self, job: KaiJob) -> bool:
        """Whether this session may let the job's tasks leave their nodes."""
        del job
        return True

    def kai_job_key(self, job: KaiJob) -> SortKey:
        """The smaller key goes first; ties by creation, then uid."""
        ranks: list[Any] = [rule.scalar(job) for rule in self.rules(JOB_ORDER)]
        return (*ranks, job.job.job.created, job.job.job.uid or job.key)

    def kai_task_key(self, task: TaskInfo) -> SortKey:
        """The smaller key goes first; ties by creation, then uid."""
        ranks: list[Any] = [rule.fn(task) for rule in self.rules(TASK_ORDER)]
        return (*ranks, task.created, task.uid)

    def first_queue(self, candidates: Sequence[Candidate]) -> int:
        """The index of the queue that goes first; without a rule the oldest."""
        for rule in self.rules(QUEUE_ORDER):
            return rule.fn(candidates)
        return min(range(len(candidates)), key=lambda at: candidates[at].age)

    def refused_capacity(self, job: KaiJob, asks: Amounts) -> OverCapacity | None:
        """Why a queue of the job's chain does not take the turn; None: all do."""
        for rule in self.rules(JOB_OVER_CAPACITY):
            return rule.fn(job, asks)
        return None

    def gpu_score(self, used: int | None) -> float:
        """The sum of the plugins' scores for a device; ``used``: None for a whole one."""
        return sum(rule.fn(used) for rule in self.rules(GPU_ORDER))

    def label_search(self, job: KaiJob, tasks: Sequence[TaskInfo] = ()) -> LabelSearch:
        """The search for the domain of the job's label, for these tasks and all that wait."""
        waiting = dict.fromkeys(tasks)
        waiting.update(
            (task, None)
            for task in job.job.tasks
            if task.status is Status.PENDING and not task.role.gated
        )
        return LabelSearch(self, job.job, waiting)

    def node_sets(
        self, job: KaiJob, group: Member, tasks: Sequence[TaskInfo], within: Mask
    ) -> list[Mask]:
        """The sets of nodes to try for a group, in order."""
        sets = [within]
        if group is job.root and job.job.job.topology_key:
            domains = self.label_search(job, tasks).ranked()
            sets = [within & domain.mask(self.world.size) for domain in domains]
        for rule in self.rules(SUBSET_NODES):
            sets = [part for nodes in sets for part in rule.scalar(job, group, tasks, nodes)]
        return sets
