"""conformance: pods that keep the cluster alive are never victims."""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.session import Registrar
from shared.model import Job
from shared.policy import PluginOption

SYSTEM_NAMESPACE = "kube-system"
SYSTEM_PRIORITY = 2_000_000_000
"""Kubernetes' classes system-cluster-critical and system-node-critical begin here; no other may."""


class Conformance:
    name = "conformance"

    def __init__(self, option: PluginOption) -> None:
        del option  # it takes no arguments

    def register(self, session: Registrar) -> None:
        session.add("Preemptable", evictable)
        session.add("Reclaimable", evictable)
        session.add("UnifiedEvictable", evictable)


def evictable(victims: Sequence[tuple[Job, int]]) -> list[tuple[Job, int]]:
    """Those of the candidates, (job, priority of the pod), that may be evicted at all."""
    return [
        (job, priority)
        for job, priority in victims
        if job.namespace != SYSTEM_NAMESPACE and priority < SYSTEM_PRIORITY
    ]
