"""What reasons beyond amounts mean: what passes with other tasks, and what is missing."""

from __future__ import annotations

from shard_worker.plugins import devices, inter_pod, topology_spread, volume_limits
from shard_worker.plugins.predicates import PODS_FULL
from shard_worker.plugins.volumes import NO_VOLUME

PASSING = frozenset(
    {
        PODS_FULL,
        devices.NONE_FREE,
        inter_pod.AFFINITY,
        inter_pod.ANTI,
        inter_pod.OTHERS,
        topology_spread.SKEW,
        volume_limits.LIMIT,
    }
)
"""Reasons that other tasks can end, by coming or by going, with the cluster as it is."""


def is_missing(reason: str) -> bool:
    """Does the task name an object that is not there, or that means nothing?"""
    ends = reason.endswith((" not found", " does not exist"))
    return ends or reason == NO_VOLUME or reason.startswith(devices.UNJUDGED)
