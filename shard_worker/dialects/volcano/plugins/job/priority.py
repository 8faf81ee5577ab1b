"""priority: jobs and tasks of higher priority go first, and may evict only lower ones.

Volcano's rule: between jobs their priority classes count, within a job the priorities of its pods;
equals never evict each other. A job counts as starving while any of its tasks waits, so that
elastic members may evict, too; with gang in the same tier both have to agree, and only the minimum
counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.framework.rules import Purpose
from shard_worker.framework.session import Session
from shard_worker.session_model.job import SessionJob, SubJob, TaskInfo
from shard_worker.session_model.workload import ClusterInfo, JobInfo
from shard_worker.session_model.world import World
from shared.model.model import Role
from shared.policy.model import PluginOption


class Priority:
    name = "priority"

    def __init__(self, option: PluginOption) -> None:
        del option  # it takes no arguments

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_fn(key=job_order)
        ssn.add_task_order_fn(key=task_order)
        ssn.add_job_starving_fn(job_starving)
        ssn.add_sub_job_order_fn(sub_job_order)
        ssn.add_preemptable_fn(preemptable)
        ssn.add_unified_evictable_fn(evictable_for)


def job_order(info: JobInfo, cluster: ClusterInfo) -> float:
    """Higher priority of the job (from its priority class) first."""
    return -info.job.priority


def task_order(role: Role) -> float:
    """Higher priority of the role's pods first; it may differ from the job's."""
    return -role.priority


def job_starving(info: JobInfo) -> bool:
    """Whether some tasks have neither a place nor a nomination."""
    return info.held[0] + info.waiting[0] < info.job.tasks


def sub_job_order(left: SubJob, right: SubJob, world: World) -> float:
    """The sub job whose most important task has the higher priority goes first."""
    del world
    return float(_highest(right) - _highest(left))


def _highest(sub: SubJob) -> int:
    return max((task.priority for task in sub.tasks), default=0)


def preemptable(preemptor: TaskInfo, victims: Sequence[TaskInfo], world: World) -> list[TaskInfo]:
    """Tasks of jobs of lower priority; and of the preemptor's own job, tasks of lower priority."""
    del world
    own_job = preemptor.job
    return [
        victim
        for victim in victims
        if (
            victim.priority < preemptor.priority
            if victim.job is own_job
            else victim.job.job.priority < own_job.job.priority
        )
    ]


def evictable_for(
    job: SessionJob, victims: Sequence[TaskInfo], purpose: Purpose, world: World
) -> list[TaskInfo] | None:
    """Tasks of jobs of lower priority; None (no opinion) for reclaim, where priorities do not
    count."""
    del world
    if purpose is not Purpose.PREEMPT:
        return None
    return [victim for victim in victims if victim.job.job.priority < job.job.priority]
