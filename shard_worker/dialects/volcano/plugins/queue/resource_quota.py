"""resourcequota: admit a job if the quotas of its namespace have room for its minResources.

The job's minResources are checked against whatever a ResourceQuota limits. Admitted jobs whose pods
do not exist yet count as if they did. Quotas that count only some pods (with scopes) are left to
Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_worker.framework.rules import PERMIT, REJECT
from shard_worker.framework.session import Session
from shard_worker.session_model.demands import Preference
from shard_worker.session_model.workload import ClusterInfo, JobInfo
from shared.model.storage import ResourceQuota
from shared.policy.model import PluginOption

Named = dict[str, int]
"""Resource name -> amount, in the unit of its slot."""
REQUESTS = "requests."


class ResourceQuotas:
    name = "resourcequota"

    def __init__(self, option: PluginOption) -> None:
        del option  # it takes no arguments
        self._coming: dict[str, Named] = {}
        """Namespace -> amounts of the jobs admitted during this session."""
        self._counted: tuple[ClusterInfo, int] | None = None

    def on_session_open(self, ssn: Session) -> None:
        ssn.serve(Preference.QUOTA)
        ssn.add_job_enqueueable_fn(self.job_enqueueable)
        ssn.add_job_enqueued_fn(self.job_enqueued)

    def job_enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> int:
        """Permit if the job's minResources exceed no quota of its namespace."""
        least = self._least(info, cluster)
        coming = self._pending(cluster).get(info.job.namespace, {})
        for quota in _quotas(info.job.namespace, cluster):
            used = dict(quota.used)
            for name, hard in quota.hard:
                if (amount := _of(least, name)) is None:
                    continue
                if used.get(name, 0) + (_of(coming, name) or 0) + amount > hard:
                    return REJECT
        return PERMIT

    def job_enqueued(self, info: JobInfo, cluster: ClusterInfo) -> None:
        coming = self._pending(cluster).setdefault(info.job.namespace, {})
        for name, amount in self._least(info, cluster).items():
            coming[name] = coming.get(name, 0) + amount

    def _pending(self, cluster: ClusterInfo) -> dict[str, Named]:
        """Amounts admitted in this session. Reset when the totals change, since the quotas then
        include those pods."""
        now = (cluster, cluster.revision)
        if self._counted is None or self._counted[0] is not cluster or self._counted[1] != now[1]:
            self._coming, self._counted = {}, now
        return self._coming

    def _least(self, info: JobInfo, cluster: ClusterInfo) -> Named:
        names = cluster.names
        least = {
            names[slot]: amount
            for slot, amount in info.job.min_resources or ()
            if slot < len(names)
        }
        return least | dict(info.job.quota_amounts)


def _quotas(namespace: str, cluster: ClusterInfo) -> Iterator[ResourceQuota]:
    for quota in cluster.objects.quotas.values():
        if quota.namespace == namespace and not quota.scoped:
            yield quota


def _of(amounts: Named, name: str) -> int | None:
    """An amount by its name in a quota, where ``requests.cpu`` means ``cpu``."""
    amount = amounts.get(name)
    return amounts.get(name.removeprefix(REQUESTS)) if amount is None else amount
