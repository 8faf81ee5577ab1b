"""drf: the job that has least of what it has most of goes first (dominant resource fairness).

This is the flat form. The hierarchical one (``enableHierarchy``) is refused.
"""

from __future__ import annotations

from shard_worker.session import Session
from shard_worker.workload import ClusterInfo, JobInfo
from shared.policy import PluginOption, PolicyError
from shared.resources import dominant_share


class Drf:
    name = "drf"

    def __init__(self, option: PluginOption) -> None:
        if option.enabled("enableHierarchy"):
            raise PolicyError(
                "plugin drf: enableHierarchy is Volcano's, but not in this version; set it to false"
            )

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_fn(key=job_order)


def job_order(info: JobInfo, cluster: ClusterInfo) -> float:
    """The job's dominant share of what all nodes have."""
    return dominant_share(info.allocated, cluster.total)
