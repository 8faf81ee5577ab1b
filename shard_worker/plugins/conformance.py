"""conformance: pods that keep the cluster alive are never victims."""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.session import Session
from shard_worker.tasks import TaskInfo
from shared.policy import PluginOption

SYSTEM_NAMESPACE = "kube-system"
SYSTEM_PRIORITY = 2_000_000_000
"""Kubernetes' classes system-cluster-critical and system-node-critical begin here; no other may."""


class Conformance:
    name = "conformance"

    def __init__(self, option: PluginOption) -> None:
        del option  # it takes no arguments

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_preemptable_fn(evictable)
        ssn.add_reclaimable_fn(evictable)
        ssn.add_unified_evictable_fn(evictable)


def evictable(_: object, victims: Sequence[TaskInfo], *__: object) -> list[TaskInfo]:
    """Those of the candidates that may be evicted at all."""
    return [
        victim
        for victim in victims
        if victim.job.job.namespace != SYSTEM_NAMESPACE and victim.priority < SYSTEM_PRIORITY
    ]
