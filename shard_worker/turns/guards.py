"""What the ledger has to hold whole when an action evicts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from shard_worker.framework.extension_points import (
    PREEMPTABLE,
    RECLAIMABLE,
    UNIFIED_EVICTABLE,
    VICTIM_TASKS,
    Point,
)
from shard_worker.framework.operation import OpKind
from shard_worker.framework.session import Session
from shard_worker.session_model.job import SessionJob
from shard_worker.session_model.queue_totals import used
from shard_worker.session_model.status import LOST
from shared.messages.messages import GUARD_GANG, GUARD_GUARANTEE

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
    gang that this view, which may be old, shows in part says nothing about other jobs' gangs."""

    def __init__(self, session: Session, action: str) -> None:
        speaks = {hook.plugin for hook in session.rules(NAMES_VICTIMS[action])}
        self._gangs = "gang" in speaks
        shares = speaks & {"capacity", "proportion"}
        self._guarantees = action in BETWEEN_QUEUES and bool(shares)
        evictions = (op for op in session.committed if op.kind is OpKind.EVICT)
        self._evicted = Counter(op.task.job.job.jid for op in evictions)

    def of(self, job: SessionJob, group: int) -> int:
        """The guards of victims of a group of a job."""
        guards = 0
        if self._gangs and _whole(job, group, evicted=self._evicted[job.job.jid]):
            guards |= GUARD_GANG
        if self._guarantees and _guaranteed(job):
            guards |= GUARD_GUARANTEE
        return guards


def _whole(job: SessionJob, group: int, *, evicted: int) -> bool:
    """Whether the group, and each group above it, keeps its minimum or is empty.

    ``evicted``: members that this session evicts. Members that leave for another reason, were lost,
    or are best-effort do not count as held in a session. The ledger counts them, so for it a group
    with such members is not empty."""
    others = job.best_effort[0] + job.census.of(LOST) - evicted
    # A parent's minimum counts members of its other groups too, so that each level is asked by
    # itself.
    while group >= 0:
        held = job.held[group]
        if held < job.job.groups[group].minimum and held + others > 0:
            return False
        group = job.job.groups[group].parent
    return True


def _guaranteed(job: SessionJob) -> bool:
    """Have its queue and those above what they are guaranteed?"""
    queue = job.queue
    return queue is not None and all(
        used(info).get(slot, 0) >= least
        for info in (queue, *queue.above)
        for slot, least in info.queue.guarantee
    )
