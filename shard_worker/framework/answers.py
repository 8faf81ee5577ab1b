"""Combines the rules of a session's plugins into one answer, over a world and task by task.

The combining rule of each point is documented in :mod:`shard_worker.framework.extension_points`.
The same questions for turns without a session are in
:class:`shard_worker.framework.session.Session`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework import extension_points as points
from shard_worker.framework.extension_points import Compare, Point, Rank
from shard_worker.framework.registered import Registered, there
from shard_worker.framework.registration import Registration
from shard_worker.framework.rules import Check, Purpose, Scores
from shard_worker.session_model.priority_queue import LiveQueue, PriorityQueue
from shard_worker.session_model.queue_totals import link
from shard_worker.session_model.workload import JobInfo, Progress, QueueInfo

if TYPE_CHECKING:
    from shard_worker.framework.left_room import LeftRoom
    from shard_worker.session_model.job import SessionJob, SubJob, TaskInfo
    from shard_worker.session_model.world import World
    from shard_worker.view.hyper_tree import HyperDomain


F = TypeVar("F")
S = TypeVar("S")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Counted = Callable[[Progress], T]
OfJob = Callable[["SessionJob", "World"], T]
"""The two forms of a rule about gangs."""
Order = Point[Callable[[T, Any], Rank] | None, Compare[T] | None]
"""A point whose rules either compare two objects or return a sort key."""


class Answers(Registration):
    """The combined rules of a session over a world, which :meth:`enter` sets."""

    _world: World | None = None
    decided_by: tuple[str, ...] = ()
    """The plugins that decided the last victims."""
    left_to_allocate: tuple[LeftRoom, ...] | None = None
    """Room that evicting actions hold for allocate; None in a turn of one job, which holds none."""
    past_allocate = False
    """Whether allocate has run."""

    def enter(self, world: World) -> None:
        """Use this world from now on."""
        self._world = world
        world.names = world.view.slot_names
        link(world.queues)
        for look in self.entering:
            look(world)

    @property
    def world(self) -> World:
        if self._world is None:
            raise RuntimeError("the session has entered no world")
        return self._world

    # --- order --------------------------------------------------------------------------------

    def compare_jobs(self, left: SessionJob, right: SessionJob) -> float:
        """Negative where left goes first; ties by creation time, then by name."""
        order = self._first(points.JOB_ORDER, left, right)
        return order or _ties((left.job.created, left.job.key), (right.job.created, right.job.key))

    def rank_jobs(self, left: SessionJob, right: SessionJob) -> float:
        """:meth:`compare_jobs`, but 0 where no rule decides."""
        return self._first(points.JOB_ORDER, left, right)

    def jobs_by_queue(self, jobs: Iterable[SessionJob]) -> dict[int, PriorityQueue[SessionJob]]:
        """The jobs that have a queue by its number, each queue's in job order."""
        by_queue: dict[int, PriorityQueue[SessionJob]] = {}
        for job in jobs:
            if job.queue is not None:
                by_queue.setdefault(job.qid, PriorityQueue(self.compare_jobs)).push(job)
        return by_queue

    def compare_queues(self, left: QueueInfo, right: QueueInfo) -> float:
        """Negative where left goes first; ties by creation time, then by name."""
        order = self._first(points.QUEUE_ORDER, left, right)
        return order or _ties(
            (left.queue.created, left.queue.name), (right.queue.created, right.queue.name)
        )

    def line_of_queues(self, queues: Iterable[QueueInfo] = ()) -> PriorityQueue[QueueInfo]:
        """A priority queue that pops by the present :meth:`compare_queues`. With keys only the
        queue that had a turn can change its position; with comparisons others may, too."""
        moves = any(hook.scalar is not None for hook in self.rules(points.QUEUE_ORDER))
        return (LiveQueue if moves else PriorityQueue)(self.compare_queues, queues)

    def compare_tasks(self, left: TaskInfo, right: TaskInfo) -> float:
        """Negative where left goes first; ties by the index in the pod's name, creation time, then
        uid."""
        for rule in self.rules(points.TASK_ORDER):
            if rule.scalar is not None:
                order = float(rule.scalar(left, right, self.world))
            else:
                rank = there(rule.fn)
                order = _ties(rank(left.role), rank(right.role))
            if order:
                return order
        return _ties(
            (_index(left), left.created, left.uid), (_index(right), right.created, right.uid)
        )

    def in_task_order(self, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Tasks by :meth:`compare_tasks`; their order does not change during a session."""
        hooks = self.rules(points.TASK_ORDER)
        if any(hook.scalar is not None for hook in hooks):
            return PriorityQueue(self.compare_tasks, tasks).drain()
        return sorted(
            tasks,
            key=lambda t: (*(there(h.fn)(t.role) for h in hooks), _index(t), t.created, t.uid),
        )

    def compare_sub_jobs(self, left: SubJob, right: SubJob) -> float:
        order = self._first(points.SUB_JOB_ORDER, left, right)
        return order or _ties((left.index, left.key), (right.index, right.key))

    def compare_clusters(self, left: object, right: object) -> float:
        """Negative where left goes first."""
        return self._first(points.CLUSTER_ORDER, left, right)

    def compare_victim_queues(self, left: QueueInfo, right: QueueInfo, evictor: QueueInfo) -> float:
        """Negative where a victim of left is taken first."""
        for hook in self.rules(points.VICTIM_QUEUE_ORDER):
            if order := hook.scalar(left, right, evictor, self.world):
                return float(order)
        return -self.compare_queues(left, right)

    def _first(self, point: Order[T], left: T, right: T) -> float:
        for hook in self.rules(point):
            if hook.scalar is not None:
                order = float(hook.scalar(left, right, self.world))
            else:
                rank = there(hook.fn)
                order = _ties(rank(left, self.world), rank(right, self.world))
            if order:
                return order
        return 0.0

    # --- victims ------------------------------------------------------------------------------

    def preemptable(self, preemptor: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """The candidates that may be evicted for the preemptor."""
        return self._victims(
            points.PREEMPTABLE, candidates, lambda f: f(preemptor, candidates, self.world)
        )

    def reclaimable(self, reclaimer: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """The candidates, all of other queues, that may be evicted for the reclaimer."""
        return self._victims(
            points.RECLAIMABLE, candidates, lambda f: f(reclaimer, candidates, self.world)
        )

    def unified_evictable(
        self, job: SessionJob, candidates: Sequence[TaskInfo], purpose: Purpose
    ) -> list[TaskInfo]:
        """The candidates that may be evicted for a whole job."""
        return self._victims(
            points.UNIFIED_EVICTABLE, candidates, lambda f: f(job, candidates, purpose, self.world)
        )

    def _victims(
        self,
        point: Point[Any, S],
        candidates: Sequence[TaskInfo],
        ask: Callable[[S], Sequence[TaskInfo] | None],
    ) -> list[TaskInfo]:
        """Within a tier the intersection of all rules that do not abstain; the first tier with any
        victim decides."""
        for _, hooks in self._tiers(point):
            named: set[TaskInfo] | None = None
            voices: list[str] = []
            for hook in hooks:
                answer = ask(hook.scalar)
                if answer is None:
                    continue
                voices.append(hook.plugin)
                named = set(answer) if named is None else named & set(answer)
                if not named:
                    # Empty stays empty: in Volcano the next plugin of the tier would begin anew
                    # with its own list.
                    break
            if named:
                self.decided_by = tuple(voices)
                return [task for task in candidates if task in named]
        return []

    def victim_tasks(self, running: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Tasks to evict so that they find better places: the union of the first tier with any,
        without those that a rule exempts."""
        for _, hooks in self._tiers(points.VICTIM_TASKS):
            answers = {
                hook.plugin: hook.scalar(running, self.world)
                for hook in hooks
                if hook.scalar is not None
            }
            named = {task: None for answer in answers.values() for task in answer}
            if named:
                self.decided_by = tuple(plugin for plugin, answer in answers.items() if answer)
                return self._not_spared(list(named))
        return []

    def _not_spared(self, victims: list[TaskInfo]) -> list[TaskInfo]:
        for hook in self.rules(points.VICTIM_TASKS):
            if hook.fn is not None:
                victims = list(hook.fn(victims, self.world))
        return victims

    def _tiers(self, point: Point[F, S]) -> Iterable[tuple[int, list[Registered[F, S]]]]:
        tiers: dict[int, list[Registered[F, S]]] = {}
        for hook in self.rules(point):
            tiers.setdefault(hook.tier, []).append(hook)
        return tiers.items()

    # --- queues and gangs ---------------------------------------------------------------------

    def queue_overused(self, queue: QueueInfo) -> bool:
        """Whether the queue is overused, so that it gets no further turn."""
        return any(hook.fn(queue, self.world) for hook in self.rules(points.OVERUSED))

    def preemptive(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """Whether the queue may reclaim for these tasks."""
        return all(hook.scalar(queue, tasks, self.world) for hook in self.rules(points.PREEMPTIVE))

    def task_allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """Whether the queue admits this task beside what it has."""
        return self.admits(queue, task)

    def admits(
        self, queue: QueueInfo, task: TaskInfo, *, by: Collection[str] | None = None
    ) -> bool:
        """As :meth:`task_allocatable`; ``by``: these plugins alone are asked."""
        return all(
            there(rule.fn)(queue, task.requests, self.world)
            if rule.scalar is None
            else rule.scalar(queue, task, self.world)
            for rule in self.rules(points.ALLOCATABLE)
            if by is None or rule.plugin in by
        )

    def simulate_allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """As :meth:`task_allocatable`, in a dry run with the victims removed from their queues."""
        hooks = self.rules(points.SIMULATE_ALLOCATABLE)
        return all(hook.scalar(queue, task, self.world) for hook in hooks)

    def ready(self, job: SessionJob) -> bool:
        """JobReady: its placements may be committed."""
        return all(self._about(hook, job) for hook in self.rules(points.JOB_READY))

    def pipelined(self, job: SessionJob) -> bool:
        """JobPipelined: whether the job may keep its placements, counting pipelined tasks."""
        return self._vote(points.JOB_PIPELINED, lambda hook: self._about(hook, job))

    def sub_ready(self, sub: SubJob) -> bool:
        """SubJobReady; without policies the sub job is the job."""
        if not sub.job.has_sub_groups:
            return self.ready(sub.job)
        return all(hook.scalar(sub, self.world) for hook in self.rules(points.SUB_JOB_READY))

    def sub_pipelined(self, sub: SubJob) -> bool:
        """SubJobPipelined; without policies the sub job is the job."""
        if not sub.job.has_sub_groups:
            return self.pipelined(sub.job)
        return self._vote(points.SUB_JOB_PIPELINED, lambda hook: hook.scalar(sub, self.world))

    def _about(self, rule: Registered[Counted[T] | None, OfJob[T] | None], job: SessionJob) -> T:
        if rule.scalar is not None:
            return rule.scalar(job, self.world)
        return there(rule.fn)(progress_of(job))

    def _vote(self, point: Point[F, S], ask: Callable[[Registered[F, S]], int]) -> bool:
        """A rejection is final; else the first tier with a permission permits; without votes
        permitted.

        A rejection in a tier takes precedence over a permission of the same tier, whatever their
        order.
        """
        permitted_in: int | None = None
        for rule in self.rules(point):
            if permitted_in is not None and rule.tier != permitted_in:
                return True
            vote = ask(rule)
            if vote < 0:
                return False
            if vote > 0:
                permitted_in = rule.tier
        return True

    def target_job(self, jobs: Sequence[JobInfo]) -> JobInfo | None:
        """The job to reserve nodes for, by the first registered rule."""
        hooks = self.rules(points.TARGET_JOB)
        target: JobInfo | None = hooks[0].fn(jobs, self.world) if hooks else None
        return target

    def reserve_nodes(self) -> None:
        for hook in self.rules(points.RESERVED_NODES):
            hook.scalar(self.world)

    # --- nodes --------------------------------------------------------------------------------

    def pre_predicate(self, task: TaskInfo) -> str | None:
        """Why the task cannot run on any node; None where it can."""
        for hook in self.rules(points.PRE_PREDICATE):
            reason: str | None = hook.scalar(task, self.world)
            if reason is not None:
                return reason
        return None

    def checks(self, task: TaskInfo) -> list[Check]:
        """Every check of a task over all rows: static ones first, each in the policy's order."""
        world = self.world
        checks = [
            Check(reason, mask, curable=False)
            for hook in self.rules(points.PREDICATE)
            for reason, mask in hook.fn(task.cls, world.view)
        ]
        return checks + self.live_checks(task)

    def live_checks(self, task: TaskInfo) -> list[Check]:
        """The checks that depend on what runs."""
        checks: list[Check] = []
        for hook in self.rules(points.LIVE_PREDICATE):
            if hook.symmetric or hook.fn(task.cls):
                checks += hook.scalar(task, self.world)
        return checks

    def passes(self, task: TaskInfo, row: int) -> bool:
        """Whether the checks that depend on running tasks admit the task to this node now."""
        return all(
            check.mask[row]
            for hook in self.rules(points.LIVE_PREDICATE)
            if hook.symmetric or hook.fn(task.cls)
            for check in hook.scalar(task, self.world)
        )

    def simulate(
        self, point: Point[None, Callable[[*Ts, World], str | None]], *args: *Ts
    ) -> str | None:
        """SimulatePredicate, SimulateAddTask, SimulateRemoveTask: the first failure."""
        for hook in self.rules(point):
            reason: str | None = hook.scalar(*args, self.world)
            if reason is not None:
                return reason
        return None

    # --- scores -------------------------------------------------------------------------------

    def node_scores(self, task: TaskInfo, rows: NDArray[np.intp]) -> Scores:
        """The sum of NodeOrder, BatchNodeOrder, and NodeMap as reduced by its plugin."""
        total = np.zeros(len(rows), np.float64)
        for _, part in self._score_parts(task, rows):
            total += part
        return total

    def score_parts(self, task: TaskInfo, rows: NDArray[np.intp]) -> dict[str, Scores]:
        """The part of each plugin in :meth:`node_scores`."""
        parts: dict[str, Scores] = {}
        for plugin, part in self._score_parts(task, rows):
            parts[plugin] = parts.get(plugin, 0.0) + part
        return parts

    def _score_parts(self, task: TaskInfo, rows: NDArray[np.intp]) -> Iterator[tuple[str, Scores]]:
        world = self.world
        for order in self.rules(points.NODE_ORDER):
            yield order.plugin, order.fn.rows(task.cls, world.view, rows)
        for batch in self.rules(points.BATCH_NODE_ORDER):
            yield batch.plugin, batch.scalar(task, rows, world)
        for each in self.rules(points.NODE_MAP):
            raw = np.array([each.scalar(task, row, world) for row in rows.tolist()], np.float64)
            for reduce in self.rules(points.NODE_REDUCE):
                if reduce.plugin == each.plugin:
                    raw = np.asarray(reduce.scalar(task, raw), np.float64)
            yield each.plugin, raw

    def best_node(self, task: TaskInfo, rows: NDArray[np.intp], scores: Scores) -> int | None:
        """The row that a rule insists on; None for none."""
        for hook in self.rules(points.BEST_NODE):
            row: int | None = hook.scalar(task, rows, scores, self.world)
            if row is not None:
                return row
        return None

    def hyper_node_scores(
        self, sub: SubJob, domains: Mapping[str, Sequence[int]]
    ) -> dict[str, float]:
        """The sum of all rules for each domain, by name."""
        total = dict.fromkeys(domains, 0.0)
        for hook in self.rules(points.HYPER_NODE_ORDER):
            for name, score in hook.scalar(sub, domains, self.world).items():
                total[name] += score
        return total

    def scored_alone(self, sub: SubJob) -> bool:
        """Whether a domain's score for the sub-job is independent of the other domains in
        question."""
        return all(hook.fn(sub) for hook in self.rules(points.HYPER_NODE_ORDER))

    def job_gradients(
        self, job: SessionJob, within: HyperDomain, purpose: Purpose
    ) -> list[list[HyperDomain]]:
        """Groups of domains to try for a job, best first; the whole domain without a rule."""
        hooks = self.rules(points.HYPER_NODE_GRADIENT_FOR_JOB)
        return hooks[0].scalar(job, within, purpose, self.world) if hooks else [[within]]

    def sub_job_gradients(
        self, sub: SubJob, within: HyperDomain, purpose: Purpose
    ) -> list[list[HyperDomain]]:
        """As :meth:`job_gradients`, for one sub job."""
        hooks = self.rules(points.HYPER_NODE_GRADIENT_FOR_SUB_JOB)
        return hooks[0].scalar(sub, within, purpose, self.world) if hooks else [[within]]

    # --- events -------------------------------------------------------------------------------

    def notify_allocated(self, task: TaskInfo) -> None:
        for hook in self.rules(points.EVENT_HANDLER):
            hook.scalar.allocate(task)

    def notify_deallocated(self, task: TaskInfo) -> None:
        for hook in self.rules(points.EVENT_HANDLER):
            hook.scalar.deallocate(task)


def progress_of(job: SessionJob) -> Progress:
    """The counts that the fast form of a gang rule needs."""
    groups = job.job.groups
    return Progress(
        parent=[group.parent for group in groups],
        minimum=[group.minimum for group in groups],
        held=job.held,
        waiting=job.waiting,
        best_effort=job.best_effort,
    )


def _ties(left: Any, right: Any) -> float:
    return -1.0 if left < right else 1.0 if left > right else 0.0


def _index(task: TaskInfo) -> int:
    """The number at the end of the pod's name; Volcano orders members by it, as numbers."""
    tail = task.name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() and len(tail) < 10 else -1
