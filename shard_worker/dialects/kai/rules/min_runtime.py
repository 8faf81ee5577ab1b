"""How long a job runs before others may evict it: the times of queues, and which of them counts.

A queue without a time of its own has that of the nearest queue above it that has one, else the
policy's default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum


class ReclaimMethod(Enum):
    """From which queue on the time against a reclaim is looked up."""

    LCA = "lca"
    """From just below the lowest queue that is above both jobs, on the victim's side."""
    QUEUE = "queue"
    """From the victim's own queue."""


Times = Mapping[str, float | None]
"""Queue -> seconds, None where it has none of its own."""


def preempt_runtime(victim_chain: Sequence[str], times: Times, default: float) -> float:
    """Seconds, against a job of the same queue. ``victim_chain``: queues from the leaf up."""
    return _nearest(victim_chain, times, default)


def reclaim_runtime(
    reclaimer_chain: Sequence[str],
    victim_chain: Sequence[str],
    times: Times,
    default: float,
    method: ReclaimMethod = ReclaimMethod.LCA,
) -> float:
    """Seconds, against a job of another queue. Chains: queues from the leaf up."""
    if method is ReclaimMethod.QUEUE:
        return _nearest(victim_chain, times, default)
    shared = set(reclaimer_chain)
    below = [queue for queue in victim_chain if queue not in shared]
    start = len(below) - 1 if below else 0
    return _nearest(victim_chain[start:], times, default)


def _nearest(chain: Sequence[str], times: Times, default: float) -> float:
    runtimes = (time for queue in chain if (time := times.get(queue)) is not None)
    return next(runtimes, default)


def longest(times: Iterable[float | None], defaults: Iterable[float]) -> float:
    """The longest time that a job may be protected for."""
    return max((time for time in (*times, *defaults) if time is not None), default=0.0)


def is_protected(last_start: float | None, runtime: float, now: float) -> bool:
    """Whether a job that started then has not run for so long yet."""
    return last_start is not None and now < last_start + runtime
