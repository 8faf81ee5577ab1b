"""Turns that need a session: which job gets one, and its state while the turn is open.

Beside allocate a policy may have *enqueue* (jobs wait for admission), *backfill* (best-effort
tasks, after allocate) and the evicting actions for starving jobs. Jobs with rules that need it are
allocated by a session, too.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from coordinator.jobs.capability import could_ever
from coordinator.jobs.fresh_jobs import is_plain, runs_of
from coordinator.jobs.gate_removals import fillable
from coordinator.jobs.late_groups import LateGroups
from coordinator.jobs.pending_order import LineBlock
from coordinator.jobs.pending_reasons import INVALID, KEPT_OUT
from coordinator.jobs.repairs import Repairs
from coordinator.jobs.state import NO_TASKS, JobState, SchedulingStatus, recount
from coordinator.jobs.table import BACKFILL
from coordinator.order.aging import RESERVE, Aging
from coordinator.order.contenders import Contenders
from coordinator.order.cross_node import Spanning
from coordinator.order.enqueue import EnqueueGate
from coordinator.order.eviction_depth import EvictionDepth
from coordinator.order.stale_gangs import STALE, StaleGangs
from coordinator.order.starvation import Contention
from coordinator.order.turn_contexts import TurnContexts
from shard_worker.framework.session import Session
from shard_worker.session_model.demands import names_tier
from shard_worker.session_model.other_schedulers import other_scheduler
from shard_worker.session_model.queue_totals import QUEUE_GATE, opens_gate, waits_for_entry, whole
from shared.messages.messages import NOBODY, StatusItem, TaskState
from shared.messages.reason import HoldReason, Reason, WaitReason
from shared.model.model import Job, Pairs, Role


class Sessions(Repairs):
    """The job book, extended by turns that need a session."""

    def __init__(self, session: Session, *, count_first: bool) -> None:
        super().__init__(session, count_first=count_first)
        self.spanning = Spanning(self._is_out)
        self.contexts = TurnContexts(self.accounts, self.known, self.spanning)
        self.contention = Contention(session.policy)
        self.admission = EnqueueGate(session)
        self.aging = Aging()
        self.stale_gangs = StaleGangs(session)
        self._unfilled: dict[int, int] = {}
        """Jobs with pending tasks that ask for nothing -> the count of capacity changes when their
        backfill was in vain, -1 where it was not."""
        self._others_out: dict[int, str] = {}
        """Jobs of which a turn is out that neither allocates nor evicts -> its action."""
        self._put_off: dict[int, LineBlock | None] = {}
        """Jobs that wait for an open turn of others before a turn that does not allocate -> what
        their line waited for."""
        self._filled_at = -1
        """The count of capacity changes when nobody was left to backfill."""
        self.late_groups = LateGroups()
        self.theirs: set[int] = set()
        """Pods that other schedulers place."""
        self.lines.starves = self._starves
        self._tiered: set[int] = set()
        """Jobs that must stay within a tier that they name."""
        self._rules()

    def _is_out(self, jid: int) -> bool:
        state = self.known(jid)
        return state is not None and state.status is SchedulingStatus.OPEN

    def _rules(self) -> None:
        """Derive the flags that depend on the policy in force."""
        self._all_slow = bool(self.session.slow)
        self._fast: dict[tuple[int, Pairs], bool] = {}
        self.allocates = "allocate" in self.session.policy.actions
        self.further = self.fills or bool(self.contention.actions) or self.stale_gangs.on
        """Whether the policy has backfill or evicting actions."""
        self._filled_at = -1

    # --- another policy -----------------------------------------------------------------------

    def adopt(self, session: Session) -> None:
        """Switch to the session of another policy; waiting jobs are sorted anew by its keys.

        Open turns and nominations stay valid: their outcomes are taken as they return. Nothing
        stays blocked, because what was infeasible may fit by the new rules.
        """
        self.contention.adopt(session.policy)
        self.admission.adopt(session)
        self.stale_gangs.adopt(session)
        self.session = session
        self.lines.sortable = session.sorts_jobs
        for queue in self.lines.queues.values():
            self.lines.clear(queue)
        for state in list(self.jobs.values()):
            self._judge_anew(state)
        self._rules()
        for state in self.admission.take():
            if state.status is SchedulingStatus.WAITING:
                self._enqueue(state)
        for state in list(self.jobs.values()):
            if state.status is SchedulingStatus.WAITING and any(state.info.best_effort):
                self._enqueue(state, state.reason)

    def _judge_anew(self, state: JobState) -> None:
        state.need = None  # the order of its roles may be another
        state.tried = NO_TASKS
        state.slow = None
        waits = state.status is SchedulingStatus.WAITING and state.reason in INVALID
        waits = self._regroup(state) or waits
        ready = state.status is SchedulingStatus.READY
        if ready and state.line is None:  # urgent, and stays where it is, unless invalid now
            ready = self.session.job_valid(state.info, self.accounts.cluster) is not None
        if ready or waits:
            self._enqueue(state, state.reason if ready else Reason.PENDING_EVALUATION)

    def _regroup(self, state: JobState) -> bool:
        """Move the job's best-effort tasks between allocate and backfill, after the policy got or
        lost backfill. True where the job waits and other tasks of it can be placed now."""
        if state.backfilled is self.fills:
            return False
        state.backfilled = self.fills
        if not any(self.accounts.classes[role.cid].best_effort for role in state.job.roles):
            return False
        recount(state, self.accounts.classes)
        return state.status in (SchedulingStatus.READY, SchedulingStatus.WAITING)

    def put_tiers(self, tiers: frozenset[str]) -> None:
        """Take the names that tiers have now; jobs that name one are judged anew."""
        cluster = self.accounts.cluster
        if tiers == cluster.tiers:
            return
        cluster.tiers = tiers
        for jid in sorted(self._tiered):
            state = self.jobs.get(jid)
            if state is not None and state.status in (
                SchedulingStatus.READY,
                SchedulingStatus.WAITING,
            ):
                self._enqueue(state)

    # --- jobs ---------------------------------------------------------------------------------

    def put_job(self, job: Job, states: bytearray | None = None) -> None:
        self.accounts.gates.stored(job)
        if names_tier(job):
            self._tiered.add(job.jid)
        self.spanning.put_job(job, self.accounts.classes)
        ours = self.session.eligibility.ours
        if ours is not None and job.kind == "Pod" and other_scheduler(job, ours):
            self.theirs.add(job.jid)
        super().put_job(job, states)
        self.stale_gangs.note(job.jid)
        self.late_groups.note(job)

    def put_jobs(self, jobs: Iterable[Job], states: Mapping[int, bytearray] | None = None) -> None:
        """As :meth:`put_job` of each; ``states``: of recovered ones, by jid. A plugin from outside
        is asked about each by itself: what it goes by is unknown."""
        if states is not None:
            for job in jobs:
                self.put_job(job, states.get(job.jid))
            return
        for run in runs_of(jobs):
            numbers = {job.jid for job in run}
            new = len(numbers) == len(run) and self.jobs.keys().isdisjoint(numbers)
            self.put_job(run[0])
            rest, first = run[1:], self.jobs[run[0].jid]
            if rest and new and not self.session.guarded and is_plain(first):
                self._put_like(first, rest)
            else:
                for job in rest:
                    self.put_job(job)

    def _put_like(self, first: JobState, jobs: Sequence[Job]) -> None:
        first.slow = self._is_slow(first.job)  # each is asked when it gets its turn
        for job in jobs:
            self.spanning.put_job(job, self.accounts.classes)
        super()._put_like(first, jobs)
        for job in jobs:
            self.stale_gangs.note(job.jid)

    def put_leaving(self, job: Job, states: bytearray) -> None:
        # Its pods run until they are stopped, and nobody may come beside those that it keeps off.
        self.spanning.put_job(job, self.accounts.classes)
        super().put_leaving(job, states)

    def _forget(self, state: JobState) -> None:
        self.admission.forget(state.job.jid)
        self._tiered.discard(state.job.jid)
        self._unfilled.pop(state.job.jid, None)  # its gates may be gone
        super()._forget(state)

    def unlearn(self, state: JobState) -> None:
        self.spanning.drop_job(state.job.jid)
        super().unlearn(state)

    def drop_job(self, jid: int) -> None:
        self.admission.forget(jid)
        self.contention.gone(jid)
        self.stale_gangs.forget(jid)
        self.aging.over(jid)
        self._unfilled.pop(jid, None)
        self._put_off.pop(jid, None)
        self.theirs.discard(jid)
        self.accounts.gates.forget(jid)
        self.late_groups.forget(jid)
        super().drop_job(jid)

    def purged(self, jid: int) -> None:
        """Remove a deleted job whose last task has left."""
        self.spanning.drop_job(jid)
        self.contexts.forget(jid)
        self.departures.purged(jid)

    def resolve(self, jid: int, states: bytearray) -> None:
        # Its evictions may have been committed: the progress of the lost turn says nothing, and the
        # reread records decide.
        if self.came_back(jid) in self.contention.actions:
            self.contention.forget(jid)
        super().resolve(jid, states)

    def task_changed(self, jid: int, state: TaskState, tasks: list[int], rows: list[int]) -> None:
        super().task_changed(jid, state, tasks, rows)
        if (job := self.jobs.get(jid)) is not None and state is TaskState.PENDING:
            self.to_fill(job)  # also where the job goes on waiting as before
            self.late_groups.note(job.job)
        if self.stale_gangs.on and state not in (TaskState.BINDING, TaskState.BOUND):
            self.stale_gangs.note(jid)
        if state is TaskState.RUNNING and self.contention.actions and job is not None:
            job.started.update(dict.fromkeys(tasks, self.now))

    def only_proceeds(self, item: StatusItem) -> bool:
        """Take that tasks which are bound begin to run, or that those which are being bound are,
        as :meth:`task_changed` does, where nothing else follows from it; else False. Two such
        words come of nearly every task."""
        jid, new = item.jid, item.state
        job = self.jobs.get(jid)
        if (
            job is None
            or item.adopted
            or job.evicted
            or job.stopping
            or jid in self.gangs
            or not self.accounts.proceed(job, item.tasks, new)
        ):
            return False
        if new is TaskState.BOUND:
            job.refusals = 0
            return True
        if self.stale_gangs.on:
            self.stale_gangs.note(jid)
        if self.contention.actions:
            job.started.update(dict.fromkeys(item.tasks, self.now))
        return True

    def slow(self, state: JobState) -> bool:
        """Whether allocating the job needs a session."""
        # Kept by job: the answer only changes with its specification or with the policy, and is
        # asked at every turn.
        if state.slow is None:
            state.slow = self._is_slow(state.job)
        jid = state.job.jid
        if state.slow or jid == self.aging.jid or self._has_reserved(state):
            return True
        return self.spanning.any and self.spanning.touches(jid)

    def _likeness(self, state: JobState) -> Hashable:
        job = state.job
        marks, others = self._marks(job), self.spanning.likeness(job)
        if others is None and not job.is_confined and not any(marks):
            return None  # most jobs
        return job.topology, job.sub_groups, job.topology_key, marks, others

    def _marks(self, job: Job) -> tuple[Pairs, ...]:
        """Labels and annotations that rules read, of the job and of each role; () where none has
        any."""
        described: tuple[Job | Role, ...] = (job, *job.roles)
        if self._all_slow or self.session.reads_pods:  # whatever a pod says may count
            return tuple((*each.labels, *each.annotations) for each in described)
        if not job.annotations and not any(role.annotations for role in job.roles):
            return ()  # most jobs: nothing is compared with what rules read
        reads = self.session.reads
        return tuple(tuple(m for m in each.annotations if m[0] in reads) for each in described)

    def _has_reserved(self, state: JobState) -> bool:
        """Whether a rule counts what the job's queue, or one above it, reserves for tasks without
        their gate: only a session asks that rule task by task."""
        if QUEUE_GATE not in self.session.reads:
            return False
        queue = self.accounts.queue(state)
        return any(any(whole(info, "reserved").values()) for info in (queue, *queue.above))

    def _is_slow(self, job: Job) -> bool:
        if self._all_slow or job.is_confined:
            return True
        for role in job.roles:
            if opens_gate(role):
                return True  # a flat turn would place its tasks
            key = role.cid, role.annotations + job.annotations
            if (is_fast := self._fast.get(key)) is None:
                is_fast = self.session.fast(self.accounts.classes[role.cid], key[1])
                self._fast[key] = is_fast
            if not is_fast:
                return True
        return False

    # --- entry --------------------------------------------------------------------------------

    def _line_up(self, state: JobState, reason: WaitReason, *, urgent: bool) -> None:
        waits = waits_for_entry(state.info.phase)
        self.to_fill(state)  # its other tasks may have gates, or wait without a worker's answer
        if waits and not self.admission.passes(state, self.accounts.cluster):
            self.lines.set_status(
                state, SchedulingStatus.WAITING, self.admission.why.get(state.job.jid, reason)
            )
        elif not (state.need or self._need(state)):  # what is left of it has gates
            self.lines.set_status(state, SchedulingStatus.WAITING, Reason.GATED)
        else:
            super()._line_up(state, reason, urgent=urgent)

    def _nothing_to_place(self, state: JobState) -> None:
        if not state.states and state.info.qid >= 0 and (why := self._waits_for_entry(state)):
            self.lines.set_status(state, SchedulingStatus.WAITING, why)
        else:
            super()._nothing_to_place(state)

    def _of_invalid(self, state: JobState, invalid: str) -> WaitReason:
        return self._waits_for_entry(state) or super()._of_invalid(state, invalid)

    def _waits_for_entry(self, state: JobState) -> WaitReason:
        """Why a job without enough pods is not admitted yet; "" if it is. Volcano's controllers
        create pods after the admission, and what the job needs at least counts from then on."""
        if self.admission.passes(state, self.accounts.cluster):
            return HoldReason.NONE
        return self.admission.why.get(state.job.jid, Reason.PENDING_EVALUATION)

    def admit_waiting(self) -> None:
        """Judge the jobs that wait for admission by enqueue."""
        for state, why in self.admission.judge(self.session, self.accounts.cluster, self.now):
            if why is None:
                self._filled_at = -1
            if why is None and state.status is SchedulingStatus.WAITING:
                self._enqueue(state)
            elif why is not None and state.status is SchedulingStatus.WAITING:
                self.lines.set_status(state, SchedulingStatus.WAITING, why)

    def _of_backfill(self, state: JobState) -> WaitReason:
        self.to_fill(state)
        kept_out = self.session.eligibility.kept_out(state.info, self.accounts.cluster)
        if kept_out is not None or not fillable(state):
            return Reason.GATED if kept_out is None else kept_out[0]
        reason = super()._of_backfill(state)
        return Reason.PENDING_EVALUATION if reason in (*KEPT_OUT, Reason.GATED) else reason

    def to_fill(self, state: JobState) -> None:
        """Note that the job may have pending best-effort tasks."""
        if any(state.info.best_effort):
            self._unfilled.setdefault(state.job.jid, -1)
            self._filled_at = -1

    def next_to_fill(self) -> JobState | None:
        """The next job whose best-effort tasks may be placed now."""
        changes = self.accounts.capacity.changes
        # Without the count every step would ask all of them again.
        if not self._unfilled or self._filled_at == changes:
            return None
        for jid, tried in list(self._unfilled.items()):
            state = self.jobs.get(jid)
            if state is None or not any(state.info.best_effort):
                del self._unfilled[jid]
            elif tried != changes and self._may_fill(state):
                return state
        self._filled_at = changes
        return None

    def _may_fill(self, state: JobState) -> bool:
        if state.status not in (
            SchedulingStatus.READY,
            SchedulingStatus.WAITING,
            SchedulingStatus.SETTLED,
        ):
            return False
        held_up = state.unread or state.releasing_nominations or state.stopping
        cluster = self.accounts.cluster
        return not (held_up or state.job.dangling or state.info.qid < 0) and (
            fillable(state)
            and self.session.job_ready(state.info.progress())
            and self.session.job_valid(state.info, cluster) is None
            and self.admission.passes(state, cluster)
        )

    def filled(self, state: JobState, *, failed: bool) -> None:
        """Take the result of a backfill turn."""
        if failed:
            self._unfilled[state.job.jid] = self.accounts.capacity.changes
        self._filled_at = -1

    # --- contention ---------------------------------------------------------------------------

    def _starves(self, state: JobState) -> bool:
        """Whether a job in a line may evict others now; where only later, it is asked again
        then."""
        if not (self.contention.actions and self.session.job_starving(state.info)):
            return False
        earliest = self.session.evicts_from(state.info, self.accounts.cluster)
        return self.contention.may_evict(state.job, earliest=earliest, now=self.now)

    def _settle(self, state: JobState) -> None:
        super()._settle(state)
        # What ended may have been part of its minimum.
        if state.status is SchedulingStatus.READY and self._starves(state):
            self._add_starving(state)

    def _add_starving(self, state: JobState) -> None:
        self.lines.add_starving(state, self.session.job_key(state.info, self.accounts.cluster))

    def next_contender(self) -> tuple[JobState, str] | None:
        """The next starving job that may evict, and its action; see :class:`Contenders`."""
        if not self.contention.may_look(self.now):
            return None
        for jid in self.contention.held_no_more(self.now):
            state = self.jobs.get(jid)
            if state and state.status is SchedulingStatus.READY and self._starves(state):
                self._add_starving(state)
        for jid, action in self.contention.out.items():  # its queue may be in another tree by now
            if (state := self.jobs.get(jid)) is not None:
                self.spanning.touch(jid, self.contexts.searched(state, action, self.session))
        cluster, searched = self.accounts.cluster, self.contention.searched
        return Contenders(
            session=self.session,
            accounts=self.accounts,
            lines=self.lines,
            jobs=self.jobs,
            contention=self.contention,
            depth=EvictionDepth(self.session, cluster, self.lines, self.jobs, searched),
            need=self._need,
            searched=self.contexts.searched,
            touched=self.spanning.touched,
            unfilled=self._starving_unfilled(),
            allocates=self.allocates,
            now=self.now,
        ).next()

    def _starving_unfilled(self) -> list[JobState]:
        """Jobs whose only waiting tasks ask for nothing, for which backfill found no place."""
        changes = self.accounts.capacity.changes
        failed = [jid for jid, tried in self._unfilled.items() if tried == changes]
        # Those that wait for an open turn of others come back by themselves.
        states = [self.jobs.get(jid) for jid in failed if jid not in self._put_off]
        return [
            state
            for state in states
            if state and not state.info.pending and self._starves(state) and self._may_fill(state)
        ]

    # --- aging --------------------------------------------------------------------------------

    def next_to_keep_for(self) -> JobState | None:
        """The job that has been first in its queue for longest, if that exceeds the bound.

        Skips queues beyond their share while others wait, and jobs that exceed their queue's
        capability.
        """
        if not self.aging.looks(self.now):
            return None
        cluster = self.accounts.cluster
        waiting = [queue for queue in self.lines.queues.values() if self.lines.head(queue)]
        candidates: list[tuple[float, JobState]] = []
        for queue in waiting:
            line = self.lines.head(queue)
            top = None if line is None else self.lines.top(line)
            if line is None or top is None:
                continue
            waited = self.aging.first(queue.info.queue.qid, top[2], self.now)
            if not self.aging.may_ask(top[2], waited, self.now):
                continue
            if len(waiting) > 1 and self.session.overused(queue.info, cluster):
                continue
            if could_ever(queue.info, line.amounts):
                candidates.append((waited, self.jobs[top[2]]))
        self.aging.gone([qid for qid, queue in self.lines.queues.items() if queue.lines])
        if not candidates:
            return None
        _, state = max(candidates, key=lambda pair: pair[0])
        self.aging.asked(state.job.jid, self.now)
        return state

    # --- a turn is out ------------------------------------------------------------------------

    def go_out(self, state: JobState, action: str, keys: list[str]) -> None:
        jid = state.job.jid
        self.spanning.out_now.add(jid)
        if keys:
            self.spanning.take(jid, keys)
        if action in (BACKFILL, RESERVE, STALE):
            self._others_out[jid] = action
        elif action != "allocate":
            self.contention.opened(jid, action)

    def know(
        self, jids: Collection[int], versions: Mapping[str, int], *, unheard: Collection[int]
    ) -> None:
        """Take the ledger's versions of the keys of these jobs, whose turns were lost
        (:meth:`Spanning.know`). Closes a lost shuffle turn; the jobs themselves are reread next."""
        self.spanning.know(jids, versions, unheard=unheard)
        if NOBODY in jids:
            self.came_back(NOBODY)

    def put_off(self, state: JobState) -> None:
        """Note that a backfill or an evicting turn of the job waits for an open turn of others."""
        self._put_off[state.job.jid] = None if state.line is None else state.line.block

    def _wake(self, state: JobState) -> None:
        """Queue a job that waited for an open turn of others."""
        jid = state.job.jid
        if jid not in self._put_off:
            return self._enqueue(state, urgent=True)
        # Not as an urgent job: allocate had found no place for it, and nothing was freed since.
        # Jobs that wait for each other's backfill would wake each other for ever.
        block = self._put_off.pop(jid)
        self._enqueue(state, state.reason or Reason.PENDING_EVALUATION)
        if block is not None and state.line is not None:
            self.lines.hold_again(state.line, block)

    def go_on(self, waited: Iterable[tuple[int, int]]) -> None:
        """Queue jobs (jid, stamp) that waited for a turn, or for word of what it evicts."""
        for jid, stamp in waited:
            if jid in self._unfilled:  # its backfill may have waited
                self._unfilled[jid], self._filled_at = -1, -1
            if (state := self.jobs.get(jid)) is not None and state.stamp == stamp:
                self._wake(state)

    def came_back(self, jid: int) -> str:
        """Close a turn that returned or is being reread; returns its action. Queues the jobs that
        waited for it."""
        if jid not in self.spanning.out_now:
            return "allocate"
        self.spanning.out_now.discard(jid)
        self.go_on(self.spanning.give_back(jid))
        if (action := self._others_out.pop(jid, None)) is not None:
            return action
        return self.contention.came_back(jid) or "allocate"
