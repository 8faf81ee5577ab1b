"""Which jobs a session places at all, whatever the cluster has."""

from __future__ import annotations

from dataclasses import dataclass, field

from shard_worker.session_model.demands import Served, unknown_tier, unserved
from shard_worker.session_model.other_schedulers import other_scheduler
from shard_worker.session_model.workload import ClusterInfo, JobInfo
from shared.messages.reason import Reason


@dataclass(slots=True)
class Eligibility:
    served: set[Served] = field(default_factory=set)
    """What fields of objects ask for and a plugin of the policy serves."""
    ours: frozenset[str] | None = None
    """The scheduler names that are ours. None: jobs of all names are placed, also those with fields
    that no plugin serves, as in Volcano: in a replay."""

    def kept_out(self, info: JobInfo, cluster: ClusterInfo) -> tuple[Reason, str] | None:
        """Why the job is not placed: it is another scheduler's, has a field that no plugin
        serves, or names a tier that no hyper node has; None where it may be."""
        if self.ours is None:
            return None
        if name := other_scheduler(info.job, self.ours):
            return Reason.OTHER_SCHEDULER, f"its schedulerName is {name}: {name} places it, not we"
        lacks = unserved(info, cluster, self.served) or unknown_tier(info.job, cluster.tiers)
        return None if lacks is None else (Reason.NOT_SERVED, lacks)
