"""Classes of pending reasons: those that other tasks can end, and those about missing objects."""

from __future__ import annotations

from shard_worker.dialects.volcano.plugins.node.deviceshare import NO_DEVICE
from shard_worker.dialects.volcano.plugins.node.predicates import PODS_FULL
from shard_worker.kube_scheduler.devices import claims
from shard_worker.kube_scheduler.filters import pod_affinity, topology_spread, volume_limits
from shard_worker.kube_scheduler.filters.volumes import IMMEDIATE, LOST, NO_VOLUME
from shared.units.things import NO_FREE_PORTS

PASSING = frozenset(
    {
        NO_DEVICE,
        PODS_FULL,
        claims.NONE_FREE,
        pod_affinity.AFFINITY,
        pod_affinity.ANTI,
        pod_affinity.OTHERS,
        topology_spread.SKEW,
        volume_limits.LIMIT,
        NO_FREE_PORTS,
    }
)
"""Reasons that can end because other tasks start or end, with the nodes as they are."""


def is_missing(reason: str) -> bool:
    """Whether the reason is that an object does not exist, is invalid, or has to be completed by
    somebody else: no task that ends or starts changes that."""
    if reason.endswith((" not found", " does not exist")) or LOST in reason:
        return True
    return reason in (NO_VOLUME, IMMEDIATE) or reason.startswith(claims.UNJUDGED)
