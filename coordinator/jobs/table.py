"""The book of jobs: all jobs, their states, and the events that change them outside of turns.

A job is submitted, changed or deleted; its tasks are bound, end, or return to pending; nominations
are woken, displaced or released. Turns and outcomes are added by :mod:`coordinator.order.order`.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

from coordinator.jobs.accounts import Accounts
from coordinator.jobs.backoff import Parking
from coordinator.jobs.deletion import Departures
from coordinator.jobs.fresh_jobs import admit_run, another
from coordinator.jobs.gang_repair import Gangs
from coordinator.jobs.nominations import Nominations
from coordinator.jobs.pending_order import PROBE_LIMIT_SECONDS, PROBE_SECONDS, PendingQueue
from coordinator.jobs.pending_queue import Lines
from coordinator.jobs.pending_reasons import of_invalid
from coordinator.jobs.state import JobState, Need, SchedulingStatus, amounts, core_need, open_job
from shard_worker.framework.session import Session
from shard_worker.session_model.workload import Amounts, QueueInfo
from shared.messages.messages import ENDED, Outcome, OutcomeCode, TaskState
from shared.messages.reason import HoldReason, Reason, WaitReason
from shared.model.groups import COMPOSITE
from shared.model.model import Job, Queue, Requests, Role

BACKFILL = "backfill"


class JobBook:
    def __init__(self, session: Session, *, count_first: bool) -> None:
        self.session = session
        self.accounts = Accounts()
        self.queue_ids: dict[str, int] = {}
        self.jobs: dict[int, JobState] = {}
        self.lines = Lines(self.jobs, self.accounts.capacity, count_first=count_first)
        self.lines.sortable = session.sorts_jobs
        self.nominations = Nominations()
        self.departures = Departures(self.accounts, self.jobs)
        self.parking = Parking()
        self.gangs = Gangs()
        self.open = 0
        """Turns that are out."""
        self.stale: list[int] = []
        """Jobs whose truth must be read from the ledger before they can be tried again."""
        self.expired: list[int] = []
        """Jobs that gave up nominations which the ledger still holds."""
        self.moved: Callable[[int], None] = lambda _: None
        """Told of jobs that lost their place, or wait for something else, without a turn."""
        self._orphans: dict[str, set[int]] = {}
        self._later: list[tuple[float, int, int]] = []
        """Heap of (when, jid, stamp): jobs whose bind was refused."""
        self.now = 0.0

    @property
    def fills(self) -> bool:
        return BACKFILL in self.session.policy.actions

    def take_requests(self) -> tuple[list[int], list[int]]:
        """``stale`` and ``expired``, once."""
        requests = self.stale, self.expired
        self.stale, self.expired = [], []
        return requests

    # --- nominations --------------------------------------------------------------------------

    def _displace(self, jid: int) -> None:
        """Note that a job of higher priority took this one's nominations; the ledger has removed
        them."""
        if (state := self.jobs.get(jid)) is None or not state.nominated:
            return
        self.nominations.drop(state)
        if state.status is SchedulingStatus.NOMINATED:
            self.accounts.give_back(state)
            self._enqueue(state, urgent=True)
        self.moved(jid)

    def _wake_nominated(self, jid: int) -> None:
        """Wake a job whose victims have left: it keeps its nominations and goes next."""
        state = self.jobs[jid]
        if state.status is SchedulingStatus.NOMINATED:
            state.attempts += 1
            self._enqueue(state, urgent=True, keep=True)

    # --- tasks --------------------------------------------------------------------------------

    def task_changed(self, jid: int, state: TaskState, tasks: list[int], rows: list[int]) -> None:
        """Take a recorded state change of these tasks (``rows``: their nodes)."""
        job = self.jobs.get(jid)
        leaves = job is None
        if job is None and (job := self.departures.jobs.get(jid)) is None:
            return
        self.nominations.moved(job, state, tasks, rows)
        evicted = state is TaskState.PENDING and not job.evicted.isdisjoint(tasks)
        self.accounts.move(job, tasks, state)
        if evicted:
            self._came_back(job, tasks)
        elif state is TaskState.PENDING:
            job.refusals += 1
            job.refused = job.refused.union(tasks)
            if job.status is SchedulingStatus.OPEN:
                job.returned = job.returned.union(tasks)
        elif state is TaskState.BOUND:
            job.refusals = 0
        ends = state is TaskState.PENDING or state in ENDED
        if ends:
            for woken in self.nominations.freed(rows, self.jobs):
                self._wake_nominated(woken)
        if leaves:
            self._leaving_changed(job, tasks, ends=ends)
        elif ends:
            self._settle_members(job)
            self._settle(job)

    def _came_back(self, state: JobState, tasks: list[int]) -> None:
        """Return evicted tasks that have ended to pending, each as a new incarnation."""
        self.departures.ended(state.job.jid, tasks)
        for tix in tasks:
            state.incarnations[tix] = state.incarnations.get(tix, 0) + 1
        if state.status is SchedulingStatus.OPEN:
            state.returned = state.returned.union(tasks)

    def known(self, jid: int) -> JobState | None:
        """A job, also a deleted one that is not purged yet."""
        return self.jobs.get(jid) or self.departures.jobs.get(jid)

    def _leaving_changed(self, state: JobState, tasks: list[int], *, ends: bool) -> None:
        """Take a state change of a deleted job's tasks."""
        if ends:
            self.departures.settle(state)
        else:
            self.departures.ask(state.job.jid, tasks)

    def _settle_members(self, state: JobState) -> None:
        """Act on members that were deleted from a remaining job."""
        if state.job.jid not in self.departures.members:
            return
        if self.departures.settle_members(state) and state.status is not SchedulingStatus.DONE:
            self._enqueue(state, state.reason or Reason.PENDING_EVALUATION)

    def _settle(self, state: JobState) -> None:
        """After tasks ended: finish the job, or queue it where it has members to place again."""
        if state.status in (SchedulingStatus.OPEN, SchedulingStatus.NOMINATED):
            return
        if state.ended:
            self._done(state)
        elif state.status is SchedulingStatus.SETTLED and state.unplaced:
            self._place_again(state)

    def _place_again(self, state: JobState) -> None:
        """Queue a job of which tasks came back, after a pause where their binds were refused."""
        (self._bind_failed if state.refusals else self._enqueue)(state)

    def _done(self, state: JobState) -> None:
        self.lines.set_status(state, SchedulingStatus.DONE, HoldReason.NONE)
        state.stamp += 1
        self.accounts.retire(state)
        state.drop_zeros()

    def _bind_failed(self, state: JobState) -> None:
        """Place refused members again, after a growing pause: the same node may refuse again."""
        self._enqueue(state, HoldReason.BIND_FAILED)
        if state.status is SchedulingStatus.READY:
            wait = min(PROBE_SECONDS * 2 ** min(state.refusals - 1, 10), PROBE_LIMIT_SECONDS)
            state.stamp += 1
            self.lines.set_status(state, SchedulingStatus.WAITING, HoldReason.BIND_FAILED)
            heapq.heappush(self._later, (self.now + wait, state.job.jid, state.stamp))

    # --- jobs ---------------------------------------------------------------------------------

    def put_job(self, job: Job, states: bytearray | None = None) -> None:
        """Add a job or its new specification. ``states`` is given on recovery."""
        if (existing := self.jobs.get(job.jid)) is not None:
            self._replace(existing, job)
            return
        state = self._open_job(job, states)
        self.jobs[job.jid] = state
        self.lines.enter(state)
        if state.info.qid < 0:
            self._orphans.setdefault(job.queue, set()).add(job.jid)
        self.accounts.admit(state)
        self._enqueue(state)
        self._settle(state)

    def _put_like(self, first: JobState, jobs: Sequence[Job]) -> None:
        """Add new jobs that say the same as a plain one, which was put just now."""
        run = [another(first, job) for job in jobs]
        self.jobs.update((state.job.jid, state) for state in run)
        admit_run(self.accounts, run)
        self.lines.join_run(run, self.session.job_key(first.info, self.accounts.cluster))

    def _open_job(self, job: Job, states: bytearray | None) -> JobState:
        qid, classes = self._queue_of(job), self.accounts.classes
        return open_job(job, qid=qid, classes=classes, states=states, backfilled=self.fills)

    def _queue_of(self, job: Job) -> int:
        return self.session.eligibility.queue(job, self.queue_ids)

    def _replace(self, state: JobState, job: Job) -> None:
        """Replace the specification of a job and recompute its counts. An open turn's outcome is
        taken as it returns."""
        was_open, stamp, charge = state.status is SchedulingStatus.OPEN, state.stamp, state.charge
        self._forget(state)  # the ledger ended its nominations with the new specification
        self.put_job(state.admitted_as_before(job), state.states)
        again = self.jobs[job.jid]
        again.inherit(state)
        again.stamp += stamp + 1
        again.releasing_nominations, again.unread = state.releasing_nominations, state.unread
        self.accounts.leave(again, state.evicted, leaving=True)
        if was_open:
            again.returned, again.tried_since = state.returned, state.tried_since
            self.lines.set_status(again, SchedulingStatus.OPEN, again.reason)
            self.accounts.promise(again, charge)
            self.open += 1
        elif again.status is SchedulingStatus.READY:
            self._enqueue(again)

    def _forget(self, state: JobState) -> None:
        """Remove a job from every total, as if it had never been put."""
        if state.status is SchedulingStatus.OPEN:
            self.open -= 1
        self.lines.leave(state)
        del self.jobs[state.job.jid]
        self._no_orphan(state)
        self.accounts.give_back(state)
        self.nominations.drop(state)
        self.accounts.forget(state)

    def unlearn(self, state: JobState) -> None:
        """Remove a job from a standby's book, to put it again with the ledger's newer records."""
        self._forget(state)

    def _no_orphan(self, state: JobState) -> None:
        if state.info.qid < 0 and (orphans := self._orphans.get(state.job.queue)) is not None:
            orphans.discard(state.job.jid)
            if not orphans:
                del self._orphans[state.job.queue]

    def drop_job(self, jid: int) -> None:
        """Delete a job: no more turns; it stays in the totals until its last task has left."""
        if (state := self.jobs.pop(jid, None)) is None:
            return
        out = state.status is SchedulingStatus.OPEN
        self.lines.leave(state)
        self._no_orphan(state)
        self.gangs.forget(jid)
        self.nominations.drop(state)  # the ledger dropped them with the job
        if out:  # its outcome comes, or is read anew: until then the charge stands
            state.status = SchedulingStatus.OPEN
        else:
            self.accounts.give_back(state)
        state.stamp += 1
        self.departures.enter(state)
        self.accounts.capacity.freed()  # what it was promised
        self.moved(jid)

    def put_leaving(self, job: Job, states: bytearray) -> None:
        """Recovery: put a deleted job that is not purged."""
        state = self._open_job(job, states)
        self.accounts.admit(state)
        self.departures.enter(state)

    def drop_members(self, tasks: Iterable[tuple[int, int]]) -> None:
        """Note that members (jid, tix) were deleted from remaining jobs."""
        members_of: dict[int, list[int]] = {}
        for jid, tix in tasks:
            members_of.setdefault(jid, []).append(tix)
        for jid, members in members_of.items():
            state = self.jobs.get(jid)
            if state is not None:
                self.departures.enter_members(jid, members)
                self._settle_members(state)
                self._settle(state)

    def _late(self, state: JobState, outcome: Outcome) -> None:
        """Take the outcome of a turn that was open when its job was deleted."""
        self.open -= 1
        self.accounts.give_back(state)
        state.status = SchedulingStatus.WAITING
        if outcome.code is not OutcomeCode.PLACED:
            # A call may reach its worker twice, and the second answer come first: then a turn that
            # placed tasks seems to have placed none. To purge the job now would be refused by the
            # ledger, and nobody would ask again. So its truth is read before anything is concluded.
            state.unread = True
            self.stale.append(outcome.jid)
            return
        self.accounts.begin_binds(state, outcome)
        self.departures.settle(state)

    def resolve(self, jid: int, states: bytearray) -> None:
        """Take the ledger's records of a job whose turn was lost: recount it and try it first."""
        if (state := self.jobs.get(jid)) is None:
            self._resolve_leaving(jid, states)
            return
        self._forget(state)
        self.put_job(state.job, states)
        again = self.jobs[jid]
        again.inherit(state)
        again.attempts, again.refusals = state.attempts + 1, state.refusals
        again.conflicts = state.conflicts + 1
        again.stamp += state.stamp + 1
        self._settle_members(again)
        self.give_up_nominations(jid)  # those of the lost turn, which nobody told us about

    def _resolve_leaving(self, jid: int, states: bytearray) -> None:
        state = self.departures.jobs.get(jid)
        if state is None:
            return
        self.accounts.give_back(state)
        self.open -= state.status is SchedulingStatus.OPEN
        state.status, state.unread = SchedulingStatus.WAITING, False
        for new in TaskState:
            tasks = [t for t, s in enumerate(states) if s == new and state.states[t] != new]
            if tasks and new is not TaskState.PENDING:  # those are called FAILED here by now
                self.accounts.move(state, tasks, new)
        self.departures.settle(state)

    def give_up_nominations(self, jid: int) -> None:
        """Have the ledger release the job's nominations. The job gets no turn until that is
        recorded, so that a newer nomination cannot be the one released."""
        self.expired.append(jid)
        if (state := self.jobs.get(jid)) is None:
            return
        state.releasing_nominations = True
        self.nominations.drop(state)
        if state.status in (SchedulingStatus.READY, SchedulingStatus.NOMINATED):
            self._enqueue(state)
        self.moved(jid)

    def nominations_released(self, jids: list[int]) -> None:
        """Note that the ledger has released the nominations of these jobs."""
        for jid in jids:
            state = self.jobs.get(jid)
            if state is not None and state.releasing_nominations:
                state.releasing_nominations = False
                if state.status is SchedulingStatus.WAITING:
                    self._enqueue(state, urgent=True)
        self.accounts.capacity.freed()

    def _enqueue(
        self,
        state: JobState,
        reason: WaitReason = Reason.PENDING_EVALUATION,
        *,
        urgent: bool = False,
        keep: bool = False,
    ) -> None:
        """Queue a job for its next turn, or note why it cannot have one.

        ``reason``: the pending reason until its next turn. ``keep``: keep its nominations.
        """
        state.stamp += 1
        self.accounts.give_back(state)
        if state.nominated and not keep:
            self.expired.append(state.job.jid)
            state.releasing_nominations = True
            self.nominations.drop(state)
        if not state.info.pending:
            if any(state.info.best_effort):
                self.lines.set_status(state, SchedulingStatus.WAITING, self._of_backfill(state))
            elif state.ended:  # its last tasks were adopted and ended while a turn was out
                self._done(state)
            else:
                self._nothing_to_place(state)
        elif state.unread:
            self.lines.set_status(state, SchedulingStatus.WAITING, reason, comes_back=True)
        elif state.job.dangling or state.info.qid < 0:
            self.lines.set_status(
                state, SchedulingStatus.WAITING, self.session.eligibility.homeless(state.job)
            )
        elif invalid := self.session.job_valid(state.info, self.accounts.cluster):
            self.lines.set_status(state, SchedulingStatus.WAITING, self._of_invalid(state, invalid))
        elif state.releasing_nominations:
            self.lines.set_status(state, SchedulingStatus.WAITING, reason, comes_back=True)
        elif state.stopping:
            self.lines.set_status(state, SchedulingStatus.WAITING, HoldReason.GANG_RELEASED)
        elif self.parking.full(state):
            self.lines.set_status(state, SchedulingStatus.WAITING, Reason.ATTEMPTS_EXHAUSTED)
            self.parking.park(state, self.now)
        else:
            self._line_up(state, reason, urgent=urgent)

    def _of_invalid(self, state: JobState, invalid: str) -> WaitReason:
        return of_invalid(invalid)[0]

    def _nothing_to_place(self, state: JobState) -> None:
        self.lines.set_status(state, SchedulingStatus.SETTLED, HoldReason.NONE)

    def _of_backfill(self, state: JobState) -> WaitReason:
        return state.reason or Reason.PENDING_EVALUATION

    def _line_up(self, state: JobState, reason: WaitReason, *, urgent: bool) -> None:
        if urgent:
            self.lines.join_urgent(state, reason)
            return
        need, queue = self._need(state), self.lines.queues[state.info.qid]
        line = self.lines.line(queue, need, self._likeness(state), lambda: self._asks(need))
        key = self.session.job_key(state.info, self.accounts.cluster)
        self.lines.join(state, reason, line=line, key=key)

    def _asks(self, need: Need) -> tuple[Amounts, Requests | None]:
        total = amounts(need, self.accounts.classes)
        varies = self.accounts.depends_on_node(need)
        return total, None if varies else tuple(sorted(total.items()))

    def _likeness(self, state: JobState) -> Hashable:
        """Inputs of placing that tell the job from others with the same need; None for none."""
        del state
        return None

    def _need(self, state: JobState) -> Need:
        if state.need is None:
            state.need = self.need_of(state)
        return state.need

    def need_of(self, state: JobState) -> Need:
        """The least that the job's next turn has to place; changes nothing."""
        roles, classes = self._roles(state), self.accounts.classes
        # A tree's minimum may be met by other groups than the first.
        in_order = not self.session.flat.goes_on and state.job.kind != COMPOSITE
        gangs = self.session.keeps_gangs
        return core_need(state, classes, roles, gangs=gangs, in_order=in_order)

    def _roles(self, state: JobState) -> list[Role]:
        roles, key = state.job.roles, self.session.role_key
        if len(roles) == 1:
            return list(roles)
        return sorted(roles, key=lambda role: (key(state.info, role), role.first))

    # --- queues -------------------------------------------------------------------------------

    def put_queue(self, queue: Queue) -> None:
        if (existing := self.lines.queues.get(queue.qid)) is not None:
            existing.info.queue = queue
        else:
            state = PendingQueue(info=QueueInfo(queue=queue))
            self.lines.queues[queue.qid] = state
            self.accounts.cluster.queues[queue.qid] = state.info
            self.queue_ids[queue.name] = queue.qid
        self.accounts.unlinked = self.accounts.dirty = True
        self.accounts.capacity.freed()
        self._requeue(sorted(self._orphans.get(queue.name, ())))

    def drop_queue(self, qid: int) -> None:
        """Remove a queue, which was deleted or is of another node pool now. Its jobs have none."""
        if (queue := self.lines.queues.get(qid)) is None:
            return
        del self.queue_ids[queue.info.queue.name]
        self._requeue([jid for jid, state in self.jobs.items() if state.info.qid == qid])
        del self.lines.queues[qid], self.accounts.cluster.queues[qid]
        self.accounts.unlinked = self.accounts.dirty = True
        self.accounts.capacity.freed()

    def _requeue(self, jids: Iterable[int]) -> None:
        for jid in jids:
            self._replace(self.jobs[jid], self.jobs[jid].job)
            self.moved(jid)
        self.departures.requeue(self._queue_of)

    # --- tell ---------------------------------------------------------------------------------

    def pending_reasons(self) -> Counter[str]:
        """Number of waiting jobs by reason."""
        return self.lines.reasons(self.now)

    def validate(self) -> None:
        """Raise AssertionError where the bookkeeping contradicts itself."""
        everybody = [*self.jobs.values(), *self.departures.jobs.values()]
        self.accounts.validate(everybody)
        opened = sum(state.status is SchedulingStatus.OPEN for state in everybody)
        assert opened == self.open, (opened, self.open)
        assert +self.lines.status_counts == Counter(state.status for state in self.jobs.values())
        for state in self.jobs.values():
            assert (state.status is SchedulingStatus.NOMINATED) <= bool(state.nominated), (
                state.job.key
            )
