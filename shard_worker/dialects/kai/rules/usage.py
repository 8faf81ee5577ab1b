"""Usage over time: what queues held in a window of the past, as a part of what there was.

KAI's ``sum(allocated(t) * decay(t)) / sum(capacity(t) * decay(t))`` over the samples of a window,
with ``decay = 0.5 ** (age / half-life)``. Samples are kept as sums of a bounded number of buckets.
A bucket's samples count as spread evenly over its time and as equal to their mean, so that the
outcome is that of the single samples except for what changed within one bucket that the window's
begin cuts, or within one in which the decay differs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from shard_worker.dialects.kai.rules.amounts import NOTHING, Amounts
from shared.policy.kai_usage import USAGE_ONE, UsageWindow
from shared.records.usage import MEMORY_UNIT, Sums, UsageBucket

BUCKETS = 120
"""Number of buckets in a whole window: one of a week has buckets of 84 minutes."""
LIMIT = 2 * BUCKETS
"""Maximum number of stored buckets. There are more than :data:`BUCKETS` after a change of the
window only."""
HALF_LIVES = 12
"""Older samples weigh less than a 4,000th and are dropped."""
POINTS = 64
"""At most so many moments of a bucket are weighed, where it has more samples."""
_WEIGHT_ONE = 2**40
"""Weights are whole numbers, so that no order of additions can change a sum."""


def width(window: UsageWindow, resolution: float, now: float) -> int:
    """Seconds from the begin of one bucket to that of the next."""
    horizon = window.horizon(now)
    if window.half_life:
        horizon = min(horizon, HALF_LIVES * window.half_life)
    return max(1, math.ceil(horizon / BUCKETS / resolution)) * max(1, round(resolution))


def kept_since(window: UsageWindow, now: float) -> float:
    """Samples before this moment are not needed any more."""
    since = window.since(now)
    return max(since, now - HALF_LIVES * window.half_life) if window.half_life else since


def added(
    buckets: Sequence[UsageBucket],
    at: int,
    held: Mapping[str, Amounts],
    capacity: Amounts,
    *,
    window: UsageWindow,
    resolution: float,
) -> list[UsageBucket]:
    """The buckets with a sample of the moment ``at``, which is newer than all, and without those
    that no window needs any more; the oldest first."""
    since = kept_since(window, at)
    recent = [bucket for bucket in buckets if bucket.last >= since]
    queues = {name: _sums(amounts) for name, amounts in held.items() if amounts != NOTHING}
    sample = UsageBucket(at, at, 1, _sums(capacity), queues)
    span = width(window, resolution, at)
    if recent and recent[-1].first // span == at // span and recent[-1].first >= window.since(at):
        recent[-1] = merged(recent[-1], sample)
    else:
        recent.append(sample)
    while len(recent) > LIMIT:
        recent[:2] = [merged(recent[0], recent[1])]
    return recent


def merged(older: UsageBucket, newer: UsageBucket) -> UsageBucket:
    """Two buckets that follow each other as one."""
    queues = dict(older.queues)
    for name, sums in newer.queues.items():
        queues[name] = _plus(queues.get(name, (0, 0, 0)), sums)
    return UsageBucket(
        older.first,
        newer.last,
        older.samples + newer.samples,
        _plus(older.capacity, newer.capacity),
        queues,
    )


def usage_of(buckets: Iterable[UsageBucket], window: UsageWindow, now: float) -> dict[str, Amounts]:
    """Each queue's part of what there was, by resource, in billionths. A queue that held nothing,
    and a resource that the cluster had none of, count 0."""
    since = window.since(now)
    capacity = [0, 0, 0]
    totals: dict[str, list[int]] = {}
    for bucket in buckets:
        weight = _mean_weight(bucket, window.half_life, since, now)
        if not weight:
            continue
        capacity = [
            had + weight * more for had, more in zip(capacity, bucket.capacity, strict=True)
        ]
        for name, (cpu, memory, gpu) in bucket.queues.items():
            total = totals.setdefault(name, [0, 0, 0])
            total[0] += weight * cpu
            total[1] += weight * memory
            total[2] += weight * gpu
    return {
        name: Amounts(*(_part(n, of) for n, of in zip(total, capacity, strict=True)))
        for name, total in totals.items()
    }


def _mean_weight(bucket: UsageBucket, half_life: float, since: float, now: float) -> int:
    """Weight of one sample of the bucket in the mean; a sample of now has :data:`_WEIGHT_ONE`."""
    points = min(bucket.samples, POINTS)
    length, total = bucket.last - bucket.first, 0
    for number in range(points):
        at = bucket.first + length * number / max(1, points - 1)
        if not since <= at <= now:
            continue
        total += round(_WEIGHT_ONE * 0.5 ** ((now - at) / half_life)) if half_life else _WEIGHT_ONE
    return total // points


def _part(used: int, of: int) -> int:
    return USAGE_ONE * used // of if of else 0


def _sums(amounts: Amounts) -> Sums:
    return (max(0, amounts.cpu), max(0, amounts.memory // MEMORY_UNIT), max(0, amounts.gpu))


def _plus(left: Sums, right: Sums) -> Sums:
    return (left[0] + right[0], left[1] + right[1], left[2] + right[2])
