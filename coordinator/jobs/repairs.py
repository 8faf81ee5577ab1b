"""Periodic repairs of the job book: parked jobs are tried again, broken gangs are released."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from coordinator.jobs.gang_repair import left_short
from coordinator.jobs.state import NO_TASKS, JobState, SchedulingStatus
from coordinator.jobs.table import JobBook
from shared.ledger.entries.snapshot import Nomination
from shared.messages.messages import ENDED, HOLDING, TaskState
from shared.messages.reason import Reason

OFF = (TaskState.PENDING, *ENDED)
"""States in which a task is on no node."""


class Repairs(JobBook):
    """The job book, extended by repairs of jobs that no event would move."""

    _unlooked = False

    def task_changed(self, jid: int, state: TaskState, tasks: list[int], rows: list[int]) -> None:
        before = self.jobs.get(jid)
        evicted = before is not None and not before.evicted.isdisjoint(tasks)
        back = state is TaskState.PENDING
        idle = back and before is not None and self._idle(before)
        super().task_changed(jid, state, tasks, rows)
        job = self.jobs.get(jid)
        if job is None:
            return
        if back and self._needs_more(job, idle=idle):
            self._place_again(job)
        if back and not evicted:  # a refused bind may leave too few
            self._note_short(job)
            if job.status is SchedulingStatus.READY and self.parking.full(job):
                self._enqueue(job)
        # A member that ran and failed is the business of the job's policies, not of gang repair
        # (decision 0022, rule 4).
        elif state is TaskState.LOST or (state is TaskState.FAILED and _lost_before(job)):
            self._note_short(job)
        if evicted and job.nominated and not job.waits_for:
            self._wake_nominated(jid)
        if jid in self.gangs:
            self.gangs.settle(job)
        if job.stopping and state in OFF:
            job.stopping = job.stopping.difference(tasks)
            if not job.stopping and job.status is SchedulingStatus.WAITING:
                self._enqueue(job)

    def _idle(self, job: JobState) -> bool:
        """Whether a job that waits has nothing for allocate: it waits for backfill or for gates."""
        return job.status is SchedulingStatus.WAITING and not self._need(job)

    def _needs_more(self, job: JobState, *, idle: bool) -> bool:
        """Whether tasks that came back are not what the job waits for. ``idle``: it was
        :meth:`_idle` before."""
        # Backfill fills no gang that lacks a member, and gates of others never open for these.
        if job.status is SchedulingStatus.WAITING:
            return idle and not self._idle(job)
        # Others of the job may find no place for long, where those that came back would.
        line = job.line if job.status is SchedulingStatus.READY else None
        return line is not None and line.need != self._need(job)

    def evict(self, state: JobState, tasks: list[int], rows: list[int]) -> None:
        """Move tasks of a job to RELEASING on these nodes, as the ledger recorded their
        eviction."""
        self.nominations.moved(state, TaskState.RELEASING, tasks, rows)
        self.accounts.move(state, tasks, TaskState.RELEASING)
        self.accounts.leave(state, tasks, leaving=True)
        self.requeue(state)
        self.moved(state.job.jid)

    def promised_to_victims(self, state: JobState, places: Mapping[int, int]) -> None:
        """Let evicted tasks of a job wait for the nodes (rows) that the ledger promised them in the
        same statement. Not where a turn of the job is out: its statement replaces every promise."""
        if state.status is SchedulingStatus.OPEN or state.releasing_nominations:
            return
        self.nominations.move(state, places)
        counts = Counter(state.job.role_of(tix).cid for tix in places)
        self.accounts.promise(state, sorted(counts.items()))
        self.lines.set_status(state, SchedulingStatus.NOMINATED, Reason.WAITING_FOR_VICTIMS)
        state.stamp += 1
        self.nominations.look_again(state, self.now)

    def takes_up(self, state: JobState, nomination: Nomination, now: float) -> bool:
        """Take up the promise of evicted tasks that an earlier coordinator knew of. False where it
        is no such promise, or the job relies on one already; True also where its end is being
        recorded."""
        if state.nominated or nomination.expiry <= now or state.releasing_nominations:
            return state.releasing_nominations
        places = {
            tix: row
            for run in nomination.runs
            for tix, row in zip(run.tasks, run.rows, strict=True)
            if tix in state.evicted or (state.incarnations.get(tix) and not state.states[tix])
        }
        if places:
            self.promised_to_victims(state, places)
        return bool(state.nominated)

    def _wake_nominated(self, jid: int) -> None:
        state = self.jobs[jid]
        if state.status is SchedulingStatus.NOMINATED and not state.evicted.isdisjoint(
            state.nominated
        ):
            self.nominations.look_again(state, self.now)  # they have not left their old nodes yet
        else:
            super()._wake_nominated(jid)

    def restarted(self, jid: int, tasks: list[int]) -> None:
        """Return tasks that had ended to pending, each as a new incarnation, as the ledger recorded
        it for a policy of their job."""
        state = self.jobs.get(jid)
        if state is None:  # deleted meanwhile
            return
        self.departures.ended(jid, tasks)
        for tix in tasks:
            state.incarnations[tix] = state.incarnations.get(tix, 0) + 1
        if state.status is SchedulingStatus.DONE:
            self._reopen(state, tasks)
            return
        self.accounts.move(state, tasks, TaskState.PENDING)
        if state.status is SchedulingStatus.OPEN:
            state.returned = state.returned.union(tasks)
        elif state.status is SchedulingStatus.SETTLED:
            self._enqueue(state)
        else:
            self.requeue(state)
        if jid in self.gangs:
            self.gangs.settle(state)

    def _reopen(self, state: JobState, tasks: list[int]) -> None:
        """Take up a finished job again, as if it were submitted with these tasks pending."""
        self._forget(state)
        for tix in tasks:
            state.states[tix] = TaskState.PENDING
        self.put_job(state.admitted_as_before(state.job), state.states)
        again = self.jobs[state.job.jid]
        again.inherit(state)
        again.stamp += state.stamp + 1
        self.requeue(again)

    def requeue(self, state: JobState) -> None:
        """Queue a ready or waiting job again, because its need has changed."""
        if (
            state.status in (SchedulingStatus.READY, SchedulingStatus.WAITING)
            and state.job.jid in self.jobs
        ):
            self._enqueue(state, state.reason or Reason.PENDING_EVALUATION)

    def adopted(self, state: JobState, new: TaskState, tasks: list[int], rows: list[int]) -> None:
        """Take tasks that the cluster has on these nodes in this state, wherever the books had
        them."""
        for tix in tasks:
            if state.states[tix] == TaskState.RELEASING:
                self.nominations.left(state.rows[tix])
        state.put_rows(tasks, rows)
        self.accounts.move(state, tasks, new)
        if new is TaskState.RELEASING:
            for row in rows:
                self.nominations.leaving(row)
        if state.job.jid not in self.jobs:
            self.departures.settle(state)
        else:
            if state.status in (SchedulingStatus.READY, SchedulingStatus.WAITING):
                self._enqueue(state)  # it has less to place
            self._settle_members(state)
            self.gangs.settle(state)

    def find_broken(self) -> None:
        """Find the gangs that a lost task or a refused bind left below their minimum, in the first
        step of a new leader. Their time limit starts then: how much of it passed earlier is
        unknown."""
        self._unlooked = True

    def _find_broken(self) -> None:
        self._unlooked = False
        for state in self.jobs.values():
            if (
                state.info.held[0]
                and state.status is not SchedulingStatus.DONE
                and left_short(state)
            ):
                self._note_short(state)

    def _note_short(self, state: JobState) -> None:
        """Watch a gang that has too few members, where the policy keeps gangs whole."""
        if self._keeps_whole(state):
            self.gangs.note(state)

    def _keeps_whole(self, state: JobState) -> bool:
        """Whether the gang is ours to repair: one of another node pool is its scheduler's."""
        return self.session.keeps_gangs and self.session.eligibility.in_pool(state.job)

    def repair_due(self) -> None:
        """Repair the jobs whose time has come."""
        if self._unlooked:
            self._find_broken()
        self._wake_parked()
        for jid in self.gangs.due(self.now):
            self._release(self.jobs[jid])

    def _wake_parked(self) -> None:
        """Give parked jobs another attempt: where capacity was freed after their pause, or after a
        long one."""
        for jid, stamp in self.parking.wake(self.now, self.accounts.capacity.changes):
            state = self.jobs.get(jid)
            if state is not None and state.stamp == stamp:
                self.parking.once_more(state)
                self._enqueue(state)

    def _release(self, state: JobState) -> None:
        """Stop the remaining members of a gang that was not repaired in time."""
        jid = state.job.jid
        if not self._keeps_whole(state):  # another policy, or another pool, meanwhile
            self.gangs.forget(jid)
            return
        # The turn may be placing the missing members right now.
        if state.status is SchedulingStatus.OPEN or state.unread:
            self.gangs.later(jid, self.now)
            return
        self.gangs.release(jid)
        # Nothing of the gang is placed until these have ended (decision 0022).
        state.stopping = frozenset(t for t, s in enumerate(state.states) if s in HOLDING)
        if state.stopping:
            self.departures.ask(jid, sorted(state.stopping))
            if state.status is not SchedulingStatus.DONE:
                self._enqueue(state)
            self.moved(jid)

    def look_again(self) -> None:
        """Unblock all jobs that a worker found infeasible, because new workers may find a place."""
        for state in self.jobs.values():
            state.tried = NO_TASKS
        self.lines.release_all()


def _lost_before(job: JobState) -> bool:
    """Whether the job lost members and was not released for it. If others fail after that, the loss
    is part of the gap, and a new leader would judge the same records so."""
    return not job.stopping and TaskState.LOST in job.states
