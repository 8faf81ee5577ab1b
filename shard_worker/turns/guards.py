"""Guards: the gangs that the ledger has to keep whole when an action evicts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from shard_worker.dialects.kai.actions import stale_gang_eviction
from shard_worker.dialects.kai.rules.groups import is_whole
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.extension_points import (
    PREEMPTABLE,
    RECLAIMABLE,
    UNIFIED_EVICTABLE,
    VICTIM_TASKS,
    Point,
)
from shard_worker.framework.operation import OpKind
from shard_worker.framework.session import Session
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.queue_totals import used
from shard_worker.session_model.status import LOST, OCCUPYING, READY, Status
from shared.messages.messages import GUARD_GANG, GUARD_GUARANTEE, GUARD_REST, GUARD_WHOLE

NAMES_VICTIMS: dict[str, Point[Any, Any]] = {
    "gangpreempt": UNIFIED_EVICTABLE,
    "gangreclaim": UNIFIED_EVICTABLE,
    "preempt": PREEMPTABLE,
    "reclaim": RECLAIMABLE,
    "shuffle": VICTIM_TASKS,
}
"""Action -> the point at which rules name its victims."""
BETWEEN_QUEUES = ("gangreclaim", "reclaim")


class Guards:
    """The conditions that the ledger checks for each run of victims: the victims' gang keeps its
    minimum or goes as a whole, and their queue keeps its guarantee.

    A condition is set only if a plugin of the policy demands it and if it holds in this session.
    Where it does not hold, a tier without that plugin decided, and the ledger would refuse the
    statement for ever. Within a queue no guarantee is at stake. Each run is judged by itself: a
    gang that this view, which may be old, shows in part says nothing about other jobs' gangs.

    Members that have ended count for their gang. Where all others leave, the ledger lets as many
    stay as this view shows, so that a member which another shard places meanwhile is noticed."""

    def __init__(self, session: Session, action: str) -> None:
        point = NAMES_VICTIMS.get(action)  # those of KAI alone have no rules of these points
        speaks = set() if point is None else {hook.plugin for hook in session.rules(point)}
        self._action = action
        self._kai = session if isinstance(session, KaiSession) else None
        self._gangs = "gang" in speaks or self._kai is not None
        shares = speaks & {"capacity", "proportion"}
        self._guarantees = action in BETWEEN_QUEUES and bool(shares)
        victims = [op.task for op in session.committed if op.kind is OpKind.EVICT]
        self._evicted = Counter(task.job.job.jid for task in victims)
        self._victims = {(task.job.job.jid, task.tix) for task in victims}

    def of(self, job: SessionJob, group: int) -> int:
        """The guards of victims of a group of a job."""
        guards = 0
        if job.job.leaves_whole:
            others = (task for task in job.tasks if not task.status & OCCUPYING)
            guards |= GUARD_WHOLE + sum(map(self._counts, others)) * GUARD_REST
        elif (rest := self._gang_rest(job, group)) is not None:
            guards |= GUARD_GANG + rest * GUARD_REST
        if self._guarantees and _guaranteed(job):
            guards |= GUARD_GUARANTEE
        return guards

    def _gang_rest(self, job: SessionJob, group: int) -> int | None:
        """See :meth:`_rest`; None also where nothing keeps the gang whole."""
        return self._rest(job, group) if self._gangs and self._keeps(job) else None

    def _keeps(self, job: SessionJob) -> bool:
        """Whether KAI's rules keep the gang whole: not one that is evicted because it is none, nor
        while a part of it moves, nor where it was in part before."""
        if self._kai is None:
            return True
        kai_job, moves = self._kai.kai_job(job), job.census.of(Status.PIPELINED)
        stale = self._action == stale_gang_eviction.NAME
        return kai_job is not None and not moves and not stale and is_whole(kai_job.root)

    def _rest(self, job: SessionJob, group: int) -> int | None:
        """How many members stay below the minimum of the group, or of one above it, all of them
        ended or ending: 0 where each keeps its minimum or is empty. None where others stay.

        Members that leave for another reason, were lost, or are best-effort do not count as held in
        a session. The ledger counts them, so for it a group with such members is not empty."""
        others = job.best_effort[0] + job.census.of(LOST) - self._evicted[job.job.jid]
        rest = 0
        # A parent's minimum counts members of its other groups too, so that each level is asked by
        # itself.
        while group >= 0:
            held = job.held[group]
            if held < job.job.groups[group].minimum and held + others > 0:
                members = [task for task in job.tasks if _is_below(job, task, group)]
                if any(task.status & OCCUPYING for task in members):
                    return None
                rest = max(rest, sum(map(self._counts, members)))
            group = job.job.groups[group].parent
        return rest

    def _counts(self, task: TaskInfo) -> bool:
        """Whether the ledger counts a task for its gang when the victims have left. A victim of an
        earlier statement that is leaving still is taken for one that ends by itself."""
        if (task.job.job.jid, task.tix) in self._victims:
            return False
        present = READY | Status.RELEASING
        return bool(task.status & (present | Status.PENDING if task.best_effort else present))


def _is_below(job: SessionJob, task: TaskInfo, group: int) -> bool:
    """Whether the task is of this group, or of one below it."""
    at = task.role.group
    while at > group:  # a group comes after the one that it is in
        at = job.job.groups[at].parent
    return at == group


def _guaranteed(job: SessionJob) -> bool:
    """Have its queue and those above what they are guaranteed?"""
    queue = job.queue
    return queue is not None and all(
        used(info).get(slot, 0) >= least
        for info in (queue, *queue.above)
        for slot, least in info.queue.guarantee
    )
