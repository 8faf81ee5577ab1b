"""KAI's orders of jobs, tasks and sub groups in a service: keys that Order sorts by."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shard_worker.dialects.kai.plugins.orders import not_head, not_master, task_priority
from shard_worker.dialects.kai.rules.groups import ElasticClass, OrderKey, order_key
from shard_worker.framework.session import Session
from shard_worker.session_model.workload import ClusterInfo, JobInfo


def _elastic_class(info: JobInfo, cluster: ClusterInfo) -> float:
    """Jobs below the minimum of some sub group, then those at all of them, then those above one."""
    del cluster
    first = min(1, len(info.job.groups) - 1)  # the job itself has no minimum beside its sub groups'
    beyond = [n - group.minimum for n, group in zip(info.held, info.job.groups, strict=True)][
        first:
    ]
    if min(beyond) < 0:
        return ElasticClass.BELOW
    return ElasticClass.ABOVE if max(beyond) > 0 else ElasticClass.AT


def sub_group_key(info: JobInfo, group: int) -> OrderKey:
    """Which sub group of a job goes first; ``group`` 0 is the job, where it has none."""
    name = info.job.role_minima[group - 1][0] if group else ""
    held, minimum = info.held[group], info.job.groups[group].minimum
    return order_key(name, satisfied=held >= minimum, held=held, threshold=minimum)


ORDERS: Mapping[str, Callable[[Session], None]] = {
    "priority": lambda session: session.add_job_order_fn(key=lambda info, _: -info.job.priority),
    "elastic": lambda session: session.add_job_order_fn(key=_elastic_class),
    "kubeflow": lambda session: session.add_task_order_fn(key=not_master),
    "ray": lambda session: session.add_task_order_fn(key=not_head),
    "taskorder": lambda session: session.add_task_order_fn(key=task_priority),
}
"""Plugin -> how it registers."""
