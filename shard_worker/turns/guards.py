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
    """What the ledger has to hold whole when an action evicts: what a rule stands for, and what is
    whole as far as is known here. A tier without that rule may have decided; then the ledger would
    refuse for ever what was meant. Within a queue nothing is guaranteed.

    Each run of victims is judged by itself. This view may be old: that one job is in part here
    is no reason to let the ledger take another one's gang apart."""

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
    """Is nothing left of a group and of each above it, or the minimum?

    ``evicted``: members that this session evicts. Others that leave, or ask for nothing, are none
    of the gang in a session; the ledger counts them, so that not nothing is left there."""
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
