"""Admission of jobs by the action enqueue.

Volcano creates no pods for a job before its admission. Here its pods may exist already; they wait.
A job that does not state what it needs at least (minResources) is admitted at once, and so is every
job where the policy lacks the action.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.jobs.state import JobState
from shard_worker.dialects.volcano.actions.enqueue import enqueue, refusal
from shard_worker.framework.session import Session
from shard_worker.session_model.queue_totals import INQUEUE, mark_inqueue, waits_for_entry
from shard_worker.session_model.workload import ClusterInfo
from shared.messages.reason import Reason

ASK_SECONDS = 0.05
"""Minimum interval between two judgements of the waiting jobs; the totals must have changed, or the
interval below be over."""

ASK_ANYHOW_SECONDS = 1.0
"""Interval of judgements without a change: some plugins admit a job because of its waiting time."""


class EnqueueGate:
    def __init__(self, session: Session) -> None:
        self.on = False
        self.admitted: Callable[[int], None] = lambda _: None
        """Hears of jobs that are admitted before they have any task: nothing else tells that their
        phase is another, and their controller makes the pods after it."""
        self.waiting: dict[int, JobState] = {}
        self.why: dict[int, Reason] = {}
        """Why those were refused that were judged before."""
        self._asked = float("-inf")
        self._revision = -1
        self.adopt(session)

    def adopt(self, session: Session) -> None:
        self.on = "enqueue" in session.policy.actions
        self._revision = -1

    def passes(self, state: JobState, cluster: ClusterInfo) -> bool:
        """Whether the job may be tried. A job that is not admitted yet is kept and judged later."""
        info = state.info
        if not waits_for_entry(info.phase):
            return True
        if not self.on or info.job.min_resources is None:
            if info.job.min_resources is None:
                info.phase = INQUEUE
            else:
                mark_inqueue(cluster, info)
            self._report(state)
            return True
        self.waiting[info.job.jid] = state
        return False

    def judge(
        self, session: Session, cluster: ClusterInfo, now: float
    ) -> list[tuple[JobState, Reason | None]]:
        """Judge the waiting jobs: each with the reason of its refusal, None where it is
        admitted."""
        for jid in [jid for jid, state in self.waiting.items() if not state.counted]:
            self.forget(jid)  # all its tasks have ended: it takes no part any more
        if not self.waiting or not self._due(cluster, now):
            return []
        self._asked, self._revision = now, cluster.revision
        waiting: list[tuple[JobState, Reason | None]] = []
        infos = [state.info for state in self.waiting.values()]
        # The session's own action over the same totals: two implementations of one rule would
        # differ some day in what they count (decision 0035).
        for info, admitted in list(enqueue(session, cluster, infos)):
            jid = info.job.jid
            if admitted:
                self.why.pop(jid, None)
                waiting.append((self.waiting.pop(jid), None))
                self._report(waiting[-1][0])
            else:
                why = self.why[jid] = refusal(session, cluster, info)[0]
                waiting.append((self.waiting[jid], why))
        return waiting

    def _report(self, state: JobState) -> None:
        if not state.states:
            self.admitted(state.job.jid)

    def _due(self, cluster: ClusterInfo, now: float) -> bool:
        if now < self._asked + ASK_SECONDS:
            return False
        return self._revision != cluster.revision or now >= self._asked + ASK_ANYHOW_SECONDS

    def next_due(self) -> float | None:
        return self._asked + ASK_ANYHOW_SECONDS if self.waiting else None

    def take(self) -> list[JobState]:
        """Remove and return all waiting jobs, to call :meth:`passes` again."""
        waiting = list(self.waiting.values())
        self.waiting.clear()
        self.why.clear()
        return waiting

    def forget(self, jid: int) -> None:
        self.waiting.pop(jid, None)
        self.why.pop(jid, None)
