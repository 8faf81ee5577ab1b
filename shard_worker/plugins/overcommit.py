"""overcommit: jobs are let in as long as, all of them together, they ask for little more than the
cluster has.

Argument ``overcommit-factor`` (1.2; what is below 1 counts as 1.2): so many times what the nodes
have, less what is in use, may be waited for.
"""

from __future__ import annotations

from shard_worker.queue_limits import exceeds_with
from shard_worker.session import PERMIT, REJECT, Session
from shard_worker.workload import Amounts, ClusterInfo, JobInfo
from shard_worker.world import World
from shared.policy import PluginOption

DEFAULT = 1.2


class Overcommit:
    name = "overcommit"

    def __init__(self, option: PluginOption) -> None:
        factor = option.number("overcommit-factor", DEFAULT)
        self._factor = factor if factor >= 1 else DEFAULT

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_enqueueable_fn(self.job_enqueueable)

    def job_enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> int:
        """What it needs at least fits beside what those that were let in may still come for.

        As in Volcano a job that is Inqueue counts with all it needs, if some of it runs already."""
        least = info.job.min_resources
        if least is None:
            return PERMIT
        used = in_use(cluster)
        idle = {
            slot: total * self._factor - used.get(slot, 0) for slot, total in cluster.total.items()
        }
        return REJECT if exceeds_with(dict(least), [cluster.promised], idle) else PERMIT


def in_use(cluster: ClusterInfo) -> Amounts:
    """What tasks hold of all nodes, those that are leaving too, whoever placed them."""
    if not isinstance(cluster, World):
        free = cluster.free
        return {slot: total - free.get(slot, 0) for slot, total in cluster.total.items()}
    view = cluster.view
    return {slot: int(view.column("used", slot).sum()) for slot in cluster.total}
