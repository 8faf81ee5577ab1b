"""overcommit: admit jobs as long as all together ask for little more than the cluster has.

Argument ``overcommit-factor`` (1.2; a value below 1 counts as 1.2): admitted jobs may wait for so
many times what the nodes have, less what is in use.
"""

from __future__ import annotations

from shard_worker.framework.rules import PERMIT, REJECT
from shard_worker.framework.session import Session
from shard_worker.session_model.queue_limits import exceeds_with
from shard_worker.session_model.workload import Amounts, ClusterInfo, JobInfo
from shard_worker.session_model.world import World
from shared.policy.model import PluginOption

DEFAULT = 1.2


class Overcommit:
    name = "overcommit"

    def __init__(self, option: PluginOption) -> None:
        factor = option.number("overcommit-factor", DEFAULT)
        self._factor = factor if factor >= 1 else DEFAULT

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_enqueueable_fn(self.job_enqueueable)

    def job_enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> int:
        """Permit if minResources fit in addition to what admitted jobs still need. As in Volcano,
        an Inqueue job counts with its whole minResources even if part of it runs.
        """
        least = info.job.min_resources
        if least is None:
            return PERMIT
        used = in_use(cluster)
        idle = {
            slot: total * self._factor - used.get(slot, 0) for slot, total in cluster.total.items()
        }
        return REJECT if exceeds_with(dict(least), [cluster.promised], idle) else PERMIT


def in_use(cluster: ClusterInfo) -> Amounts:
    """Amounts held on all nodes, including those of leaving tasks and of other schedulers."""
    if not isinstance(cluster, World):
        free, others = cluster.free, cluster.foreign_sums
        return {
            slot: total - free.get(slot, 0) + others.get(slot, 0)
            for slot, total in cluster.total.items()
        }
    view = cluster.view
    return {slot: int(view.column("used", slot).sum()) for slot in cluster.total}
