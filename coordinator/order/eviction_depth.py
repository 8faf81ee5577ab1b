"""queueDepthPerAction of an evicting action: of each queue only the first jobs are searched for.

As in KAI, those count for which the action searches at all, by job order: a job in its
preemptionDelay, or one that consolidation leaves alone, is no place lost to those behind it. One
whose search failed counts as long as it waits; one that has a promise waits no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from coordinator.jobs.pending_order import PendingQueue
from coordinator.jobs.pending_queue import Lines
from coordinator.jobs.pending_tree import Entry
from coordinator.jobs.state import JobState, SchedulingStatus
from shard_worker.framework.session import Session
from shard_worker.session_model.workload import ClusterInfo


class EvictionDepth:
    """The bounds of one look at the waiting jobs."""

    def __init__(
        self,
        session: Session,
        cluster: ClusterInfo,
        lines: Lines,
        jobs: Mapping[int, JobState],
        searched: Callable[[], Iterable[int]],
    ) -> None:
        """``searched``: the jobs for which evictions were tried."""
        self._session = session
        self._cluster = cluster
        self._lines = lines
        self._jobs = jobs
        self._searched = searched
        self._busy: Counter[int] | None = None
        self._last: dict[tuple[int, str], Entry | None] = {}
        """(queue, action) -> the last of its jobs that is tried; None where none is."""

    def of(self, queue: PendingQueue, entry: Entry) -> Callable[[str], bool]:
        """Whether a waiting job is among the first of its queue, by the action that asks."""

        def within(action: str) -> bool:
            depth = self._session.depths.get(action)
            if depth is None:
                return True
            key = queue.info.queue.qid, action
            if key not in self._last:
                self._last[key] = self._last_of(queue, action, depth)
            last = self._last[key]
            return last is not None and entry <= last

        return within

    def _last_of(self, queue: PendingQueue, action: str, depth: int) -> Entry | None:
        left = max(depth - self._busy_in(queue.info.queue.qid), 0)
        counted = (
            entry
            for entry in self._lines.in_order(queue)
            if self._session.evicts_for(action, self._jobs[entry[2]].info, self._cluster)
        )
        tried = list(islice(counted, left))
        return tried[-1] if tried else None

    def _busy_in(self, qid: int) -> int:
        """Jobs of a queue for which evictions were tried, and that are out for another turn: they
        come back to where they were, and those behind them would pass them meanwhile."""
        if self._busy is None:
            searched = (self._jobs[jid] for jid in self._searched() if jid in self._jobs)
            self._busy = Counter(
                state.info.qid
                for state in searched
                if state.served and state.status is not SchedulingStatus.NOMINATED
            )
        return self._busy[qid]
