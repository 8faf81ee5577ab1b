"""A session: the rules of the plugins that a policy names, combined tier by tier.

Both halves of the scheduler open one from the same policy. Order asks it over :class:`ClusterInfo`
(keys, shares, quotas), the fast path of Place over a shard's node columns (masks, scores), both
about gangs (:class:`Progress`): those questions are here. What a session over a
:class:`~shard_worker.session_model.world.World` asks, task by task, is in
:mod:`shard_worker.framework.answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.answers import Answers
from shard_worker.framework.asked_ahead import error_about
from shard_worker.framework.broken_gangs import BrokenGangs
from shard_worker.framework.eligibility import Eligibility
from shard_worker.framework.extension_points import (
    ALLOCATABLE,
    BATCH_NODE_ORDER,
    BEST_NODE,
    DEVICE_CHOICE,
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
    OVERUSED,
    PRE_PREDICATE,
    PREDICATE,
    QUEUE_ORDER,
    TASK_ORDER,
    Point,
)
from shard_worker.framework.operation import Operation
from shard_worker.framework.plugin_errors import PluginError
from shard_worker.framework.queue_choice import QueueChoice
from shard_worker.framework.rules import ABSTAIN, Mask, NodeColumns, Rows
from shard_worker.framework.sort_keys import Key, QueuePlace, queue_place, sort_key
from shard_worker.session_model.demands import Served
from shard_worker.session_model.queue_limits import QueueRefusal
from shard_worker.session_model.queue_totals import charge_total
from shard_worker.session_model.workload import ClusterInfo, JobInfo, Progress, QueueInfo
from shared.messages.reason import Reason
from shared.messages.skips import written
from shared.model.model import Pairs, Requests, Role, TaskClass
from shared.policy.model import Policy

if TYPE_CHECKING:
    from shard_worker.session_model.job import SessionJob, TaskInfo
    from shard_worker.session_model.world import World


Shares = Callable[[QueueInfo, ClusterInfo], Mapping[int, float]]
"""(queue, cluster) -> the queue's deserved amounts."""

Rooms = Callable[[QueueInfo, ClusterInfo], Mapping[int, float] | None]
"""(queue, cluster) -> what the queue may still take: slot -> amount, a missing slot has no limit;
None: nothing at all. Never less than Allocatable admits."""

Lacks = Callable[[QueueInfo, Requests, ClusterInfo], QueueRefusal | None]
"""(queue, request, cluster) -> why the queue does not admit the request; None: it does."""

Points = tuple[Point[Any, Any], ...]
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BLOCK = 1 << 13
"""Rows scored at a time: the intermediate arrays stay in the processor's cache."""

FAST_FORMS: Points = (TASK_ORDER, JOB_READY, JOB_PIPELINED)
"""Points that turns without a session use in a form that a rule may lack."""
NO_FAST_FORM: Points = (NODE_MAP, BEST_NODE)
"""Points that turns without a session never use."""
BY_CLASS: tuple[Point[Callable[[TaskClass], bool], Any], ...] = (
    PRE_PREDICATE,
    LIVE_PREDICATE,
    BATCH_NODE_ORDER,
    DEVICE_CHOICE,
)
"""Points that turns without a session never use, but which do not concern most classes."""


class Plugin(Protocol):
    """A plugin registers functions at extension points."""

    @property
    def name(self) -> str: ...

    def on_session_open(self, ssn: Session) -> None:
        """Register. Called once for each session, before anything is asked."""
        ...


class Session(Answers):
    """The combined rules of one policy. Built by
    :func:`shard_worker.dialects.open_session.open_session`."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.eligibility = Eligibility()
        self.deserved: Shares = lambda *_: {}
        """Deserved amounts of a queue by slot; empty where it has no jobs, or no plugin deals
        shares."""
        self.most: Shares = lambda *_: {}
        """Present maximum of a queue by slot; empty as above."""
        self.queue_choice: QueueChoice[Any] | None = None
        """Chooses among sibling queues with the next job of each; None: by QueueOrder alone."""
        self.group_key: Callable[[JobInfo, int], Key] | None = None
        """Which group of a job goes first, by (job, index of the group); None: its tasks go by
        TaskOrder alone."""
        self.protected_seconds: Callable[[ClusterInfo], float] = lambda _: 0.0
        """How long after its start a job may be protected from eviction at most."""
        self.broken_gang: BrokenGangs | None = None
        """Which gangs are below their minimum, and for how long they may be; None: nobody is
        evicted for that."""
        self.depths: Mapping[str, int] = {}
        """Action -> how many jobs of each queue it tries, the first in order; absent: all."""
        self.evicts_for: Callable[[str, JobInfo, ClusterInfo], bool] = lambda *_: True
        """(action, job, cluster) -> whether it is one of those jobs, if the action evicts."""
        self.evicts_from: Callable[[JobInfo, ClusterInfo], float] = lambda *_: 0.0
        """(job, cluster) -> from when it may have others evicted, seconds since 1970."""

        self.memory: dict[str, float] = {}
        """Memory of rules from one session to the next, by their own keys, where the opener of the
        sessions passes it on."""
        self.seed: int | None = None
        """Breaks ties between equal nodes over a world, so that shards prefer different ones; None:
        always the first."""
        self.reads_residents = False
        """Whether an action or a plugin of the policy looks at what runs on nodes: workers then
        follow every task of the cluster."""
        self._lacks: list[Lacks] = []
        self._limits: list[Lacks] = []
        self._limiting: set[str] = set()
        """The plugins whose Allocatable is a limit, not a share."""
        self._rooms: list[Rooms] = []
        self._limit_rooms: list[Rooms] = []
        self._begin()

    def _begin(self) -> None:
        """Forget everything that was done over the world of before."""
        self.committed: list[Operation] = []
        """Operations of committed statements over the world, in order; the session's caller takes
        them."""
        self.on_commit: Callable[[Sequence[Operation]], None] = lambda _: None
        """Called with the operations of each committed statement."""
        self.skipped: dict[int, tuple[Reason, str]] = {}
        """jid -> (reason, detail) of jobs that an action skipped; the last one recorded."""
        self.spared: dict[int, dict[str, int]] = {}
        """jid -> why no task was evicted for the job, if the session tried: reason -> number of
        tasks."""
        self.lends = False
        """Whether the session's caller checks the queues' shares itself, and lets queues exceed
        them: then the session checks only hard limits."""
        self.ungated: dict[str, TaskInfo] = {}
        """By key, tasks whose queue has room for them, and whose own gate may go."""
        self.decided_by, self.left_to_allocate, self.past_allocate = (), None, False

    def enter(self, world: World) -> None:
        """Use this world from now on, as a session that was opened just now."""
        self._begin()
        super().enter(world)

    def ungate(self, task: TaskInfo) -> None:
        """Remove the task's own scheduling gate; it may be placed once that has happened. Its queue
        reserves room for it from now on."""
        if task.key not in self.ungated and task.job.queue is not None:
            charge_total(task.job.queue, "reserved", task.charged, +1)
        self.ungated[task.key] = task

    def skip(self, job: SessionJob, word: Reason, detail: str = "") -> None:
        """Note that an action skips a job; ``word`` is one of the pending reasons."""
        self.skipped[job.job.jid] = (word, detail)

    def commit(self, operations: Sequence[Operation]) -> None:
        """A statement over the world is kept for good."""
        self.committed += operations
        self.on_commit(operations)

    def report_limits(
        self, lacking: Lacks, *, room: Rooms | None = None, hard: bool = False
    ) -> None:
        """Register why queues do not admit requests, for explanations. ``hard``: a limit, not a
        share that a queue may exceed while no other queue wants the idle amounts. ``room``: the
        same as amounts, so that hopeless requests among thousands need not be asked one by one;
        without it they are."""
        self._lacks.append(lacking)
        if not self.listens(ALLOCATABLE):
            return
        if hard:
            self._limits.append(lacking)
            self._limiting.add(self.speaker)
        if room is not None:
            self._rooms.append(room)
            if hard:
                self._limit_rooms.append(room)

    def room(
        self, queue: QueueInfo, cluster: ClusterInfo, *, borrowing: bool = False
    ) -> dict[int, float] | None:
        """The most that a queue may still take, by the rules that return amounts; a missing slot
        has no limit, None: nothing. Allocatable refuses anything beyond; with ``borrowing``,
        :meth:`may_borrow` does."""
        least: dict[int, float] = {}
        for room in self._limit_rooms if borrowing else self._rooms:
            amounts = room(queue, cluster)
            if amounts is None:
                return None
            for slot, amount in amounts.items():
                headroom = max(amount, 0)  # who asks for nothing of it is not judged by it
                least[slot] = min(headroom, least.get(slot, headroom))
        return least

    def may_borrow(self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo) -> bool:
        """Whether a queue that Allocatable refuses may take a request that no other queue can use:
        only if its share is exceeded, and not a limit."""
        return all(lacks(queue, requests, cluster) is None for lacks in self._limits)

    def queue_overused(self, queue: QueueInfo) -> bool:
        return not self.lends and super().queue_overused(queue)

    def task_allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        return self.admits(queue, task, by=self._limiting if self.lends else None)

    def lacking(
        self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo
    ) -> QueueRefusal | None:
        """Why a queue does not admit a request now, by the first plugin that refuses it."""
        answers = (lacks(queue, requests, cluster) for lacks in self._lacks)
        return next((answer for answer in answers if answer is not None), None)

    def report_shares(self, deserved: Shares, most: Shares | None = None) -> None:
        """Register the deserved amounts of queues, and the most they may have if that is more; for
        explanations, no decision uses it."""
        self.deserved = deserved
        self.most = most or deserved

    def serve(self, *demands: Served, at: Point[Any, Any] | None = None) -> None:
        """Register that the plugin serves these demands of jobs by its rules ``at`` this point."""
        if at is None or self.listens(at):
            self.eligibility.served.update(demands)

    @cached_property
    def keeps_gangs(self) -> bool:
        """Whether the policy keeps gangs whole (gang, at JobReady): the ledger holds it to that."""
        return any(rule.plugin == "gang" for rule in self.rules(JOB_READY))

    @property
    def slow(self) -> tuple[str, ...]:
        """``plugin: point`` of the rules without the form for turns without a session: every job
        needs one."""
        return tuple(
            f"{rule.plugin}: {point.name}"
            for point in (*FAST_FORMS, *NO_FAST_FORM)
            for rule in self.rules(point)
            if rule.fn is None or point in NO_FAST_FORM
        )

    def fast(self, cls: TaskClass, marks: Pairs = ()) -> bool:
        """Whether tasks of this class can be placed without a session, on the same nodes.

        ``marks``: annotations of the task and its job.
        """
        if any(key in self.reads for key, _ in marks):
            return False
        for point in BY_CLASS:
            if any(rule.fn(cls) for rule in self.rules(point)):
                return False
        return not self.slow

    def has(self, point: Point[Any, Any]) -> bool:
        """Whether any plugin registered a rule at this point."""
        return bool(self.rules(point))

    def has_rule_of(self, plugin: str) -> bool:
        """Whether the plugin registered any rule."""
        return any(rule.plugin == plugin for rules in self._rules.values() for rule in rules)

    # --- order half ---------------------------------------------------------------------------

    def job_key(self, info: JobInfo, cluster: ClusterInfo) -> Key:
        """The JobOrder key. The caller adds Volcano's last tie-break: creation, then uid (here
        jid)."""
        return sort_key(self.rules(JOB_ORDER), info, cluster)

    @cached_property
    def sorts_jobs(self) -> bool:
        """Whether all rules of JobOrder are keys. A key is constant while a job waits; comparisons
        may change."""
        return all(hook.fn is not None for hook in self.rules(JOB_ORDER))

    @cached_property
    def sorts_queues(self) -> bool:
        """Whether a queue's place changes only with what it, and those of its path, have: all rules
        of QueueOrder are keys or constant, and at most one is a path."""
        compares = [rule for rule in self.rules(QUEUE_ORDER) if rule.fn is None]
        if any(rule.plugin not in self.queue_paths for rule in compares):
            return False
        return sum(self.queue_paths[rule.plugin] is not None for rule in compares) < 2

    def queue_key(self, queue: QueueInfo, cluster: ClusterInfo) -> Key:
        """The QueueOrder key. The caller adds the last tie-break."""
        return sort_key(self.rules(QUEUE_ORDER), queue, cluster)

    def queue_place(self, queue: QueueInfo, cluster: ClusterInfo) -> QueuePlace:
        """The same for very many queues, with the queue's name as the last tie-break."""
        paths = self.queue_paths if self.sorts_queues else {}
        place = queue_place(self.rules(QUEUE_ORDER), paths, queue, cluster)
        return QueuePlace(place.path, (*place.key, queue.queue.name))

    def task_key(self, role: Role) -> Key:
        """TaskOrder, of the roles of one job; members of a role go by their index."""
        return tuple(h.fn(role) for h in self.rules(TASK_ORDER) if h.fn is not None)

    def role_key(self, info: JobInfo, role: Role) -> Key:
        """The place of a role's tasks among those of their job: by group, where a rule orders
        groups, then by TaskOrder."""
        group = () if self.group_key is None else self.group_key(info, role.group)
        return (group, self.task_key(role))

    def overused(self, queue: QueueInfo, cluster: ClusterInfo) -> bool:
        """Overused: the queue has its share and gets no further turn."""
        return any(rule.fn(queue, cluster) for rule in self.rules(OVERUSED))

    def allocatable(self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo) -> bool:
        """Allocatable: the queue may take this request on top of what it has."""
        for rule in self.rules(ALLOCATABLE):
            if rule.fn is not None and not rule.fn(queue, requests, cluster):
                return False
        return True

    def job_valid(self, info: JobInfo, cluster: ClusterInfo) -> str | None:
        """JobValid: None, or why the job cannot be scheduled as it stands: it is not
        eligible, or a plugin from outside raises, here or at another point of the
        coordinator."""
        if (kept_out := self.eligibility.kept_out(info, cluster)) is not None:
            return written(*kept_out)
        if self.guarded and self.contain is not None:
            error = error_about(self, info, cluster)
            if error is not None:
                self.contain(error)
                return error.reason
        for hook in self.rules(JOB_VALID):
            reason: str | None = hook.fn(info, cluster)
            if reason is not None:
                return reason
        return None

    @contextmanager
    def watching(self) -> Iterator[list[PluginError]]:
        """Contain what rules raise inside the block, in this list alone."""
        errors: list[PluginError] = []
        contain, self.contain = self.contain, errors.append
        try:
            yield errors
        finally:
            self.contain = contain

    def job_enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> bool:
        """JobEnqueueable: the job's pods may be created."""
        return self._vote(JOB_ENQUEUEABLE, lambda rule: rule.fn(info, cluster))

    def job_enqueued(self, info: JobInfo, cluster: ClusterInfo) -> None:
        """JobEnqueued: notify every rule that the job was admitted."""
        for hook in self.rules(JOB_ENQUEUED):
            hook.fn(info, cluster)

    def rejecting(self, point: Point[Callable[[*Ts], int], Any], *args: *Ts) -> str:
        """The plugin whose vote at ``point`` is a rejection, "" where there is none."""
        for hook in self.rules(point):
            if hook.fn(*args) < 0:
                return hook.plugin
        return ""

    # --- both halves --------------------------------------------------------------------------

    def job_ready(self, progress: Progress) -> bool:
        """JobReady: the members that have a place may be committed. True where nobody objects."""
        for rule in self.rules(JOB_READY):
            if rule.fn is not None and not rule.fn(progress):
                return False
        return True

    def job_pipelined(self, progress: Progress) -> bool:
        """JobPipelined: with its nominations counted, the job keeps what it holds."""
        return self._vote(
            JOB_PIPELINED, lambda rule: ABSTAIN if rule.fn is None else rule.fn(progress)
        )

    def job_starving(self, info: JobInfo) -> bool:
        """JobStarving: the first tier with an opinion decides; without any, no job starves."""
        hooks = self.rules(JOB_STARVING)
        return bool(hooks) and all(h.fn(info) for h in hooks if h.tier == hooks[0].tier)

    # --- place half ---------------------------------------------------------------------------

    def predicates(self, cls: TaskClass, view: NodeColumns) -> list[tuple[str, Mask]]:
        """Predicate: (reason, mask) per static check, in the order in which they are charged.

        A mask covers all rows and is True where the node passes. The masks follow from class and
        node specs alone; a check that no node can fail is left out.
        """
        checks: list[tuple[str, Mask]] = []
        for hook in self.rules(PREDICATE):
            checks.extend(hook.fn(cls, view))
        return checks

    @property
    def scores_node_locally(self) -> bool:
        """True if a change of one row moves no other row's score (until a node's spec changes)."""
        return all(h.fn.node_local for h in self.rules(NODE_ORDER))

    def scores_by_look(self, cls: TaskClass, view: NodeColumns) -> bool:
        """Do nodes with the same looks and amounts score alike for this class?"""
        tests = (getattr(hook.fn, "by_look", None) for hook in self.rules(NODE_ORDER))
        return all(by_look is None or by_look(cls, view) for by_look in tests)

    def score(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        """NodeOrder: the sum of all scorers on ``rows`` as they stand in ``view`` now."""
        if not isinstance(rows, slice) and len(rows) == 1:
            return np.array([self.score_row(cls, view, int(rows[0]))])
        if not isinstance(rows, slice):
            total = np.zeros(len(rows))
            self._add_scores(cls, view, rows, total)
            return total
        start, stop, _ = slice(rows.start, rows.stop).indices(view.size)
        total = np.zeros(max(stop - start, 0))
        for low in range(start, stop, BLOCK):
            high = min(low + BLOCK, stop)
            self._add_scores(cls, view, slice(low, high), total[low - start : high - start])
        return total

    def _add_scores(
        self, cls: TaskClass, view: NodeColumns, rows: Rows, total: NDArray[np.float64]
    ) -> None:
        for hook in self.rules(NODE_ORDER):
            total += hook.fn.rows(cls, view, rows)

    def score_row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        """:meth:`score` of one row."""
        total = 0.0
        for hook in self.rules(NODE_ORDER):
            total += hook.fn.row(cls, view, row)
        return total
