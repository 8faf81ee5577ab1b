"""How the rules of a session's plugins become one answer, over a world and task by task.

The combining rule of each point stands in :mod:`shard_worker.extension_points`. The fast path's
forms of the same questions are in :class:`shard_worker.session.Session`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shard_worker.priority_queue import LiveQueue, PriorityQueue
from shard_worker.queue_totals import link
from shard_worker.registration import Registered, Registration
from shard_worker.rules import Check, Purpose, Scores
from shard_worker.workload import JobInfo, Progress, QueueInfo

if TYPE_CHECKING:
    from shard_worker.hyper_tree import Domain
    from shard_worker.session_job import SessionJob, SubJob
    from shard_worker.tasks import TaskInfo
    from shard_worker.world import World


class Answers(Registration):
    """Needs a world: :meth:`enter` gives it one."""

    _world: World | None = None
    decided_by: tuple[str, ...] = ()
    """The plugins that named the victims when any were named last."""

    def enter(self, world: World) -> None:
        """What is asked from now on is asked of this world."""
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
        """Negative where left goes first; then the earlier created, then by name."""
        found = self._first("JobOrder", left, right)
        return found or _ties((left.job.created, left.job.key), (right.job.created, right.job.key))

    def rank_jobs(self, left: SessionJob, right: SessionJob) -> float:
        """:meth:`compare_jobs`, 0 where no rule tells the two apart."""
        return self._first("JobOrder", left, right)

    def compare_queues(self, left: QueueInfo, right: QueueInfo) -> float:
        """Negative where left goes first; then the earlier created, then by name."""
        found = self._first("QueueOrder", left, right)
        return found or _ties(
            (left.queue.created, left.queue.name), (right.queue.created, right.queue.name)
        )

    def line_of_queues(self, queues: Iterable[QueueInfo] = ()) -> PriorityQueue[QueueInfo]:
        """Pops by :meth:`compare_queues` as it is then. By keys only the queue whose turn it was
        moves; by comparison others may."""
        moved = any(hook.scalar is not None for hook in self.hooks["QueueOrder"])
        return (LiveQueue if moved else PriorityQueue)(self.compare_queues, queues)

    def compare_tasks(self, left: TaskInfo, right: TaskInfo) -> float:
        """Negative where left goes first; then the lower index in the pod's name, the earlier
        created, and the lower uid."""
        for hook in self.hooks["TaskOrder"]:
            if found := _compared(hook, left, right, self.world, lambda task: (task.role,)):
                return found
        return _ties(
            (_index(left), left.created, left.uid), (_index(right), right.created, right.uid)
        )

    def in_task_order(self, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Tasks by :meth:`compare_tasks`; their order does not change during a session."""
        hooks = self.hooks["TaskOrder"]
        if any(hook.scalar is not None for hook in hooks):
            return PriorityQueue(self.compare_tasks, tasks).drain()
        return sorted(
            tasks, key=lambda t: (*(h.fn(t.role) for h in hooks), _index(t), t.created, t.uid)
        )

    def compare_sub_jobs(self, left: SubJob, right: SubJob) -> float:
        found = self._first("SubJobOrder", left, right)
        return found or _ties((left.index, left.key), (right.index, right.key))

    def compare_clusters(self, left: object, right: object) -> float:
        """Negative where left goes first."""
        return self._first("ClusterOrder", left, right)

    def compare_victim_queues(self, left: QueueInfo, right: QueueInfo, evictor: QueueInfo) -> float:
        """Negative where a victim of left is taken first."""
        for hook in self.hooks["VictimQueueOrder"]:
            if found := hook.scalar(left, right, evictor, self.world):
                return float(found)
        return -self.compare_queues(left, right)

    def _first(self, point: str, left: Any, right: Any) -> float:
        for hook in self.hooks[point]:
            if found := _compared(hook, left, right, self.world, lambda x: (x, self.world)):
                return found
        return 0.0

    # --- victims ------------------------------------------------------------------------------

    def preemptable(self, preemptor: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Those of the candidates that may be evicted for the preemptor."""
        return self._victims(
            "Preemptable", candidates, lambda f: f(preemptor, candidates, self.world)
        )

    def reclaimable(self, reclaimer: TaskInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Those of the candidates, all of other queues, that may be evicted for the reclaimer."""
        return self._victims(
            "Reclaimable", candidates, lambda f: f(reclaimer, candidates, self.world)
        )

    def unified_evictable(
        self, job: SessionJob, candidates: Sequence[TaskInfo], purpose: Purpose
    ) -> list[TaskInfo]:
        """Those of the candidates that may be evicted for a whole job."""
        return self._victims(
            "UnifiedEvictable", candidates, lambda f: f(job, candidates, purpose, self.world)
        )

    def _victims(
        self,
        point: str,
        candidates: Sequence[TaskInfo],
        ask: Callable[[Any], Sequence[TaskInfo] | None],
    ) -> list[TaskInfo]:
        """In a tier the intersection of all who do not abstain; the first tier with any decides."""
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
                    break
            if named:
                self.decided_by = tuple(voices)
                return [task for task in candidates if task in named]
        return []

    def victim_tasks(self, running: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Whom to evict so that they find better places: the union of the first tier with any, of
        whom no rule spares."""
        for _, hooks in self._tiers("VictimTasks"):
            asked = [hook for hook in hooks if hook.scalar is not None]
            answers = {hook.plugin: hook.scalar(running, self.world) for hook in asked}
            named = {task: None for answer in answers.values() for task in answer}
            if named:
                self.decided_by = tuple(plugin for plugin, answer in answers.items() if answer)
                return self._not_spared(list(named))
        return []

    def _not_spared(self, victims: list[TaskInfo]) -> list[TaskInfo]:
        for hook in self.hooks["VictimTasks"]:
            if hook.fn is not None:
                victims = list(hook.fn(victims, self.world))
        return victims

    def _tiers(self, point: str) -> Iterable[tuple[int, list[Registered]]]:
        tiers: dict[int, list[Registered]] = {}
        for hook in self.hooks[point]:
            tiers.setdefault(hook.tier, []).append(hook)
        return tiers.items()

    # --- queues and gangs ---------------------------------------------------------------------

    def queue_overused(self, queue: QueueInfo) -> bool:
        """Overused: it gets no further turn."""
        return any(hook.fn(queue, self.world) for hook in self.hooks["Overused"])

    def preemptive(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """May the queue reclaim for these tasks?"""
        return all(hook.scalar(queue, tasks, self.world) for hook in self.hooks["Preemptive"])

    def task_allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """May the queue take this task on top of what it has?"""
        return all(self._may(hook, queue, task) for hook in self.hooks["Allocatable"])

    def simulate_allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """As :meth:`task_allocatable`, in a dry run: victims are off their queues."""
        hooks = self.hooks["SimulateAllocatable"]
        return all(hook.scalar(queue, task, self.world) for hook in hooks)

    def _may(self, hook: Registered, queue: QueueInfo, task: TaskInfo) -> bool:
        if hook.scalar is not None:
            return bool(hook.scalar(queue, task, self.world))
        return bool(hook.fn(queue, task.requests, self.world))

    def ready(self, job: SessionJob) -> bool:
        """JobReady: what has a place may be committed."""
        return all(self._about(hook, job) for hook in self.hooks["JobReady"])

    def pipelined(self, job: SessionJob) -> bool:
        """JobPipelined: it may keep what it holds, pipelined tasks counted."""
        return self._votes("JobPipelined", lambda hook: self._about(hook, job))

    def sub_ready(self, sub: SubJob) -> bool:
        """SubJobReady; without policies the sub job is the job."""
        if not sub.job.has_sub_groups:
            return self.ready(sub.job)
        return all(hook.scalar(sub, self.world) for hook in self.hooks["SubJobReady"])

    def sub_pipelined(self, sub: SubJob) -> bool:
        """SubJobPipelined; without policies the sub job is the job."""
        if not sub.job.has_sub_groups:
            return self.pipelined(sub.job)
        return self._votes("SubJobPipelined", lambda hook: hook.scalar(sub, self.world))

    def _about(self, hook: Registered, job: SessionJob) -> Any:
        if hook.scalar is not None:
            return hook.scalar(job, self.world)
        return hook.fn(progress_of(job))

    def _votes(self, point: str, ask: Callable[[Registered], int]) -> bool:
        """A rejection is final; the first tier with a permission permits; silence permits."""
        for _, hooks in self._tiers(point):
            votes = [ask(hook) for hook in hooks]
            if any(vote < 0 for vote in votes):
                return False
            if any(vote > 0 for vote in votes):
                return True
        return True

    def tell_enqueued(self, job: JobInfo) -> None:
        """JobEnqueued: the job was let in."""
        for hook in self.hooks["JobEnqueued"]:
            hook.fn(job, self.world)

    def target_job(self, jobs: Sequence[JobInfo]) -> JobInfo | None:
        """The job to reserve nodes for, as the first rule that is registered has it."""
        hooks = self.hooks["TargetJob"]
        found: JobInfo | None = hooks[0].fn(jobs, self.world) if hooks else None
        return found

    def reserve_nodes(self) -> None:
        for hook in self.hooks["ReservedNodes"]:
            hook.scalar(self.world)

    # --- nodes --------------------------------------------------------------------------------

    def pre_predicate(self, task: TaskInfo) -> str | None:
        """None, or why the task cannot run on any node."""
        for hook in self.hooks["PrePredicate"]:
            reason: str | None = hook.scalar(task, self.world)
            if reason is not None:
                return reason
        return None

    def checks(self, task: TaskInfo) -> list[Check]:
        """Every check of a task over all rows: static ones first, each in the policy's order."""
        world = self.world
        found = [
            Check(reason, mask, curable=False)
            for hook in self.hooks["Predicate"]
            for reason, mask in hook.fn(task.cls, world.view)
        ]
        return found + self.live_checks(task)

    def live_checks(self, task: TaskInfo) -> list[Check]:
        """Those of the checks that change with what runs."""
        found: list[Check] = []
        for hook in self.hooks["LivePredicate"]:
            if hook.symmetric or hook.fn(task.cls):
                found += hook.scalar(task, self.world)
        return found

    def passes(self, task: TaskInfo, row: int) -> bool:
        """Do the checks that change with what runs let the task onto this node as it is now?"""
        return all(
            check.mask[row]
            for hook in self.hooks["LivePredicate"]
            if hook.symmetric or hook.fn(task.cls)
            for check in hook.scalar(task, self.world)
        )

    def simulate(self, point: str, *args: Any) -> str | None:
        """SimulatePredicate, SimulateAddTask, SimulateRemoveTask: the first failure."""
        for hook in self.hooks[point]:
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
        """What each plugin adds to :meth:`node_scores`."""
        found: dict[str, Scores] = {}
        for plugin, part in self._score_parts(task, rows):
            found[plugin] = found.get(plugin, 0.0) + part
        return found

    def _score_parts(self, task: TaskInfo, rows: NDArray[np.intp]) -> Iterator[tuple[str, Scores]]:
        world = self.world
        for hook in self.hooks["NodeOrder"]:
            yield hook.plugin, hook.fn.rows(task.cls, world.view, rows)
        for hook in self.hooks["BatchNodeOrder"]:
            yield hook.plugin, hook.scalar(task, rows, world)
        for hook in self.hooks["NodeMap"]:
            raw = np.array([hook.scalar(task, row, world) for row in rows.tolist()], np.float64)
            for reduce in self.hooks["NodeReduce"]:
                if reduce.plugin == hook.plugin:
                    raw = np.asarray(reduce.scalar(task, raw), np.float64)
            yield hook.plugin, raw

    def best_node(self, task: TaskInfo, rows: NDArray[np.intp], scores: Scores) -> int | None:
        """The row that a rule insists on, None where none does."""
        for hook in self.hooks["BestNode"]:
            row: int | None = hook.scalar(task, rows, scores, self.world)
            if row is not None:
                return row
        return None

    def hyper_node_scores(
        self, sub: SubJob, domains: Mapping[str, Sequence[int]]
    ) -> dict[str, float]:
        """The sum of all rules for each domain, by name."""
        total = dict.fromkeys(domains, 0.0)
        for hook in self.hooks["HyperNodeOrder"]:
            for name, score in hook.scalar(sub, domains, self.world).items():
                total[name] += score
        return total

    def scored_alone(self, sub: SubJob) -> bool:
        """Is a domain's score for the sub job the same, whichever others are asked about?"""
        return all(hook.fn(sub) for hook in self.hooks["HyperNodeOrder"])

    def job_gradients(
        self, job: SessionJob, within: Domain, purpose: Purpose
    ) -> list[list[Domain]]:
        """Groups of domains to try for a job, best first; the whole domain where no rule says."""
        hooks = self.hooks["HyperNodeGradientForJob"]
        return hooks[0].scalar(job, within, purpose, self.world) if hooks else [[within]]

    def sub_job_gradients(
        self, sub: SubJob, within: Domain, purpose: Purpose
    ) -> list[list[Domain]]:
        """As :meth:`job_gradients`, for one sub job."""
        hooks = self.hooks["HyperNodeGradientForSubJob"]
        return hooks[0].scalar(sub, within, purpose, self.world) if hooks else [[within]]

    # --- events -------------------------------------------------------------------------------

    def tell_allocated(self, task: TaskInfo) -> None:
        for hook in self.hooks["EventHandler"]:
            hook.scalar.allocate(task)

    def tell_deallocated(self, task: TaskInfo) -> None:
        for hook in self.hooks["EventHandler"]:
            hook.scalar.deallocate(task)


def progress_of(job: SessionJob) -> Progress:
    """The counts that the fast form of a gang rule looks at."""
    groups = job.job.groups
    return Progress(
        parent=[group.parent for group in groups],
        minimum=[group.minimum for group in groups],
        held=job.held,
        waiting=job.waiting,
        best_effort=job.best_effort,
    )


def _compared(
    hook: Registered, left: Any, right: Any, world: World, args: Callable[[Any], tuple[Any, ...]]
) -> float:
    """One rule's opinion: by comparison, else by key."""
    if hook.scalar is not None:
        return float(hook.scalar(left, right, world))
    return _ties(hook.fn(*args(left)), hook.fn(*args(right)))


def _ties(left: Any, right: Any) -> float:
    return -1.0 if left < right else 1.0 if left > right else 0.0


def _index(task: TaskInfo) -> int:
    """The number at the end of the pod's name; Volcano orders members by it, as numbers."""
    tail = task.name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() and len(tail) < 10 else -1
