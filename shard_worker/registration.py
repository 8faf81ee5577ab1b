"""Where plugins register: one ``add_*_fn`` for each extension point, with its combining rule.

A plugin's ``on_session_open`` gets the session and calls these. Many points take two forms of the
same rule. The first serves a session over a :class:`~shard_worker.world.World`, task by task. The
other (``key``, ``counted``, ``masks``, a ``Scorer``) serves the fast path, which has columns and
counts; a policy in which a rule lacks it is served by sessions alone: right, only slower.

A function is not registered where the policy switched the point's flag off for the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from shard_worker.extension_points import EXTENSION_POINTS
from shard_worker.rules import (
    ArrayScore,
    ByKind,
    Check,
    ClassMasks,
    EventHandler,
    Purpose,
    Scope,
    Scorer,
    Votes,
    by_kind,
)
from shard_worker.workload import ClusterInfo, JobInfo, Progress, QueueInfo
from shared.model import Node, Requests, Role, TaskClass
from shared.policy import PluginOption, Policy

if TYPE_CHECKING:
    from shard_worker.hyper_tree import Domain
    from shard_worker.session_job import SessionJob, SubJob
    from shard_worker.tasks import TaskInfo
    from shard_worker.world import World

T = TypeVar("T")
Compare = Callable[[Any, Any, Any], float]
"""(left, right, cluster) -> negative where left goes first, positive where right does, else 0."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A rule at an extension point, with the tier and plugin it came from.

    ``fn`` is its form for the fast path, None where it has none there; ``scalar`` that for sessions
    over a world, None where ``fn`` serves them too."""

    tier: int
    plugin: str
    fn: Any
    scalar: Any = None
    scope: Scope | None = None
    symmetric: bool = False
    """Sessions over a world ask it of every class, whatever ``fn`` says of the fast path."""


class Registration:
    """The part of a session that plugins write to."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.hooks: dict[str, list[Registered]] = {name: [] for name in EXTENSION_POINTS}
        """Extension point -> rules in tier order, in each tier in the policy's order."""
        self.spoken: dict[str, list[str]] = {}
        """Plugin -> the points at which it spoke, also those that are switched off."""
        self.warnings: list[str] = list(policy.warnings)
        """Settings that were accepted but have no effect in this version."""
        self.reads: set[str] = set()
        """Annotations of pods and jobs that rules look at: who has one is placed by sessions."""
        self.shared: dict[str, object] = {}
        """Memory that several plugins of the session use, by a name of their own."""
        self.entering: list[Callable[[World], None]] = []
        """Called with each world that the session enters, before anything moves in it: for rules
        that judge by what was there at first."""
        self._speaker: tuple[int, PluginOption] | None = None

    @contextmanager
    def speaking(self, tier: int, option: PluginOption) -> Iterator[None]:
        """What is registered meanwhile is this plugin's."""
        self._speaker = (tier, option)
        try:
            yield
        finally:
            self._speaker = None

    def add(
        self,
        point: str,
        fn: Any = None,
        *,
        scalar: Any = None,
        scope: Scope | None = None,
        symmetric: bool = False,
    ) -> None:
        """Speak at ``point``; the typed methods below say what each point takes."""
        if self._speaker is None:
            raise RuntimeError("plugins register in on_session_open, and only there")
        tier, option = self._speaker
        spoken = self.spoken.setdefault(option.name, [])
        if point not in spoken:
            spoken.append(point)
        flag = EXTENSION_POINTS[point].flag
        if flag is None or option.enabled(flag):
            self.hooks[point].append(Registered(tier, option.name, fn, scalar, scope, symmetric))

    def listens(self, point: str) -> bool:
        """Does the policy ask the plugin that registers now at this point?"""
        flag = EXTENSION_POINTS[point].flag
        return self._speaker is not None and (flag is None or self._speaker[1].enabled(flag))

    def warn(self, text: str) -> None:
        """Tell the operator of a setting that this version accepts without effect."""
        name = "" if self._speaker is None else f"{self._speaker[1].name}: "
        self.warnings.append(name + text)

    def read_annotations(self, *keys: str) -> None:
        """The plugin's rules look at these annotations of pods and jobs."""
        self.reads.update(keys)

    # --- order: the first rule that tells the two apart decides -----------------------------------

    def add_job_order_fn(
        self,
        compare: Callable[[JobInfo, JobInfo, ClusterInfo], float] | None = None,
        *,
        key: Callable[[JobInfo, ClusterInfo], float | tuple[float, ...]] | None = None,
    ) -> None:
        """Which job of a queue goes first. ``key``: the smaller one does."""
        self.add("JobOrder", key, scalar=compare)

    def add_queue_order_fn(
        self,
        compare: Callable[[QueueInfo, QueueInfo, ClusterInfo], float] | None = None,
        *,
        key: Callable[[QueueInfo, ClusterInfo], float | tuple[float, ...]] | None = None,
    ) -> None:
        """Which queue goes first. Asked anew after each turn."""
        self.add("QueueOrder", key, scalar=compare)

    def add_task_order_fn(
        self,
        compare: Callable[[TaskInfo, TaskInfo, World], float] | None = None,
        *,
        key: Callable[[Role], float | tuple[float, ...]] | None = None,
    ) -> None:
        """Which task of a job goes first. ``key``: of all members of a role alike."""
        self.add("TaskOrder", key, scalar=compare)

    def add_sub_job_order_fn(self, compare: Callable[[SubJob, SubJob, World], float]) -> None:
        """Which sub job of a job goes first."""
        self.add("SubJobOrder", scalar=compare)

    def add_cluster_order_fn(self, compare: Compare) -> None:
        """Which cluster goes first; nothing here asks it yet, as in Volcano's own actions."""
        self.add("ClusterOrder", scalar=compare)

    def add_victim_queue_order_fn(
        self, compare: Callable[[QueueInfo, QueueInfo, QueueInfo, World], float]
    ) -> None:
        """(left, right, the evictor's queue): from which queue a victim is taken first. Where
        nobody tells the two apart, the one that QueueOrder puts last."""
        self.add("VictimQueueOrder", scalar=compare)

    # --- victims: per tier the intersection, the first tier that names any decides ----------------

    def add_preemptable_fn(self, fn: Votes) -> None:
        """(preemptor, candidates, world) -> those that may be evicted for it, None to abstain."""
        self.add("Preemptable", scalar=fn)

    def add_reclaimable_fn(self, fn: Votes) -> None:
        """(reclaimer, candidates of other queues, world) -> as :meth:`add_preemptable_fn`."""
        self.add("Reclaimable", scalar=fn)

    def add_unified_evictable_fn(
        self,
        fn: Callable[[SessionJob, Sequence[TaskInfo], Purpose, World], Sequence[TaskInfo] | None],
    ) -> None:
        """(the starving job, candidates, PREEMPT or RECLAIM, world), for gangpreempt and
        gangreclaim."""
        self.add("UnifiedEvictable", scalar=fn)

    def add_victim_tasks_fn(
        self,
        fn: Callable[[Sequence[TaskInfo], World], Sequence[TaskInfo]] | None = None,
        *,
        spare: Callable[[Sequence[TaskInfo], World], Sequence[TaskInfo]] | None = None,
    ) -> None:
        """Running tasks -> those to evict in shuffle. Union in a tier; the first tier with any.
        ``spare``: of those that the rules name, whatever their tier, the ones that may go."""
        self.add("VictimTasks", spare, scalar=fn)

    # --- queues and gangs ---------------------------------------------------------------------

    def add_overused_fn(self, fn: Callable[[QueueInfo, ClusterInfo], bool]) -> None:
        """The queue has its share and gets no further turn. Any rule suffices."""
        self.add("Overused", fn)

    def add_preemptive_fn(self, fn: Callable[[QueueInfo, Sequence[TaskInfo], World], bool]) -> None:
        """May the queue reclaim for these tasks? All rules must agree."""
        self.add("Preemptive", scalar=fn)

    def add_allocatable_fn(
        self,
        fn: Callable[[QueueInfo, Requests, ClusterInfo], bool] | None,
        *,
        scalar: Callable[[QueueInfo, TaskInfo, World], bool] | None = None,
    ) -> None:
        """May the queue take this request on top of what it has? All rules must agree."""
        self.add("Allocatable", fn, scalar=scalar)

    def add_job_ready_fn(
        self,
        fn: Callable[[SessionJob, World], bool] | None,
        *,
        counted: Callable[[Progress], bool] | None = None,
    ) -> None:
        """May what has a place be committed? All rules must agree."""
        self.add("JobReady", counted, scalar=fn)

    def add_sub_job_ready_fn(self, fn: Callable[[SubJob, World], bool]) -> None:
        """As JobReady, of one sub job. Without policies a job's sub job is ready as the job is."""
        self.add("SubJobReady", scalar=fn)

    def add_job_pipelined_fn(
        self,
        fn: Callable[[SessionJob, World], int] | None,
        *,
        counted: Callable[[Progress], int] | None = None,
    ) -> None:
        """Vote: with its pipelined tasks counted, may the job keep what it holds?"""
        self.add("JobPipelined", counted, scalar=fn)

    def add_sub_job_pipelined_fn(self, fn: Callable[[SubJob, World], int]) -> None:
        """Vote, as JobPipelined, of one sub job."""
        self.add("SubJobPipelined", scalar=fn)

    def add_job_starving_fn(self, fn: Callable[[JobInfo], bool]) -> None:
        """Is others' eviction for this job worth a look? The first tier with a rule decides, all
        of it must agree; without any rule no job starves."""
        self.add("JobStarving", fn)

    def add_job_valid_fn(self, fn: Callable[[JobInfo, ClusterInfo], str | None]) -> None:
        """None, or why the job cannot be scheduled as it stands. The first failure counts."""
        self.add("JobValid", fn)

    def add_job_enqueueable_fn(self, fn: Callable[[JobInfo, ClusterInfo], int]) -> None:
        """Vote: may the job's pods be created?"""
        self.add("JobEnqueueable", fn)

    def add_job_enqueued_fn(self, fn: Callable[[JobInfo, ClusterInfo], None]) -> None:
        """The job was let in: every rule is told."""
        self.add("JobEnqueued", fn)

    def add_target_job_fn(
        self, fn: Callable[[Sequence[JobInfo], ClusterInfo], JobInfo | None]
    ) -> None:
        """The job to reserve nodes for. The first rule that is registered answers."""
        self.add("TargetJob", fn)

    def add_reserved_nodes_fn(self, fn: Callable[[World], None]) -> None:
        """Reserve nodes for the target job: every rule is told."""
        self.add("ReservedNodes", scalar=fn)

    # --- nodes --------------------------------------------------------------------------------

    def add_pre_predicate_fn(
        self,
        fn: Callable[[TaskInfo, World], str | None],
        *,
        concerns: Callable[[TaskClass], bool] = lambda _: True,
    ) -> None:
        """None, or why the task cannot run on any node. The first failure counts. ``concerns``:
        the classes that it can refuse at all; others keep to the fast path."""
        self.add("PrePredicate", concerns, scalar=fn)

    def add_predicate_fn(
        self,
        fn: Callable[[TaskClass, Node], str | None] | None = None,
        *,
        masks: ClassMasks | None = None,
    ) -> None:
        """A *static* check: it follows from the task's class and what the node says about itself.

        ``fn`` gives None or why not. It is asked once for each pair of class and kind of node
        (nodes that differ in name and amounts alone are one kind), never per task and node.
        ``masks`` is the same over all rows at once: [(reason, True where it passes)]."""
        if masks is None:
            masks = by_kind(_given(fn, "masks"))
        self.add("Predicate", masks, scope=Scope.STATIC)

    def add_live_predicate_fn(
        self,
        fn: Callable[[TaskInfo, World], Sequence[Check]],
        *,
        scope: Scope,
        concerns: Callable[[TaskClass], bool] = lambda _: True,
        symmetric: bool = False,
    ) -> None:
        """A check that changes with what runs: on the node itself (``NODE``), or anywhere in its
        domain (``DOMAIN``). It gives its masks over all rows, each told whether evictions can cure
        it. ``concerns``: the classes that it can refuse at all; others keep to the fast path.
        ``symmetric``: what others ask for may refuse any class, so that sessions over a world ask
        of all of them; who else needs such a session is for those to say who know the others."""
        self.add("LivePredicate", concerns, scalar=fn, scope=scope, symmetric=symmetric)

    def add_simulate_predicate_fn(self, fn: Callable[[TaskInfo, int, World], str | None]) -> None:
        """(task, row, world): the check of a dry run, after victims were taken off the node."""
        self.add("SimulatePredicate", scalar=fn)

    def add_simulate_add_task_fn(
        self, fn: Callable[[TaskInfo, TaskInfo, int, World], str | None]
    ) -> None:
        """(task, the task that is added, row, world): a dry run puts a task back on a node."""
        self.add("SimulateAddTask", scalar=fn)

    def add_simulate_remove_task_fn(
        self, fn: Callable[[TaskInfo, TaskInfo, int, World], str | None]
    ) -> None:
        """(task, the task that is removed, row, world): a dry run takes a victim off a node."""
        self.add("SimulateRemoveTask", scalar=fn)

    def add_simulate_allocatable_fn(self, fn: Callable[[QueueInfo, TaskInfo, World], bool]) -> None:
        """As Allocatable, in a dry run. All rules must agree."""
        self.add("SimulateAllocatable", scalar=fn)

    # --- scores -------------------------------------------------------------------------------

    def add_node_order_fn(
        self, fn: Callable[[TaskClass, Node], float] | None = None, *, scorer: Scorer | None = None
    ) -> None:
        """A score; the sum over all rules decides. ``fn`` is *static*: asked once for each pair of
        class and kind of node. A ``scorer`` is node-local and works on arrays."""
        self.add("NodeOrder", ByKind(_given(fn, "scorer")) if scorer is None else scorer)

    def add_batch_node_order_fn(
        self,
        fn: ArrayScore,
        *,
        concerns: Callable[[TaskClass], bool] = lambda _: True,
        symmetric: bool = False,
    ) -> None:
        """(task, rows, world) -> a score for each of these rows, judged together. Added.
        ``concerns``: the classes for which it tells rows apart; others keep to the fast path.
        ``symmetric``: what others ask for may tell rows apart for any class."""
        self.add("BatchNodeOrder", concerns, scalar=fn, symmetric=symmetric)

    def add_node_map_fn(self, fn: Callable[[TaskInfo, int, World], float]) -> None:
        """(task, row, world) -> a raw score; NodeReduce of the same plugin may scale it."""
        self.add("NodeMap", scalar=fn)

    def add_node_reduce_fn(self, fn: Callable[[TaskInfo, Any], Any]) -> None:
        """(task, this plugin's NodeMap scores as an array) -> the scores that are added."""
        self.add("NodeReduce", scalar=fn)

    def add_best_node_fn(self, fn: Callable[[TaskInfo, Any, Any, World], int | None]) -> None:
        """(task, rows, scores, world) -> the row to take, None for the highest score. The first
        answer counts."""
        self.add("BestNode", scalar=fn)

    def add_hyper_node_order_fn(
        self,
        fn: Callable[[SubJob, Mapping[str, Sequence[int]], World], Mapping[str, float]],
        *,
        alone: Callable[[SubJob], bool] = lambda _: False,
    ) -> None:
        """(sub job, domain name -> rows, world) -> a score of each domain. Added. ``alone``: the
        sub jobs of which a domain's score does not depend on which others are asked about; then
        the best domain is tried first, and the others only where it has no place."""
        self.add("HyperNodeOrder", alone, scalar=fn)

    def add_hyper_node_gradient_for_job_fn(
        self, fn: Callable[[SessionJob, Domain, Purpose, World], list[list[Domain]]]
    ) -> None:
        """The domains to try for a job, below the given one, best group first. The first plugin."""
        self.add("HyperNodeGradientForJob", scalar=fn)

    def add_hyper_node_gradient_for_sub_job_fn(
        self, fn: Callable[[SubJob, Domain, Purpose, World], list[list[Domain]]]
    ) -> None:
        """As :meth:`add_hyper_node_gradient_for_job_fn`, for one sub job."""
        self.add("HyperNodeGradientForSubJob", scalar=fn)

    # --- events -------------------------------------------------------------------------------

    def add_event_handler(self, handler: EventHandler) -> None:
        """Every allocation, nomination and eviction of the session, and what is undone."""
        self.add("EventHandler", scalar=handler)


def _given(fn: T | None, other: str) -> T:
    if fn is None:
        raise TypeError(f"a rule needs a function, or {other}")
    return fn
