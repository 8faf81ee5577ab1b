"""The amounts of one queue by kind: what the metrics export, and the page draws."""

from __future__ import annotations

from collections.abc import Mapping

from shard_worker.session_model.workload import Amounts, QueueInfo


def amounts_by_kind(
    info: QueueInfo, deserved: Mapping[int, float], head: Amounts
) -> dict[str, Mapping[int, float]]:
    """Kind -> slot -> amount. What is asked for beyond what it has, open turns counted, waits for a
    turn. ``head``: what the first job in line asks for."""
    return {
        "allocated": info.allocated,
        "request": info.requested,
        "pending": {s: a - info.allocated.get(s, 0) for s, a in info.requested.items()},
        "head_pending": head,
        "deserved": deserved,
        "guarantee": dict(info.queue.guarantee),
        "capability": dict(info.queue.capability or ()),
    }
