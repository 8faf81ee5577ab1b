"""What mends the book of jobs as time goes by: parked jobs try again, broken gangs are released."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.jobbook import PENDING, JobBook
from coordinator.jobs import JobState, Standing
from shared.messages import HOLDING, TaskState

OFF = (TaskState.PENDING, TaskState.SUCCEEDED, TaskState.FAILED)
"""On no node."""


class Repairs(JobBook):
    """The book, and what is done about jobs that nobody else will move."""

    _unlooked = False

    def task_changed(self, jid: int, state: TaskState, tasks: list[int], rows: list[int]) -> None:
        known = self.jobs.get(jid)
        evicted = known is not None and not known.evicted.isdisjoint(tasks)
        super().task_changed(jid, state, tasks, rows)
        job = self.jobs.get(jid)
        if job is None:
            return
        if state is TaskState.PENDING and not evicted:  # a refused bind may leave too few
            self.gangs.note(job)
            if job.standing is Standing.READY and self.parking.full(job):
                self._enqueue(job)
        elif jid in self.gangs:
            self.gangs.settle(job)
        if job.stopping and state in OFF:
            job.stopping.difference_update(tasks)
            if not job.stopping and job.standing is Standing.WAITING:
                self._enqueue(job)

    def evict(self, state: JobState, tasks: list[int], rows: list[int]) -> None:
        """These tasks of a job have to leave these nodes for others, says the ledger."""
        self.nominations.moved(state, TaskState.RELEASING, tasks, rows)
        self.accounts.move(state, tasks, TaskState.RELEASING)
        self.accounts.leave(state, tasks, leaving=True)
        self.requeue(state)
        self.moved(state.job.jid)

    def requeue(self, state: JobState) -> None:
        """What the job needs is another now."""
        if state.standing in (Standing.READY, Standing.WAITING) and state.job.jid in self.jobs:
            self._enqueue(state, state.reason or PENDING)

    def adopted(self, state: JobState, new: TaskState, tasks: list[int], rows: list[int]) -> None:
        """These tasks are on these nodes in this state, wherever they were thought to be."""
        for tix in tasks:
            if state.states[tix] == TaskState.RELEASING:
                self.nominations.left(state.rows[tix])
        self.accounts.move(state, tasks, new)
        state.put_rows(tasks, rows)
        if new is TaskState.RELEASING:
            for row in rows:
                self.nominations.leaving(row)
        if state.job.jid not in self.jobs:
            self.departures.settle(state)
        else:
            if state.standing in (Standing.READY, Standing.WAITING):
                self._enqueue(state)  # it has less to place
            self._settle_members(state)
            self.gangs.settle(state)

    def lost(self, jids: Iterable[int]) -> None:
        """Members of these jobs, recorded as FAILED, did not fail by themselves."""
        for jid in jids:
            if (state := self.jobs.get(jid)) is not None:
                self.gangs.note(state)

    def find_broken(self) -> None:
        """The seat was taken: look with the next step which gangs a refused bind left short. Their
        time begins then. Where members failed, that is why, and none of our business."""
        self._unlooked = True

    def _find_broken(self) -> None:
        self._unlooked = False
        for state in self.jobs.values():
            info = state.info
            if info.pending and info.held[0] and not info.failed and not state.lives:
                self.gangs.note(state)

    def mend(self) -> None:
        """See to those whose time has come."""
        if self._unlooked:
            self._find_broken()
        self._wake_parked()
        for jid in self.gangs.due(self.now):
            self._release(self.jobs[jid])

    def _wake_parked(self) -> None:
        """Give parked jobs another attempt, where capacity was freed since they were parked."""
        for jid, stamp in self.parking.wake(self.now, self.accounts.capacity.changes):
            state = self.jobs.get(jid)
            if state is not None and state.stamp == stamp:
                self.parking.once_more(state)
                self._enqueue(state)

    def _release(self, state: JobState) -> None:
        """Stop what is left of a gang that was not repaired in time."""
        jid = state.job.jid
        if state.standing is Standing.OPEN or state.unread:
            self.gangs.later(jid, self.now)
            return
        self.gangs.release(jid)
        state.stopping = {t for t, s in enumerate(state.states) if s in HOLDING}
        if state.stopping:
            self.departures.ask(jid, sorted(state.stopping))
            if state.standing is not Standing.DONE:
                self._enqueue(state)
            self.moved(jid)

    def look_again(self) -> None:
        """Hold back nobody for what a worker found: there are workers now that know better."""
        for state in self.jobs.values():
            state.tried.clear()
        for queue in self.lines.queues.values():
            for line in queue.lines.values():
                line.infeasible_at = -1
