"""Which pending reasons end by themselves, and which name a missing object."""

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
"""Reasons that other tasks can end, by coming or by going, with the cluster as it is."""


def is_missing(reason: str) -> bool:
    """Does the reason name an object that does not exist, or is invalid?"""
    ends = reason.endswith((" not found", " does not exist"))
    return ends or reason == NO_VOLUME or reason.startswith(claims.UNJUDGED)
