"""Departures: deleted jobs, and deleted members of remaining jobs, until their last task has left.

A deleted job gets no turn any more. What it holds counts in every total until the end of each of
its tasks is recorded: tasks are stopped at the cluster, repeatedly, until it reports their end.
Tasks whose bind was refused are stopped too, so that no late copy of that request starts one. After
that the job is purged: removed from intake and ledger.

A turn that was open when the job was deleted may still have placed tasks: its outcome is awaited
like any other, and those tasks are stopped too.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import NamedTuple

from coordinator.jobs.accounts import Accounts
from coordinator.jobs.state import JobState, SchedulingStatus
from shared.messages.messages import ENDED, HOLDING, TaskState
from shared.model.model import Job

STOP_AGAIN_SECONDS = 1.0
"""Interval after which a task that was asked to stop and did not end is asked again; doubles each
time, up to the limit below."""

STOP_AGAIN_LIMIT_SECONDS = 30.0

Task = tuple[int, int]
"""(jid, tix)"""


class Departing(NamedTuple):
    """Work that :class:`Departures` has collected."""

    stop: list[Task]
    fail: list[Task]
    purge_jobs: list[int]
    purge_members: list[Task]


class Departures:
    """``jobs``: deleted and not purged yet. ``members``: jid -> deleted members not purged yet."""

    def __init__(self, accounts: Accounts, present: dict[int, JobState]) -> None:
        """``present``: the jobs that are not deleted."""
        self.jobs: dict[int, JobState] = {}
        self.members: dict[int, set[int]] = {}
        self.stop: list[Task] = []
        """Tasks to stop at the cluster now."""
        self.fail: list[Task] = []
        """Members that were never placed, to be recorded as FAILED now."""
        self.purge_jobs: list[int] = []
        self.purge_members: list[Task] = []
        self.jobs_gone = 0
        """Number of purged jobs, since the start."""
        self.tasks_gone = 0
        """Number of their tasks."""
        self._accounts = accounts
        self._present = present
        self._purging: set[int] = set()
        self._failing: set[Task] = set()
        self._asked: dict[int, set[int]] = {}
        """jid -> tasks that were asked to stop."""
        self._again: list[tuple[float, float, int]] = []
        """Heap of (when, seconds waited, jid)."""
        self._now = 0.0
        self._began = False

    def take(self) -> Departing:
        """Return the due work and clear it."""
        due = Departing(self.stop, self.fail, self.purge_jobs, self.purge_members)
        self.stop, self.fail, self.purge_jobs, self.purge_members = [], [], [], []
        return due

    # --- jobs ---------------------------------------------------------------------------------

    def enter(self, state: JobState) -> None:
        """Add a deleted job, which is in no line any more."""
        jid = state.job.jid
        self.jobs[jid] = state
        for tix in self.members.pop(jid, ()):
            self._failing.discard((jid, tix))
        # It is no job of its queue any more; what its tasks hold stays in every total until each
        # end is recorded. Taken out at once, nodes would look free that are not (decision 0014).
        self._accounts.retire(state)
        self.settle(state)

    def settle(self, state: JobState) -> None:
        """Act on a change of a deleted job: stop the tasks it holds, or have it purged."""
        jid, states, refused = state.job.jid, state.states, state.refused
        # While a turn is out, or unread, pending tasks may be placed already: nothing may be called
        # ended.
        if not (state.status is SchedulingStatus.OPEN or state.unread):
            if states.count(TaskState.PENDING):
                pending = [t for t, s in enumerate(states) if s == TaskState.PENDING]
                self._accounts.move(state, pending, TaskState.FAILED)
            # Refused tasks hold nothing, but a late copy of their bind could still start them:
            # purged first, the job would leave a task that nobody knows (decision 0022).
            if not (refused or holds(state)):
                if jid not in self._purging:
                    self._purging.add(jid)
                    self._asked.pop(jid, None)
                    self.purge_jobs.append(jid)
                return
        # Also while a turn is out: what runs has to end in any case.
        self.ask(jid, sorted(refused.union(t for t, s in enumerate(states) if s in HOLDING)))

    def purged(self, jid: int) -> None:
        """Note that intake and ledger have removed the job."""
        state = self.jobs.pop(jid, None)
        if state is not None:
            self._purging.discard(jid)
            self.jobs_gone += 1
            self.tasks_gone += len(state.states)
            self._accounts.forget(state)

    def requeue(self, queue_of: Callable[[Job], int]) -> None:
        """Count each deleted job in its queue where that came or went: a queue may leave the node
        pool before the last task of its deleted jobs has ended. ``queue_of``: number of a job's
        queue, -1 for none."""
        accounts = self._accounts
        for state in self.jobs.values():
            qid, promised = queue_of(state.job), state.charge
            if qid == state.info.qid:
                continue
            accounts.give_back(state)
            accounts.forget(state)
            state.info.qid = qid
            accounts.admit(state)
            accounts.retire(state)
            accounts.promise(state, promised)

    # --- members ------------------------------------------------------------------------------

    def enter_members(self, jid: int, tasks: Iterable[int]) -> None:
        """Add deleted members of a remaining job; :meth:`settle_members` must follow."""
        self.members.setdefault(jid, set()).update(tasks)

    def settle_members(self, state: JobState) -> bool:
        """Stop deleted members, fail those that were never placed, purge those that ended.

        True where the job has fewer tasks to place now. Nothing happens while a turn of the job is
        open: it may be placing them.
        """
        jid, states = state.job.jid, state.states
        if state.status is SchedulingStatus.OPEN or state.unread:
            return False
        members = self.members[jid]
        pending = [t for t in sorted(members) if states[t] == TaskState.PENDING]
        # Members that were never placed are FAILED here at once, but purged only when the ledger
        # has recorded it.
        ended = [t for t in sorted(members) if states[t] in ENDED and (jid, t) not in self._failing]
        self.ask(jid, [t for t in sorted(members) if _may_run(state, t)])
        if pending:
            self._accounts.move(state, pending, TaskState.FAILED)
            self._failing.update((jid, t) for t in pending)
            self.fail += [(jid, t) for t in pending]
        self._purge_members(jid, ended)
        return bool(pending)

    def failed(self, tasks: Iterable[Task]) -> None:
        """Forget members whose failure, asked for in :attr:`fail`, is recorded."""
        for jid, tix in tasks:
            if (jid, tix) in self._failing:
                self._failing.discard((jid, tix))
                self._purge_members(jid, [tix])

    def _purge_members(self, jid: int, tasks: list[int]) -> None:
        if not tasks:
            return
        members = self.members[jid]
        members.difference_update(tasks)
        if not members:
            del self.members[jid]
        self.purge_members += [(jid, t) for t in tasks]

    # --- stopping -----------------------------------------------------------------------------

    def ask(self, jid: int, tasks: list[int]) -> None:
        """Have these tasks stopped; those not asked before are asked at once."""
        requested = self._asked.setdefault(jid, set())
        fresh = [t for t in tasks if t not in requested]
        if not fresh:
            return
        if not requested:
            due = self._now + STOP_AGAIN_SECONDS
            heapq.heappush(self._again, (due, STOP_AGAIN_SECONDS, jid))
        requested.update(fresh)
        self.stop += [(jid, t) for t in fresh]

    def ask_later(self, jid: int, tasks: Iterable[int]) -> None:
        """Watch for the end of tasks that others have asked the cluster to stop."""
        requested = self._asked.setdefault(jid, set())
        if not requested:
            due = self._now + STOP_AGAIN_SECONDS
            heapq.heappush(self._again, (due, STOP_AGAIN_SECONDS, jid))
        requested.update(tasks)

    def ended(self, jid: int, tasks: Iterable[int]) -> None:
        """Note that these tasks ended: a new incarnation of them must not be stopped."""
        if jid in self._asked:
            self._asked[jid].difference_update(tasks)

    def begin(self, now: float) -> None:
        """Ask again for tasks that were asked to stop and have not ended."""
        if not self._began:  # what a takeover asks for knows no time: this step asks first
            self._began = True
            self._again = [(now + waited, waited, jid) for _, waited, jid in self._again]
        self._now = now
        while self._again and self._again[0][0] <= now:
            _, waited, jid = heapq.heappop(self._again)
            state = self.jobs.get(jid) or self._present.get(jid)
            still = [t for t in self._asked.get(jid, ()) if state and _may_run(state, t)]
            if not still:
                self._asked.pop(jid, None)
                continue
            wait = min(waited * 2, STOP_AGAIN_LIMIT_SECONDS)
            heapq.heappush(self._again, (now + wait, wait, jid))
            self.stop += [(jid, t) for t in sorted(still)]

    def stopped(self, tasks: Iterable[Task]) -> None:
        """Note that the cluster was asked to stop these tasks and accepts no bind of
        them any more."""
        for jid, tix in tasks:
            state = self.jobs.get(jid) or self._present.get(jid)
            if state is None or tix not in state.refused:
                continue
            state.refused -= {tix}
            if jid in self.jobs and not state.refused:
                self.settle(state)

    def next_due(self) -> float | None:
        return self._again[0][0] if self._again else None


def _may_run(state: JobState, tix: int) -> bool:
    return state.states[tix] in HOLDING or tix in state.refused


def holds(state: JobState) -> bool:
    """Whether any task of the job occupies a node."""
    return any(state.states.count(s) for s in HOLDING)
