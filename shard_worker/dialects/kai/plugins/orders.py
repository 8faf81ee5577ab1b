"""Plugins that order jobs or tasks. Sub groups have one order, which is a rule of the tree itself
(:mod:`shard_worker.dialects.kai.rules.groups`)."""

from __future__ import annotations

from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.rules.groups import elastic_class
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.session_model.job import TaskInfo
from shared.policy.model import PluginOption

TASK_PRIORITY = "kai.scheduler/task-priority"
KUBEFLOW_ROLES = ("training.kubeflow.org/job-role", "training.kubeflow.org/replica-type")
KUBEFLOW_FIRST = frozenset({"master", "launcher"})
RAY_NODE = "ray.io/node-type"


class Priority:
    """priority: the job of the higher priority first."""

    name = "priority"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: KaiSession) -> None:
        ssn.add_kai_job_order_fn(lambda job: -job.job.job.priority)


class Elastic:
    """elastic: jobs below their minimum, then those at it, then those above it."""

    name = "elastic"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: KaiSession) -> None:
        ssn.add_kai_job_order_fn(_elastic)


class Kubeflow:
    """kubeflow: a job's master or launcher first."""

    name = "kubeflow"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: KaiSession) -> None:
        ssn.add_kai_task_order_fn(_not_master)


class Ray:
    """ray: the head of a Ray cluster first."""

    name = "ray"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: KaiSession) -> None:
        ssn.add_kai_task_order_fn(lambda task: label(task, RAY_NODE) != "head")


class TaskOrder:
    """taskorder: tasks with a priority of their own first, the higher before the lower."""

    name = "taskorder"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: KaiSession) -> None:
        ssn.add_kai_task_order_fn(_task_priority)


def label(task: TaskInfo, key: str) -> str:
    """The value of a pod's label, "" where it has none."""
    return dict(task.role.labels).get(key, "")


def _elastic(job: KaiJob) -> float:
    return elastic_class(job.root)


def _not_master(task: TaskInfo) -> bool:
    return not any(label(task, key).lower() in KUBEFLOW_FIRST for key in KUBEFLOW_ROLES)


def _task_priority(task: TaskInfo) -> tuple[float, ...]:
    """A value that is no number counts as none, as in KAI."""
    try:
        return 0, -int(label(task, TASK_PRIORITY))
    except ValueError:
        return 1, 0
