"""Plugins that order jobs or tasks. Sub groups have one order, which is a rule of the tree itself
(:mod:`shard_worker.dialects.kai.rules.groups`)."""

from __future__ import annotations

from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.rules.groups import elastic_class
from shard_worker.dialects.kai.session import KaiSession
from shared.model.model import Role

TASK_PRIORITY = "kai.scheduler/task-priority"
KUBEFLOW_ROLES = ("training.kubeflow.org/job-role", "training.kubeflow.org/replica-type")
KUBEFLOW_FIRST = frozenset({"master", "launcher"})
RAY_NODE = "ray.io/node-type"


def priority(ssn: KaiSession) -> None:
    """priority: the job of the higher priority first."""
    ssn.add_kai_job_order_fn(
        lambda job: -job.job.job.priority, column=lambda columns: -columns.priority
    )


def elastic(ssn: KaiSession) -> None:
    """elastic: jobs below their minimum, then those at it, then those above it."""
    ssn.add_kai_job_order_fn(_elastic, column=lambda columns: columns.elastic_class)


def kubeflow(ssn: KaiSession) -> None:
    """kubeflow: a job's master or launcher first."""
    ssn.add_kai_task_order_fn(lambda task: not_master(task.role))


def ray(ssn: KaiSession) -> None:
    """ray: the head of a Ray cluster first."""
    ssn.add_kai_task_order_fn(lambda task: not_head(task.role))


def task_order(ssn: KaiSession) -> None:
    """taskorder: tasks with a priority of their own first, the higher before the lower."""
    ssn.add_kai_task_order_fn(lambda task: task_priority(task.role))


def not_master(role: Role) -> bool:
    """Whether a pod is no master and no launcher of Kubeflow's."""
    return not any(_label(role, key).lower() in KUBEFLOW_FIRST for key in KUBEFLOW_ROLES)


def not_head(role: Role) -> bool:
    """Whether a pod is not the head of a Ray cluster."""
    return _label(role, RAY_NODE) != "head"


def task_priority(role: Role) -> tuple[float, ...]:
    """The priority that a pod's label gives it; a value that is no number counts as none, as in
    KAI."""
    try:
        return 0, -int(_label(role, TASK_PRIORITY))
    except ValueError:
        return 1, 0


def _label(role: Role, key: str) -> str:
    return dict(role.labels).get(key, "")


def _elastic(job: KaiJob) -> float:
    return elastic_class(job.root)
