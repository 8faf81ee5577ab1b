"""Classes of pending reasons: those that other tasks can end, and those about missing objects."""

from __future__ import annotations

from shard_worker.dialects.volcano.plugins.node.predicates import PODS_FULL
from shard_worker.kube_scheduler.devices import claims
from shard_worker.kube_scheduler.filters import pod_affinity, topology_spread, volume_limits
from shard_worker.kube_scheduler.filters.volumes import NO_VOLUME
from shared.units.things import NO_FREE_PORTS

PASSING = frozenset(
    {
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
    """Whether the reason is that an object does not exist or is invalid."""
    ends = reason.endswith((" not found", " does not exist"))
    return ends or reason == NO_VOLUME or reason.startswith(claims.UNJUDGED)
