"""What the ledger has to hold whole when an action evicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
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


def guards(session: Session, action: str, jobs: Iterable[SessionJob]) -> int:
    """What the ledger has to hold whole when an action evicts from these jobs: what a rule stands
    for, and what is whole as far as is known here. A tier without that rule may have decided; then
    the ledger would refuse for ever what was meant. Within a queue nothing is guaranteed."""
    victims = list(jobs)
    speaks = {hook.plugin for hook in session.rules(NAMES_VICTIMS[action])}
    found = 0
    gone = Counter(op.task.job.job.jid for op in session.committed if op.kind is OpKind.EVICT)
    if "gang" in speaks and all(_whole(job, gone[job.job.jid]) for job in victims):
        found |= GUARD_GANG
    shares = action in BETWEEN_QUEUES and speaks & {"capacity", "proportion"}
    if shares and all(map(_guaranteed, victims)):
        found |= GUARD_GUARANTEE
    return found


def _whole(job: SessionJob, evicted: int) -> bool:
    """Is nothing left of each of its groups, or the minimum?

    ``evicted``: members that this session evicts. Others that leave, or ask for nothing, are none
    of the gang in a session; the ledger counts them, so that not nothing is left there."""
    others = job.best_effort[0] + job.census.of(LOST) - evicted
    return all(
        held >= group.minimum or held + others <= 0
        for held, group in zip(job.held, job.job.groups, strict=True)
    )


def _guaranteed(job: SessionJob) -> bool:
    """Have its queue and those above what they are guaranteed?"""
    queue = job.queue
    return queue is not None and all(
        used(info).get(slot, 0) >= least
        for info in (queue, *queue.above)
        for slot, least in info.queue.guarantee
    )
