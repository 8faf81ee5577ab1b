"""Gangs that have been below their minimum for too long: the action stalegangeviction.

A job is judged when tasks of it end or leave, and when a coordinator begins to lead. Its time
begins when it is first seen broken; each further look is a turn, in which a worker evicts what is
left of the gang.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from coordinator.jobs.state import JobState, SchedulingStatus
from shard_worker.framework.session import Session
from shard_worker.session_model.workload import ClusterInfo
from shared.messages.messages import TaskState

STALE = "stalegangeviction"
"""The action of the turn in which a worker evicts them."""
LOOK_AGAIN_SECONDS = 1.0
"""Pause after a turn, or where a turn of the job is open."""
_EVICTABLE = (TaskState.BOUND, TaskState.RUNNING)


class StaleGangs:
    def __init__(self, session: Session) -> None:
        self._fresh: set[int] = set()
        """Jobs that may have become broken, or whole, since the last look."""
        self._since: dict[int, float] = {}
        """Broken jobs -> since when, seconds since 1970."""
        self._due: list[tuple[float, int]] = []
        """Heap of (when, jid)."""
        self._changes: dict[int, float | None] = {}
        """Jobs that became broken -> since when, or whole -> None, since this was last taken."""
        self.adopt(session)

    def adopt(self, session: Session) -> None:
        """Go by the session of another policy."""
        self._judge_by = session.broken_gang if STALE in session.policy.actions else None

    @property
    def on(self) -> bool:
        """Whether the policy evicts them."""
        return self._judge_by is not None

    def note(self, jid: int) -> None:
        """Note that tasks of a job came, ended or left."""
        self._fresh.add(jid)

    def forget(self, jid: int) -> None:
        self._fresh.discard(jid)
        self._since.pop(jid, None)
        self._changes.pop(jid, None)

    def take_changes(self) -> dict[int, float | None]:
        """Jobs that became broken -> since when, and those that are whole again -> None. Each
        change is returned once."""
        changes, self._changes = self._changes, {}
        return changes

    def next(
        self, jobs: Mapping[int, JobState], cluster: ClusterInfo, now: float
    ) -> JobState | None:
        """The next job whose time is over and that may have a turn."""
        for jid in self._fresh:
            state = jobs.get(jid)
            if state is not None and (due := self._judge(state, cluster, now)) is not None:
                heapq.heappush(self._due, (due, jid))
        self._fresh.clear()
        while self._due and self._due[0][0] <= now:
            _, jid = heapq.heappop(self._due)
            state = jobs.get(jid)
            due = None if state is None else self._judge(state, cluster, now)
            if state is None or due is None:
                continue
            heapq.heappush(self._due, (max(due, now + LOOK_AGAIN_SECONDS), jid))
            if due <= now and _may_go(state):
                return state
        return None

    def _judge(self, state: JobState, cluster: ClusterInfo, now: float) -> float | None:
        """When the job's time is over; None where it is no broken gang."""
        jid = state.job.jid
        broken = (
            None if self._judge_by is None else self._judge_by(state.info, state.states, cluster)
        )
        if broken is None:
            if self._since.pop(jid, None) is not None or _was_stale(state, cluster):
                self._changes[jid] = None
            return None
        if jid not in self._since:
            self._since[jid] = self._changes[jid] = min(broken.since or now, now)
        return self._since[jid] + broken.grace

    def next_due(self) -> float | None:
        return self._due[0][0] if self._due else None


def _was_stale(state: JobState, cluster: ClusterInfo) -> bool:
    """Whether the job's PodGroup still says, by an earlier leader, that it is broken."""
    group = cluster.objects.kai_groups.get(state.job.kai_group)
    return group is not None and group.stale_since is not None


def _may_go(state: JobState) -> bool:
    waits = state.status is SchedulingStatus.OPEN or state.unread or state.releasing_nominations
    return not waits and any(now in _EVICTABLE for now in state.states)
