"""Where plugins register: one ``add_*_fn`` for each extension point, with its combining rule.

A plugin's ``on_session_open`` gets the session and calls these. Many points take two forms of the
same rule. The first serves a session over a :class:`~shard_worker.session_model.world.World`, task
by task. The other (``key``, ``counted``, ``masks``, a ``Scorer``) serves the fast path, which has
columns and counts; a policy in which a rule lacks it is served by sessions alone: right, only
slower.

A function is not registered where the policy switched the point's flag off for the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from shard_worker.framework.extension_points import (
    ALLOCATABLE,
    BATCH_NODE_ORDER,
    BEST_NODE,
    CLUSTER_ORDER,
    DEVICE_CHOICE,
    DEVICES_IDLE,
    EVENT_HANDLER,
    EXTENSION_POINTS,
    HYPER_NODE_GRADIENT_FOR_JOB,
    HYPER_NODE_GRADIENT_FOR_SUB_JOB,
    HYPER_NODE_ORDER,
    JOB_ENQUEUEABLE,
    JOB_ENQUEUED,
    JOB_ORDER,
    JOB_PIPELINED,
    JOB_READY,
    JOB_STARVING,
    JOB_VALID,
    LIVE_PREDICATE,
    NODE_MAP,
    NODE_ORDER,
    NODE_REDUCE,
    OVERUSED,
    PRE_PREDICATE,
    PREDICATE,
    PREEMPTABLE,
    PREEMPTIVE,
    QUEUE_ORDER,
    RECLAIMABLE,
    RESERVED_NODES,
    SIMULATE_ADD_TASK,
    SIMULATE_ALLOCATABLE,
    SIMULATE_PREDICATE,
    SIMULATE_REMOVE_TASK,
    SUB_JOB_ORDER,
    SUB_JOB_PIPELINED,
    SUB_JOB_READY,
    TARGET_JOB,
    TASK_ORDER,
    UNIFIED_EVICTABLE,
    VICTIM_QUEUE_ORDER,
    VICTIM_TASKS,
    Compare,
    Point,
    Rank,
)
from shard_worker.framework.flat_rules import FlatRules
from shard_worker.framework.plugin_errors import Contain, Guard
from shard_worker.framework.registered import Concerns, Registered, any_class, there
from shard_worker.framework.rule_times import RuleTimes
from shard_worker.framework.rules import (
    ArrayScore,
    ByKind,
    Check,
    ClassMasks,
    EventHandler,
    Mask,
    Purpose,
    Scope,
    Scorer,
    Votes,
    by_kind,
)
from shard_worker.framework.sort_keys import QueuePath
from shard_worker.session_model.workload import ClusterInfo, JobInfo, Progress, QueueInfo
from shared.model.model import Node, Requests, Role, TaskClass
from shared.policy.model import PluginOption, Policy
from shared.units.things import joined_devices

if TYPE_CHECKING:
    from shard_worker.framework.rules import DeviceChoice, Simulated
    from shard_worker.session_model.job import SessionJob, SubJob, TaskInfo
    from shard_worker.session_model.world import World
    from shard_worker.view.hyper_tree import HyperDomain

F = TypeVar("F")
S = TypeVar("S")


class Registration:
    """The part of a session that plugins write to."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._rules: dict[Point[Any, Any], list[Registered[Any, Any]]] = {
            point: [] for point in EXTENSION_POINTS.values()
        }
        self.spoken: dict[str, list[str]] = {}
        """Plugin -> the points at which it spoke, also those that are switched off."""
        self.warnings: list[str] = list(policy.warnings)
        """Settings that were accepted but have no effect in this version."""
        self.reads: set[str] = set()
        """Annotations of pods and jobs that rules read; their tasks are placed by sessions."""
        self.reads_pods = False
        """Whether a rule may read any label or annotation of a pod."""
        self.flat = FlatRules()
        self.shared: dict[str, object] = {}
        """Memory that several plugins of the session use, by a name of their own."""
        self.entering: list[Callable[[World], None]] = []
        """Called with each world that the session enters, before any change to it."""
        self.contain: Contain | None = None
        """Takes what guarded rules raise, in the coordinator; None: PluginError is raised."""
        self.guarded: set[str] = set()
        """The plugins from outside, whose rules are guarded."""
        self.queue_paths: dict[str, Callable[[QueueInfo, ClusterInfo], QueuePath] | None] = {}
        """Plugin whose rule of QueueOrder is a comparison -> the same as a path; None where the
        coordinator's comparison stays as it is until the totals' next revision."""
        self.times: RuleTimes | None = None
        """Takes how long the rules take that are registered from now on."""
        self._speaker: tuple[int, PluginOption] | None = None

    @contextmanager
    def speaking(self, tier: int, option: PluginOption, *, guarded: bool = False) -> Iterator[None]:
        """Register everything inside the block for this plugin. ``guarded``: what its rules raise
        is a PluginError."""
        self._speaker = (tier, option)
        if guarded:
            self.guarded.add(option.name)
        try:
            yield
        finally:
            self._speaker = None

    @property
    def speaker(self) -> str:
        """The plugin that registers now; "" outside of ``on_session_open``."""
        return "" if self._speaker is None else self._speaker[1].name

    def rules(self, point: Point[F, S]) -> Sequence[Registered[F, S]]:
        """The rules of ``point``, in tier order, in each tier in the policy's order."""
        return self._rules[point]

    def add(
        self,
        point: Point[F, S],
        fn: F,
        *,
        scalar: S,
        scope: Scope | None = None,
        symmetric: bool = False,
    ) -> None:
        """Register a rule at ``point``; the methods below document each point's arguments."""
        if self._speaker is None:
            raise RuntimeError("plugins register in on_session_open, and only there")
        tier, option = self._speaker
        spoken = self.spoken.setdefault(option.name, [])
        if point.name not in spoken:
            spoken.append(point.name)
        if point.flag is None or option.enabled(point.flag):
            if option.name in self.guarded:
                guard = Guard(option.name, point.name, lambda: self.contain)
                fn = guard.rule(fn)
                scalar = guard.rule(scalar, is_comparison=True)
            rule = Registered(tier, option.name, fn, scalar, scope, symmetric)
            self._rules[point].append(rule)
            if self.times is not None:
                self.times.added(point.name, self._rules[point])

    def listens(self, point: Point[Any, Any]) -> bool:
        """Whether the policy enables this point for the plugin that registers now."""
        flag = point.flag
        return self._speaker is not None and (flag is None or self._speaker[1].enabled(flag))

    def warn(self, text: str) -> None:
        """Report a setting that this version accepts without effect."""
        self.warnings.append(f"{self.speaker}: {text}" if self.speaker else text)

    def read_annotations(self, *keys: str) -> None:
        """The plugin's rules look at these annotations of pods and jobs."""
        self.reads.update(keys)

    # --- order: the first rule that tells the two apart decides -----------------------------------

    def add_job_order_fn(
        self,
        compare: Compare[JobInfo] | None = None,
        *,
        key: Callable[[JobInfo, ClusterInfo], Rank] | None = None,
    ) -> None:
        """Which job of a queue goes first; with ``key`` the one with the smaller key."""
        self.add(JOB_ORDER, key, scalar=compare)

    def add_queue_order_fn(
        self,
        compare: Compare[QueueInfo] | None = None,
        *,
        key: Callable[[QueueInfo, ClusterInfo], Rank] | None = None,
    ) -> None:
        """Which queue goes first; evaluated again after each turn."""
        self.add(QUEUE_ORDER, key, scalar=compare)

    def report_queue_path(
        self, path: Callable[[QueueInfo, ClusterInfo], QueuePath] | None = None
    ) -> None:
        """Register the comparison of queues in a form that the coordinator keeps sorted with
        thousands of queues; see :attr:`queue_paths`."""
        if self.listens(QUEUE_ORDER):
            self.queue_paths[self.speaker] = path

    def add_task_order_fn(
        self,
        compare: Compare[TaskInfo] | None = None,
        *,
        key: Callable[[Role], Rank] | None = None,
    ) -> None:
        """Which task of a job goes first. ``key``: one for all members of a role."""
        self.add(TASK_ORDER, key, scalar=compare)

    def add_sub_job_order_fn(self, compare: Compare[SubJob]) -> None:
        """Which sub job of a job goes first."""
        self.add(SUB_JOB_ORDER, None, scalar=compare)

    def add_cluster_order_fn(self, compare: Compare[Any]) -> None:
        """Which cluster goes first; not called yet, as in Volcano's own actions."""
        self.add(CLUSTER_ORDER, None, scalar=compare)

    def add_victim_queue_order_fn(
        self, compare: Callable[[QueueInfo, QueueInfo, QueueInfo, World], float]
    ) -> None:
        """(left, right, evictor's queue) -> negative: victims of left first; 0: by QueueOrder."""
        self.add(VICTIM_QUEUE_ORDER, None, scalar=compare)

    # --- victims: per tier the intersection, the first tier that names any decides ----------------

    def add_preemptable_fn(self, fn: Votes) -> None:
        """(preemptor, candidates, world) -> those that may be evicted for it; None to abstain."""
        self.add(PREEMPTABLE, None, scalar=fn)

    def add_reclaimable_fn(self, fn: Votes) -> None:
        """(reclaimer, candidates of other queues, world) -> as :meth:`add_preemptable_fn`."""
        self.add(RECLAIMABLE, None, scalar=fn)

    def add_unified_evictable_fn(
        self,
        fn: Callable[[SessionJob, Sequence[TaskInfo], Purpose, World], Sequence[TaskInfo] | None],
    ) -> None:
        """(the starving job, candidates, PREEMPT or RECLAIM, world): for actions on gangs."""
        self.add(UNIFIED_EVICTABLE, None, scalar=fn)

    def add_victim_tasks_fn(
        self,
        fn: Callable[[Sequence[TaskInfo], World], Sequence[TaskInfo]] | None = None,
        *,
        evictable: Callable[[Sequence[TaskInfo], World], Sequence[TaskInfo]] | None = None,
    ) -> None:
        """Running tasks -> those to evict in shuffle. Union in a tier; the first tier with any.
        ``evictable``: filters the named tasks, of whatever tier, to those that may be evicted."""
        self.add(VICTIM_TASKS, evictable, scalar=fn)

    # --- queues and gangs ---------------------------------------------------------------------

    def add_overused_fn(self, fn: Callable[[QueueInfo, ClusterInfo], bool]) -> None:
        """Whether the queue has its share, so that it gets no further turn. Any rule suffices."""
        self.add(OVERUSED, fn, scalar=None)

    def add_preemptive_fn(self, fn: Callable[[QueueInfo, Sequence[TaskInfo], World], bool]) -> None:
        """Whether the queue may reclaim for these tasks. All rules must agree."""
        self.add(PREEMPTIVE, None, scalar=fn)

    def add_allocatable_fn(
        self,
        fn: Callable[[QueueInfo, Requests, ClusterInfo], bool] | None,
        *,
        scalar: Callable[[QueueInfo, TaskInfo, World], bool] | None = None,
    ) -> None:
        """Whether the queue admits this request beside what it has. All rules must agree."""
        self.add(ALLOCATABLE, fn, scalar=scalar)

    def add_job_ready_fn(
        self,
        fn: Callable[[SessionJob, World], bool] | None,
        *,
        counted: Callable[[Progress], bool] | None = None,
    ) -> None:
        """May what has a place be committed? All rules must agree."""
        self.add(JOB_READY, counted, scalar=fn)

    def add_sub_job_ready_fn(self, fn: Callable[[SubJob, World], bool]) -> None:
        """As JobReady, of one sub job. Without policies a job's sub job is ready as the job is."""
        self.add(SUB_JOB_READY, None, scalar=fn)

    def add_job_pipelined_fn(
        self,
        fn: Callable[[SessionJob, World], int] | None,
        *,
        counted: Callable[[Progress], int] | None = None,
    ) -> None:
        """Vote: with its pipelined tasks counted, may the job keep what it holds?"""
        self.add(JOB_PIPELINED, counted, scalar=fn)

    def add_sub_job_pipelined_fn(self, fn: Callable[[SubJob, World], int]) -> None:
        """Vote, as JobPipelined, of one sub job."""
        self.add(SUB_JOB_PIPELINED, None, scalar=fn)

    def add_job_starving_fn(self, fn: Callable[[JobInfo], bool]) -> None:
        """May others be evicted for it? All of the first tier with rules must agree; none: no."""
        self.add(JOB_STARVING, fn, scalar=None)

    def add_job_valid_fn(self, fn: Callable[[JobInfo, ClusterInfo], str | None]) -> None:
        """Why the job cannot be scheduled as it is, or None. The first failure counts."""
        self.add(JOB_VALID, fn, scalar=None)

    def add_job_enqueueable_fn(self, fn: Callable[[JobInfo, ClusterInfo], int]) -> None:
        """Vote on creating the job's pods (admission by enqueue)."""
        self.add(JOB_ENQUEUEABLE, fn, scalar=None)

    def add_job_enqueued_fn(self, fn: Callable[[JobInfo, ClusterInfo], None]) -> None:
        """Called for every rule when a job was admitted."""
        self.add(JOB_ENQUEUED, fn, scalar=None)

    def add_target_job_fn(
        self, fn: Callable[[Sequence[JobInfo], ClusterInfo], JobInfo | None]
    ) -> None:
        """The job to reserve nodes for. The first rule that is registered answers."""
        self.add(TARGET_JOB, fn, scalar=None)

    def add_reserved_nodes_fn(self, fn: Callable[[World], None]) -> None:
        """Reserve nodes for the target job; every rule is called."""
        self.add(RESERVED_NODES, None, scalar=fn)

    # --- nodes --------------------------------------------------------------------------------

    def add_pre_predicate_fn(
        self, fn: Callable[[TaskInfo, World], str | None], *, concerns: Concerns = any_class
    ) -> None:
        """Why the task cannot run on any node, or None. The first failure counts. ``concerns``: the
        classes that it can refuse at all; the others need no session."""
        self.add(PRE_PREDICATE, concerns, scalar=fn)

    def add_predicate_fn(
        self,
        fn: Callable[[TaskClass, Node], str | None] | None = None,
        *,
        masks: ClassMasks | None = None,
    ) -> None:
        """A *static* check: depends on the task's class and the node's specification only.

        ``fn`` returns None or the reason. It is called once per pair of class and kind of node
        (nodes that differ in name and amounts only are one kind), never per task and node.
        ``masks`` is the same over all rows at once: [(reason, True where it passes)]."""
        if masks is None:
            masks = by_kind(there(fn))
        self.add(PREDICATE, masks, scalar=None, scope=Scope.STATIC)

    def add_live_predicate_fn(
        self,
        fn: Callable[[TaskInfo, World], Sequence[Check]],
        *,
        scope: Scope,
        concerns: Concerns = any_class,
        symmetric: bool = False,
        whole_pod: bool = True,
    ) -> None:
        """A check that depends on running tasks: on the node itself (``NODE``), or anywhere in its
        domain (``DOMAIN``). Returns masks over all rows, each with whether evictions can cure it.
        ``concerns``: the classes that it can refuse at all; the others need no session.
        ``symmetric``: requests of other pods may refuse any class, so that sessions over a world
        ask it for all of them; which other classes need such a session is decided by the caller
        that knows the other pods. ``whole_pod``: a check of any class may read labels and
        annotations of the task that no :meth:`read_annotations` names."""
        self.add(LIVE_PREDICATE, concerns, scalar=fn, scope=scope, symmetric=symmetric)
        self.reads_pods |= whole_pod and concerns is any_class and self.listens(LIVE_PREDICATE)

    def add_simulate_predicate_fn(self, fn: Callable[[TaskInfo, int, World], str | None]) -> None:
        """(task, row, world): the check of a dry run, after victims were taken off the node."""
        self.add(SIMULATE_PREDICATE, None, scalar=fn)

    def add_simulate_add_task_fn(self, fn: Simulated) -> None:
        """(task, the task that is added, row, world): a dry run puts a task back on a node."""
        self.add(SIMULATE_ADD_TASK, None, scalar=fn)

    def add_simulate_remove_task_fn(self, fn: Simulated) -> None:
        """(task, the task that is removed, row, world): a dry run takes a victim off a node."""
        self.add(SIMULATE_REMOVE_TASK, None, scalar=fn)

    def add_simulate_allocatable_fn(self, fn: Callable[[QueueInfo, TaskInfo, World], bool]) -> None:
        """As Allocatable, in a dry run. All rules must agree."""
        self.add(SIMULATE_ALLOCATABLE, None, scalar=fn)

    # --- scores -------------------------------------------------------------------------------

    def add_node_order_fn(
        self, fn: Callable[[TaskClass, Node], float] | None = None, *, scorer: Scorer | None = None
    ) -> None:
        """A score; the sum over all rules decides. ``fn`` is *static*: called once per pair of
        class and kind of node. A ``scorer`` is node-local and works on arrays."""
        rule = ByKind(there(fn)) if scorer is None else scorer
        self.add(NODE_ORDER, rule, scalar=None)

    def add_batch_node_order_fn(
        self, fn: ArrayScore, *, concerns: Concerns = any_class, symmetric: bool = False
    ) -> None:
        """(task, rows, world) -> a score per row, computed together. Added. ``concerns``: the
        classes for which rows differ; the others need no session. ``symmetric``: requests of other
        pods may make rows differ for any class."""
        self.add(BATCH_NODE_ORDER, concerns, scalar=fn, symmetric=symmetric)

    def add_node_map_fn(self, fn: Callable[[TaskInfo, int, World], float]) -> None:
        """(task, row, world) -> a raw score; NodeReduce of the same plugin may scale it."""
        self.add(NODE_MAP, None, scalar=fn)

    def add_node_reduce_fn(self, fn: Callable[[TaskInfo, Any], Any]) -> None:
        """(task, this plugin's NodeMap scores as an array) -> the scores that are added."""
        self.add(NODE_REDUCE, None, scalar=fn)

    def add_best_node_fn(self, fn: Callable[[TaskInfo, Any, Any, World], int | None]) -> None:
        """(task, rows, scores, world) -> the row to take, None to abstain. The first row counts."""
        self.add(BEST_NODE, None, scalar=fn)

    def add_device_choice_fn(self, fn: DeviceChoice, *, concerns: Concerns = any_class) -> None:
        """(task, row, world) -> what a task placed there takes of the node's devices. Added."""
        self.add(DEVICE_CHOICE, concerns, scalar=lambda *asked: joined_devices(fn(*asked)))

    def add_devices_idle_fn(
        self, fn: Callable[[TaskInfo, World], Mask], *, concerns: Concerns = any_class
    ) -> None:
        """Rows where what the task would take of devices is free now, for a check that goes by what
        will be free once others have left. All rules must agree."""
        self.add(DEVICES_IDLE, concerns, scalar=fn)

    def add_hyper_node_order_fn(
        self,
        fn: Callable[[SubJob, Mapping[str, Sequence[int]], World], Mapping[str, float]],
        *,
        alone: Callable[[SubJob], bool] = lambda _: False,
    ) -> None:
        """(sub-job, domain name -> rows, world) -> a score per domain. Added. ``alone``: the
        sub-jobs for which a domain's score does not depend on the other domains in question; then
        the best domain is tried first, and the others only where it has no place."""
        self.add(HYPER_NODE_ORDER, alone, scalar=fn)

    def add_hyper_node_gradient_for_job_fn(
        self, fn: Callable[[SessionJob, HyperDomain, Purpose, World], list[list[HyperDomain]]]
    ) -> None:
        """The domains to try for a job below the given one, best group first. First plugin only."""
        self.add(HYPER_NODE_GRADIENT_FOR_JOB, None, scalar=fn)

    def add_hyper_node_gradient_for_sub_job_fn(
        self, fn: Callable[[SubJob, HyperDomain, Purpose, World], list[list[HyperDomain]]]
    ) -> None:
        """As :meth:`add_hyper_node_gradient_for_job_fn`, for one sub job."""
        self.add(HYPER_NODE_GRADIENT_FOR_SUB_JOB, None, scalar=fn)

    # --- events -------------------------------------------------------------------------------

    def add_event_handler(self, handler: EventHandler) -> None:
        """Called with every allocation, nomination and eviction, and when one is undone."""
        self.add(EVENT_HANDLER, None, scalar=handler)
