"""Context of the turns that need a session: the job, all queues' totals, and the jobs that matter.

What runs where is in the worker's table of residents, and is no part of it. Included are the jobs
that the present version of a key goes with: those that share a term, a volume, a claim or a budget
with the job or, for preempt and reclaim, among themselves. They are whole, because gang rules count
all tasks of a job. Their number is bounded: the least important jobs are the first to be evicted
and come first; those that were left out are named, and not evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Protocol

from coordinator.jobs.state import JobState
from coordinator.order.cross_node import OF_PLACING, Spanning
from shard_worker.framework.session import Session
from shard_worker.session_model.workload import Amounts, ClusterInfo, QueueInfo, add
from shared.messages.messages import NOBODY, TaskState
from shared.messages.turn_context import (
    TOTALS,
    TURN_CONTEXT,
    VICTIMS,
    JobContext,
    QueueContext,
    TurnContext,
)
from shared.model.model import Job, Queue, TaskClass
from shared.policy.evicting_actions import ANY_QUEUE, EVICTING, SAME_QUEUE
from shared.records.specs import encode_queue
from shared.records.specs_jobs import encode_job

TASKS = 20_000
"""Limit on tasks of other jobs in one turn context; a worker takes some tens of milliseconds to
open it."""

JOB_WEIGHT = 4
"""Cost of a job in tasks, beside its own tasks."""

RANK_SECONDS = 0.1
"""Minimum interval between victim rankings; grows with the number of jobs so that ranking stays
below 10% of the time."""

RANK_SECONDS_A_JOB = 1e-5

Usage = dict[str, dict[str, float]]
"""Node name -> ``cpu`` and ``memory``, percent."""

Waits = Callable[[list[str]], bool]

_NO_SHARES: Mapping[str, tuple[int, int, int]] = {}
_NO_STARTS: Mapping[int, float] = {}
_EVICTABLE = (TaskState.BOUND, TaskState.RUNNING)


class Totals(Protocol):
    """The totals that turn contexts are built from: the coordinator's, or a plan's copy of them."""

    @property
    def cluster(self) -> ClusterInfo: ...

    @property
    def classes(self) -> Mapping[int, TaskClass]: ...


class TurnContexts:
    """Builds the turn contexts from the coordinator's books."""

    def __init__(
        self, accounts: Totals, job_of: Callable[[int], JobState | None], spanning: Spanning
    ) -> None:
        """``job_of`` returns a job by jid, also a deleted one that is not purged yet."""
        self._accounts = accounts
        self._known = job_of
        self._spanning = spanning
        self.usage: Callable[[], Usage] = dict
        """Returns the measured usage of the nodes; empty unless the policy needs it."""
        self.usage_missing: Callable[[], str] = str
        """Returns what that is decided without, if its source does not answer; else ""."""
        self.limit = TASKS
        self.cut = 0
        """Number of turn contexts that had to leave jobs out, since the start."""
        self.began: float | None = None
        """Since when this coordinator leads: it saw no task start before."""
        self._at = float("inf")
        self._ranks: dict[int, list[int]] = {}
        """Queue -> its jobs as :meth:`_ranked` orders them, computed at :attr:`_at`."""
        self._queues: dict[int, tuple[Queue, bytes]] = {}
        self._specs: dict[int, tuple[Job, bytes]] = {}

    def over(self, totals: Totals) -> TurnContexts:
        """The same over other totals, for a question about what is not so."""
        other = TurnContexts(totals, self._known, self._spanning)
        other.usage, other.usage_missing = self.usage, self.usage_missing
        other.limit, other.began = self.limit, self.began
        return other

    def led(self, now: float) -> None:
        """Note that this coordinator leads."""
        if self.began is None:
            self.began = now

    def of(
        self, state: JobState, action: str, session: Session, *, waits: Waits = lambda _: False
    ) -> tuple[bytes, list[str]]:
        """The encoded context for a turn of this job, and the keys that the turn touches. Empty
        where ``waits`` returns true for the keys: another open turn touches some of them."""
        jid, spanning = state.job.jid, self._spanning
        own_keys = spanning.keys(jid)
        close = spanning.members(k for k in own_keys if k.startswith(OF_PLACING)) - {jid}
        victims = list(self._victims(state, action, session)) if action in EVICTING else []
        keys = {key for victim in victims for key in spanning.keys(victim)} | {*own_keys}
        shares = self._shares(session) if action in EVICTING else {}
        keys |= self.searched(state, action, session) if shares else set()
        order = dict.fromkeys([*sorted(close), *victims, *sorted(spanning.members(keys))])
        order.pop(jid, None)
        others = [
            member_state for member in order if (member_state := self._known(member)) is not None
        ]
        touched = sorted(keys)
        # Before anything is encoded: a turn that has to wait must cost next to nothing.
        if touched and waits(touched):
            return b"", touched
        counted = spanning.keyed() if action in EVICTING else set()
        context = self._write(
            state,
            others,
            touched,
            whole=len(close),
            counted=counted,
            shares=shares,
            starts=self._starts(session) if shares else {},
        )
        return context, touched

    def searched(self, state: JobState, action: str, session: Session) -> set[str]:
        """The keys of the trees of queues whose totals the search of an action is judged by; none
        under a policy that does not divide the cluster among queues.

        Of two searches at the same moment by the same totals each would take what the rules let
        only one of them have. One within a job's own queue changes that queue and those above it,
        and asks for no others; any other search compares the shares of all.
        """
        if session.queue_choice is None:
            return set()
        queues = self._accounts.cluster.queues
        if action in SAME_QUEUE and (own := queues.get(state.info.qid)) is not None:
            return {tree_key(own)}
        return {tree_key(info) for info in queues.values()}

    def _starts(self, session: Session) -> dict[int, float]:
        """When jobs started that the policy may still protect."""
        cluster = self._accounts.cluster
        since = cluster.now - session.protected_seconds(cluster)
        if since >= cluster.now:
            return {}
        states = (self._known(jid) for jid, info in cluster.jobs.items() if info.using)
        starts = {state.job.jid: self._started(state) for state in states if state is not None}
        return {jid: at for jid, at in starts.items() if at > since}

    def _started(self, state: JobState) -> float:
        """When the job's first task that runs began to. Of those that ran before this coordinator
        led, what their PodGroup says, else from then on: rather too late than too early."""
        cluster = self._accounts.cluster
        running = state.states.count(TaskState.RUNNING)
        if not running:
            return cluster.now  # it is about to
        start_times = [
            at for tix, at in state.started.items() if state.states[tix] == TaskState.RUNNING
        ]
        if len(start_times) == running:
            return min(start_times)
        group = cluster.objects.kai_groups.get(state.job.kai_group)
        if group is not None and group.last_start is not None:
            return group.last_start
        return cluster.now if self.began is None else self.began

    def _shares(self, session: Session) -> Mapping[str, tuple[int, int, int]]:
        """Shares of queues, under a policy that divides the cluster among them."""
        choice = session.queue_choice
        return {} if choice is None else choice.shares(self._accounts.cluster)

    def of_running(
        self, states: Iterable[JobState], rows: frozenset[int]
    ) -> tuple[bytes, list[str]]:
        """The encoded context of the jobs with evictable tasks on these nodes, and the keys they
        are members of."""
        jobs = [
            state
            for state in states
            if state.info.allocated and not rows.isdisjoint(_evictable_rows(state))
        ]
        keys = sorted({key for state in jobs for key in self._spanning.keys(state.job.jid)})
        return self._write(None, jobs, keys), keys

    # --- who ----------------------------------------------------------------------------------

    def _victims(self, state: JobState, action: str, session: Session) -> Iterator[int]:
        """Jobs that the action may evict and that have keys, the least important first. The others
        are in the worker's table."""
        if not self._spanning.any:
            return
        cluster, qid = self._accounts.cluster, state.info.qid
        if action in SAME_QUEUE:
            queues = [qid]
        elif action in ANY_QUEUE:
            queues = list(cluster.queues)
        else:
            queues = [
                other_qid
                for other_qid, info in cluster.queues.items()
                if other_qid != qid and info.queue.reclaimable and info.allocated
            ]
            queues.sort(key=lambda q: session.queue_key(cluster.queues[q], cluster), reverse=True)
        for qid in queues:
            for jid in self._ranked(qid):
                if jid != state.job.jid and self._spanning.keys(jid):
                    yield jid

    def _ranked(self, qid: int) -> list[int]:
        """Jobs of a queue that hold nodes: lowest priority first, then the youngest."""
        cluster = self._accounts.cluster
        every = max(RANK_SECONDS, RANK_SECONDS_A_JOB * len(cluster.jobs))
        # `_at <=`: a clock that was set back must not keep an old ranking until it has caught up.
        if not self._at <= cluster.now < self._at + every:
            self._at = cluster.now
            ranked: dict[int, list[tuple[int, float, int]]] = {}
            for jid, info in cluster.jobs.items():
                if info.using:
                    rank = (info.job.priority, -info.job.created, -jid)
                    ranked.setdefault(info.qid, []).append(rank)
            self._ranks = {
                q: [-rank_entry[2] for rank_entry in sorted(entries)]
                for q, entries in ranked.items()
            }
        return self._ranks.get(qid, [])

    # --- what ---------------------------------------------------------------------------------

    def _write(
        self,
        own_job: JobState | None,
        others: Iterable[JobState],
        keys: list[str],
        *,
        whole: int = 0,
        counted: Collection[int] = (),
        shares: Mapping[str, tuple[int, int, int]] = _NO_SHARES,
        starts: Mapping[int, float] = _NO_STARTS,
    ) -> bytes:
        """``whole``: this many of ``others`` are never left out, because the job's own rules need
        them. ``counted``: jobs with keys; a worker may know that one of them runs before it is
        among the victims here."""
        jobs, remaining = [] if own_job is None else [self._job(own_job)], self.limit
        cut, included = False, {NOBODY if own_job is None else own_job.job.jid}
        for number, state in enumerate(others):
            remaining -= len(state.states) + JOB_WEIGHT
            if remaining >= 0 or number < whole:
                jobs.append(self._job(state))
                included.add(state.job.jid)
            else:
                cut = True
        self.cut += cut
        cluster = self._accounts.cluster
        versions = self._spanning.versions
        return TURN_CONTEXT.encode(
            TurnContext(
                total=_some(cluster.total),
                free=_some(cluster.free),
                promised=_some(cluster.promised),
                queues=[self._queue(info, own_job) for info in cluster.queues.values()],
                jobs=jobs,
                versions={key: versions.get(key, 0) for key in keys},
                spared=sorted(set(counted) - included),
                starts=dict(starts),
                usage=self._used(),
                shares={name: (*share,) for name, share in shares.items()},
            )
        )

    def _used(self) -> dict[str, tuple[float, float]]:
        usage = self.usage()
        return {node: (u.get("cpu", -1.0), u.get("memory", -1.0)) for node, u in usage.items()}

    def _queue(self, info: QueueInfo, own_job: JobState | None) -> QueueContext:
        """The queue's totals without the job's own charge for an open turn or for nominations: its
        session charges it again."""
        cached = self._queues.get(info.queue.qid)
        if cached is None or cached[0] is not info.queue:
            cached = self._queues[info.queue.qid] = (info.queue, encode_queue(info.queue))
        # Most of a thousand queues have nothing in most totals.
        totals = [_some(total) if (total := getattr(info, name)) else {} for name in TOTALS]
        if own_job is not None and own_job.charge and own_job.info.qid == info.queue.qid:
            for cid, count in own_job.charge:
                add(totals[0], self._accounts.classes[cid].charged, -count)
            add(totals[TOTALS.index("claimed")], own_job.charged_beside.items(), -1)
        return QueueContext(cached[1], info.jobs, totals)

    def _job(self, state: JobState) -> JobContext:
        jid = state.job.jid
        cached = self._specs.get(jid)
        if cached is None or cached[0] is not state.job:
            if len(self._specs) > 4 * self.limit:
                self._specs.clear()
            cached = self._specs[jid] = (state.job, encode_job(state.job))
        return JobContext(
            spec=cached[1],
            states=bytes(state.states),
            rows=state.rows.tobytes(),
            keys=self._spanning.keys(jid),
            phase=state.info.phase,
            nominated=state.nominated,
            started=state.started,
            devices=state.devices,
        )

    def forget(self, jid: int) -> None:
        self._specs.pop(jid, None)


def tree_key(info: QueueInfo) -> str:
    """The key of the tree that a queue is in, for the turns that are judged by it."""
    root = info.above[-1] if info.above else info
    return f"{VICTIMS}{root.queue.qid}"


def _evictable_rows(state: JobState) -> Iterator[int]:
    for tix, now in enumerate(state.states):
        if now in _EVICTABLE:
            yield state.rows[tix]


def _some(amounts: Amounts) -> Amounts:
    """The amounts that are not 0."""
    return {slot: amount for slot, amount in amounts.items() if amount}
