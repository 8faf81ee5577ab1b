"""Which jobs a session places at all, whatever the cluster has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shard_worker.session_model.demands import Served, unknown_tier, unserved
from shard_worker.session_model.native_groups import WAITS, group_refusal
from shard_worker.session_model.other_schedulers import other_scheduler
from shard_worker.session_model.workload import ClusterInfo, JobInfo
from shared.manifests.fields.metadata import group_deadline, late_group
from shared.messages.reason import Reason
from shared.model.model import Job
from shared.model.node_pool import NodePool, labels_of_job


@dataclass(slots=True)
class Eligibility:
    served: set[Served] = field(default_factory=set)
    """Requested fields of objects that a plugin of the policy serves."""
    ours: frozenset[str] | None = None
    """The scheduler names that are ours. None: jobs of all names are placed, also those with fields
    that no plugin serves, as in Volcano: in a replay."""
    pool: NodePool | None = None
    """Nodes and queues visible to this scheduler; None: everything."""

    def in_pool(self, job: Job) -> bool:
        """Whether the job exists for this scheduler."""
        return self.pool is None or self.pool.has_job(job)

    def queue(self, job: Job, queue_ids: Mapping[str, int]) -> int:
        """The id of the queue that the job counts in; -1: in none."""
        return queue_ids.get(job.queue, -1) if self.in_pool(job) else -1

    def homeless(self, job: Job) -> Reason:
        """Why a job waits that counts in no queue."""
        return Reason.MISCONFIGURED if self.in_pool(job) else Reason.OTHER_SCHEDULER

    def kept_out(self, info: JobInfo, cluster: ClusterInfo) -> tuple[Reason, str] | None:
        """Why the job is not placed: it is another scheduler's, is about to join a group, is one
        of Kubernetes' own groups with members that differ, has a field that no plugin serves, or
        names a tier that no hyper node has; None where it may be."""
        if self.pool is not None and not self.in_pool(info.job):
            where = self.pool.why_not(labels_of_job(info.job))
            return Reason.OTHER_SCHEDULER, f"it is {where}"
        if info.job.kind == "Pod" and (waits := _waits_for_group(info.job)):
            return Reason.GATED, waits
        if refused := group_refusal(info.job):
            reason = Reason.NOT_ENOUGH_TASKS if refused.startswith(WAITS) else Reason.MISCONFIGURED
            return reason, refused
        if self.ours is None:
            return None
        if name := other_scheduler(info.job, self.ours):
            return Reason.OTHER_SCHEDULER, f"its schedulerName is {name}: {name} places it, not we"
        lacks = unserved(info, cluster, self.served) or unknown_tier(info.job, cluster.tiers)
        return None if lacks is None else (Reason.NOT_SERVED, lacks)


def _waits_for_group(job: Job) -> str:
    """Why a job of one pod waits for a group; "" where it does not."""
    if not job.annotations:
        return ""  # most jobs
    if group := late_group(job.annotations):
        return f"its controller named PodGroup {group}: it joins that now"
    if group_deadline(job.annotations) is None:
        return ""
    return (
        "no controller has named its PodGroup yet; it waits for that for some seconds, and then "
        "counts as a job of its own"
    )
