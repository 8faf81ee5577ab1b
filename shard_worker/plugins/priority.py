"""priority: jobs and tasks of higher priority first."""

from __future__ import annotations

from shard_worker.session import Session
from shard_worker.workload import ClusterInfo, JobInfo
from shared.model import Role
from shared.policy import PluginOption


class Priority:
    name = "priority"

    def __init__(self, option: PluginOption) -> None:
        del option  # it takes no arguments

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_fn(key=job_order)
        ssn.add_task_order_fn(key=task_order)
        ssn.add_job_starving_fn(job_starving)


def job_order(info: JobInfo, cluster: ClusterInfo) -> float:
    """The job's own priority (that of its priority class)."""
    return -info.job.priority


def task_order(role: Role) -> float:
    """The priority of the role's pods, which is not the job's."""
    return -role.priority


def job_starving(info: JobInfo) -> bool:
    """A job starves until all of its tasks have, or will have, a place."""
    return info.held[0] + info.waiting[0] < info.job.tasks
