"""A session: the rules of the plugins that a policy names, combined tier by tier.

Both halves of the scheduler open one from the same policy. Order asks it over :class:`ClusterInfo`
(keys, shares, quotas), the fast path of Place over a shard's node columns (masks, scores), both
about gangs (:class:`Progress`): those questions are here. What a session over a
:class:`~shard_worker.world.World` asks, task by task, is in :mod:`shard_worker.answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shard_worker.answers import Answers
from shard_worker.extension_points import EXTENSION_POINTS, Combine, ExtensionPoint, Half
from shard_worker.queue_limits import Lacking
from shard_worker.queue_totals import charge_total
from shard_worker.registration import Registered
from shard_worker.rules import (
    ABSTAIN,
    PERMIT,
    REJECT,
    Check,
    Coded,
    Mask,
    NodeColumns,
    Purpose,
    Rows,
    Scope,
    Scorer,
)
from shard_worker.workload import ClusterInfo, JobInfo, Progress, QueueInfo
from shard_worker.world_statement import Operation
from shared.model import Pairs, Requests, Role, TaskClass
from shared.policy import PluginOption, Policy

if TYPE_CHECKING:
    from shard_worker.session_job import SessionJob
    from shard_worker.tasks import TaskInfo

__all__ = [
    "ABSTAIN",
    "EXTENSION_POINTS",
    "PERMIT",
    "REJECT",
    "Check",
    "Coded",
    "Combine",
    "ExtensionPoint",
    "Half",
    "Key",
    "Mask",
    "NodeColumns",
    "Plugin",
    "Purpose",
    "Registered",
    "Rows",
    "Scope",
    "Scorer",
    "Session",
    "open_session",
]

Shares = Callable[[QueueInfo, ClusterInfo], Mapping[int, float]]
"""A plugin's answer to what a queue deserves."""

Lacks = Callable[[QueueInfo, Requests, ClusterInfo], Lacking | None]
"""A plugin's answer to why a queue may not take a request; None: it may."""

Key = tuple[Any, ...]
"""A sort key; the smaller key goes first."""
BLOCK = 1 << 13
"""Rows scored at a time: the intermediate arrays stay in the processor's cache."""

FAST_FORMS = ("TaskOrder", "JobReady", "JobPipelined")
"""Points that the fast path asks in a form that a rule may lack."""
NO_FAST_FORM = ("NodeMap", "BestNode")
"""Points that it does not ask at all."""
BY_CLASS = ("PrePredicate", "LivePredicate", "BatchNodeOrder")
"""Points that it does not ask, but which do not concern most classes."""


class Plugin(Protocol):
    """A plugin speaks at the extension points for which it registers a function."""

    @property
    def name(self) -> str: ...

    def on_session_open(self, ssn: Session) -> None:
        """Register. Called once for each session, before anything is asked."""
        ...


class Session(Answers):
    """The combined rules of one policy. Built by :func:`open_session`."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.deserved: Shares = _no_shares
        """What a queue deserves by slot; empty where it has no jobs, or no plugin deals shares."""
        self.most: Shares = _no_shares
        """What a queue may have at most by slot, as things stand; empty as above."""

        self.committed: list[Operation] = []
        """What statements over the world kept, in order; whoever runs the session takes it."""
        self.on_commit: Callable[[Sequence[Operation]], None] = _nobody
        """Told of each statement that is kept, one by one."""
        self.skipped: dict[int, tuple[str, str]] = {}
        """jid -> (reason word, detail) of jobs that an action passed over, the last one told."""
        self.memory: dict[str, float] = {}
        """What rules remember from one session to the next, by their own keys, where whoever opens
        the sessions hands it on."""
        self.spared: dict[int, dict[str, int]] = {}
        """jid -> why nobody was evicted for it, where the session tried: reason -> tasks."""

        self.seed: int | None = None
        """Decides between equal nodes over a world, so that shards prefer different ones; None:
        always the first."""
        self.lends = False
        """Whether whoever opened it has asked what queues may take, and lets them go beyond their
        share: then only limits are asked for."""
        self.ungated: list[TaskInfo] = []
        """Tasks whose queue has room for them, and whose own gate may go."""
        self._lacks: list[Lacks] = []
        self._limits: list[Lacks] = []

    def ungate(self, task: TaskInfo) -> None:
        """Let the task's own gate be taken away; it may be placed once that has come about. Its
        queue keeps room for it from now on."""
        self.ungated.append(task)
        if task.job.queue is not None:
            charge_total(task.job.queue, "reserved", task.requests, +1)

    def skip(self, job: SessionJob, word: str, detail: str = "") -> None:
        """An action passes over a job; ``word`` is one of the pending reasons."""
        self.skipped[job.job.jid] = (word, detail)

    def commit(self, operations: Sequence[Operation]) -> None:
        """A statement over the world is kept for good."""
        self.committed += operations
        self.on_commit(operations)

    def tell_limits(self, lacking: Lacks, *, hard: bool = False) -> None:
        """Tell why queues may not take requests, for people to read. ``hard``: it is no share that
        a queue may go beyond while nobody else wants what is idle, but a limit."""
        self._lacks.append(lacking)
        if hard and self.listens("Allocatable"):
            self._limits.append(lacking)

    def may_borrow(self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo) -> bool:
        """May a queue that Allocatable refuses take a request that nobody else can use? Not where
        a limit is in the way, and not a share."""
        return all(lacks(queue, requests, cluster) is None for lacks in self._limits)

    def queue_overused(self, queue: QueueInfo) -> bool:
        return not self.lends and super().queue_overused(queue)

    def task_allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        if self.lends:
            return self.may_borrow(queue, task.requests, self.world)
        return super().task_allocatable(queue, task)

    def lacking(self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo) -> Lacking | None:
        """Why a queue may not take a request now, as the first plugin tells that refuses it."""
        answers = (lacks(queue, requests, cluster) for lacks in self._lacks)
        return next((answer for answer in answers if answer is not None), None)

    def tell_shares(self, deserved: Shares, most: Shares | None = None) -> None:
        """Tell what queues deserve, and the most they may have where that is more; for people to
        read, no decision asks for it."""
        self.deserved = deserved
        self.most = most or deserved

    @property
    def slow(self) -> tuple[str, ...]:
        """``plugin: point`` of the rules that the fast path cannot ask: every job needs a world."""
        lacking = [h for p in FAST_FORMS for h in self.hooks[p] if h.fn is None]
        return tuple(
            f"{h.plugin}: {point}"
            for point in (*FAST_FORMS, *NO_FAST_FORM)
            for h in self.hooks[point]
            if h in lacking or point in NO_FAST_FORM
        )

    def fast(self, cls: TaskClass, marks: Pairs = ()) -> bool:
        """May tasks of this class be placed by the fast path, and get the same nodes?

        ``marks``: annotations of the task and its job."""
        if any(key in self.reads for key, _ in marks):
            return False
        for point in BY_CLASS:
            if any(hook.fn is None or hook.fn(cls) for hook in self.hooks[point]):
                return False
        return not self.slow

    def has(self, point: str) -> bool:
        """Does any plugin speak at this point?"""
        return bool(self.hooks[point])

    # --- order half ---------------------------------------------------------------------------

    def job_key(self, info: JobInfo, cluster: ClusterInfo) -> Key:
        """JobOrder. The caller adds Volcano's last tie-break: creation, then uid (here jid)."""
        return _keys(self.hooks["JobOrder"], info, cluster)

    def queue_key(self, queue: QueueInfo, cluster: ClusterInfo) -> Key:
        """QueueOrder. The caller adds the last tie-break."""
        return _keys(self.hooks["QueueOrder"], queue, cluster)

    def task_key(self, role: Role) -> Key:
        """TaskOrder, of the roles of one job; members of a role go by their index."""
        return tuple(h.fn(role) for h in self.hooks["TaskOrder"] if h.fn is not None)

    def overused(self, queue: QueueInfo, cluster: ClusterInfo) -> bool:
        """Overused: the queue has its share and gets no further turn."""
        return any(h.fn(queue, cluster) for h in self.hooks["Overused"])

    def allocatable(self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo) -> bool:
        """Allocatable: the queue may take this request on top of what it has."""
        hooks = self.hooks["Allocatable"]
        return all(h.fn(queue, requests, cluster) for h in hooks if h.fn is not None)

    def job_valid(self, info: JobInfo, cluster: ClusterInfo) -> str | None:
        """JobValid: None, or why the job cannot be scheduled as it stands."""
        for hook in self.hooks["JobValid"]:
            reason: str | None = hook.fn(info, cluster)
            if reason is not None:
                return reason
        return None

    def job_enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> bool:
        """JobEnqueueable: the job's pods may be created."""
        return self._vote("JobEnqueueable", info, cluster)

    def job_enqueued(self, info: JobInfo, cluster: ClusterInfo) -> None:
        """JobEnqueued: every rule is told that the job was let in."""
        for hook in self.hooks["JobEnqueued"]:
            hook.fn(info, cluster)

    def rejecting(self, point: str, *args: object) -> str:
        """The plugin whose vote at ``point`` is a rejection, "" where there is none."""
        for hook in self.hooks[point]:
            if hook.fn is not None and hook.fn(*args) < 0:
                return hook.plugin
        return ""

    # --- both halves --------------------------------------------------------------------------

    def job_ready(self, progress: Progress) -> bool:
        """JobReady: the members that have a place may be committed. True where nobody objects."""
        return all(h.fn(progress) for h in self.hooks["JobReady"] if h.fn is not None)

    def job_pipelined(self, progress: Progress) -> bool:
        """JobPipelined: with its nominations counted, the job keeps what it holds."""
        return self._vote("JobPipelined", progress)

    def job_starving(self, info: JobInfo) -> bool:
        """JobStarving: the first tier with an opinion decides; without any, no job starves."""
        hooks = self.hooks["JobStarving"]
        return bool(hooks) and all(h.fn(info) for h in hooks if h.tier == hooks[0].tier)

    def _vote(self, point: str, *args: object) -> bool:
        """A rejection is final, the first tier with a permission permits, silence permits.

        A rejection in a tier counts before a permission of the same tier, whatever their order.
        """
        hooks = [hook for hook in self.hooks[point] if hook.fn is not None]
        permitted_in: int | None = None
        for hook in hooks:
            if permitted_in is not None and hook.tier != permitted_in:
                return True
            vote = hook.fn(*args)
            if vote < 0:
                return False
            if vote > 0:
                permitted_in = hook.tier
        return True

    # --- place half ---------------------------------------------------------------------------

    def predicates(self, cls: TaskClass, view: NodeColumns) -> list[tuple[str, Mask]]:
        """Predicate: (reason, mask) per static check, in the order in which they are charged.

        A mask covers all rows and is True where the node passes. The masks follow from class and
        node specs alone; a check that no node can fail is left out.
        """
        checks: list[tuple[str, Mask]] = []
        for hook in self.hooks["Predicate"]:
            checks.extend(hook.fn(cls, view))
        return checks

    @property
    def scores_node_locally(self) -> bool:
        """True if a change of one row moves no other row's score (until a node's spec changes)."""
        return all(h.fn.node_local for h in self.hooks["NodeOrder"])

    def scores_by_look(self, cls: TaskClass, view: NodeColumns) -> bool:
        """Do nodes with the same looks and amounts score alike for this class?"""
        asked = (getattr(hook.fn, "by_look", None) for hook in self.hooks["NodeOrder"])
        return all(by_look is None or by_look(cls, view) for by_look in asked)

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
        for hook in self.hooks["NodeOrder"]:
            total += hook.fn.rows(cls, view, rows)

    def score_row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        """:meth:`score` of one row."""
        total = 0.0
        for hook in self.hooks["NodeOrder"]:
            total += hook.fn.row(cls, view, row)
        return total


class _Compared:
    """Stands in a sort key for a rule that can only compare."""

    __slots__ = ("_cluster", "_compare", "_of")

    def __init__(self, compare: Callable[[Any, Any, Any], float], of: Any, cluster: Any) -> None:
        self._compare = compare
        self._of = of
        self._cluster = cluster

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Compared) and not self._compare(
            self._of, other._of, self._cluster
        )

    def __lt__(self, other: _Compared) -> bool:
        return self._compare(self._of, other._of, self._cluster) < 0

    __hash__ = None  # type: ignore[assignment]


def _keys(hooks: Sequence[Registered], of: Any, cluster: ClusterInfo) -> Key:
    return tuple(
        [
            _Compared(hook.scalar, of, cluster) if hook.fn is None else hook.fn(of, cluster)
            for hook in hooks
        ]
    )


def _nobody(operations: Sequence[Operation]) -> None:
    del operations


def _no_shares(queue: QueueInfo, cluster: ClusterInfo) -> dict[int, float]:
    del queue, cluster
    return {}


def open_session(
    policy: Policy, *, makers: Mapping[str, Callable[[PluginOption], Plugin]] | None = None
) -> Session:
    """Make the plugins of a policy and let each register, in the order of the tiers.

    ``makers``: plugins by name that are known to the caller alone.
    Raises PolicyError where an argument of a plugin is not what the plugin takes.
    """
    from shard_worker.plugins.registry import build_plugin  # plugins import this module

    own = makers or {}
    session = Session(policy)
    for tier, options in enumerate(policy.tiers):
        for option in options:
            make = own.get(option.name, build_plugin)
            with session.speaking(tier, option):
                make(option).on_session_open(session)
    return session
