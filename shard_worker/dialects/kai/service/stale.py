"""Which gangs are broken in a service, by the states of their tasks, and for how long they may
be."""

from __future__ import annotations

from collections import Counter
from math import inf

from shard_worker.dialects.kai.service.gangs import lacking_sub_group
from shard_worker.framework.broken_gangs import BrokenGang
from shard_worker.session_model.workload import ClusterInfo, JobInfo
from shared.messages.messages import HOLDING, TaskState
from shared.model.kai import KaiPodGroup
from shared.model.model import Job


class StaleRule:
    def __init__(self, usual: float) -> None:
        """``usual``: seconds, for groups that do not say so themselves; negative: for ever."""
        self._usual = usual

    def judge(self, info: JobInfo, states: bytearray, cluster: ClusterInfo) -> BrokenGang | None:
        """None where the job is no broken gang. One of which a task has succeeded is about to
        end."""
        if info.qid < 0:  # it is another node pool's, or nobody's
            return None
        job, held = info.job, Counter[str]()
        for role in job.roles:
            part = states[role.first : role.first + role.count]
            held[role.name] += sum(map(part.count, HOLDING))
        if TaskState.SUCCEEDED in states or not held.total():
            return None
        group = cluster.objects.kai_groups.get(job.key) if job.kind == "PodGroup" else None
        if not _lacks(job, group, held):
            return None
        grace, since = self._usual, None
        if group is not None:
            since = group.stale_since
            grace = grace if group.staleness_grace is None else group.staleness_grace
        return BrokenGang(grace if grace >= 0 else inf, since)


def _lacks(job: Job, group: KaiPodGroup | None, held: Counter[str]) -> bool:
    if group is not None and group.sub_groups:
        return lacking_sub_group(group, held) is not None
    if held.total() < job.groups[0].minimum:
        return True
    members: Counter[int] = Counter()
    for role in job.roles:
        members[role.group] += held[role.name]
    return any(members[at] < part.minimum for at, part in enumerate(job.groups) if at)
