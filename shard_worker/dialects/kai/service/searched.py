"""For which jobs an action searches victims at all, whatever the cluster holds."""

from __future__ import annotations

from shard_worker.dialects.kai.actions import consolidation
from shard_worker.session_model.workload import ClusterInfo, JobInfo
from shared.model.kai import PREEMPTIBLE_BELOW


def is_searched_for(action: str, info: JobInfo, cluster: ClusterInfo) -> bool:
    """Not in its ``preemptionDelay``, and consolidation for jobs alone that may be evicted
    themselves."""
    job = info.job
    group = cluster.objects.kai_groups.get(job.key) if job.kind == "PodGroup" else None
    if group is None:
        return job.priority < PREEMPTIBLE_BELOW or action != consolidation.NAME
    if cluster.now < delayed_until(info, cluster):
        return False
    return action != consolidation.NAME or group.is_preemptible(job.priority)


def delayed_until(info: JobInfo, cluster: ClusterInfo) -> float:
    """When the job's ``preemptionDelay`` is over; 0 without one."""
    job = info.job
    group = cluster.objects.kai_groups.get(job.key) if job.kind == "PodGroup" else None
    if group is None or group.preemption_delay <= 0:
        return 0.0
    return group.delayed_until(job.created)
