"""conformance: pods that keep the cluster alive are never victims.

Volcano's rule: everything in ``kube-system``, and what has one of Kubernetes' two system priority
classes. The priority itself counts as well, as a pod may have it without the class.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.framework.session import Session
from shard_worker.session_model.job import TaskInfo
from shared.policy.model import PluginOption

SYSTEM_NAMESPACE = "kube-system"
SYSTEM_PRIORITY = 2_000_000_000
"""Lowest priority of Kubernetes' two system classes; no user's class may be this high."""
SYSTEM_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})
"""The class names are checked too: a pod may name a class that this cluster does not have."""


class Conformance:
    name = "conformance"

    def __init__(self, option: PluginOption) -> None:
        del option  # it takes no arguments

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_preemptable_fn(evictable)
        ssn.add_reclaimable_fn(evictable)
        ssn.add_unified_evictable_fn(evictable)


def evictable(_: object, victims: Sequence[TaskInfo], *__: object) -> list[TaskInfo]:
    """The candidates that are not system pods."""
    return [victim for victim in victims if not _keeps_alive(victim)]


def _keeps_alive(task: TaskInfo) -> bool:
    return (
        task.job.job.namespace == SYSTEM_NAMESPACE
        or task.priority >= SYSTEM_PRIORITY
        or task.role.priority_class in SYSTEM_CLASSES
    )
