"""How many members a gang can lose: those beyond the minima of the job, its roles and its
sub-jobs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shard_worker.session_model.job import SessionJob, SubJob, TaskInfo


class SurplusMembers:
    """The spare members of several jobs."""

    def __init__(self) -> None:
        self._of: dict[int, Surplus] = {}

    def take(self, task: TaskInfo) -> bool:
        """As :meth:`Surplus.take`, of the task's job."""
        surplus = self._of.get(id(task.job))
        if surplus is None:
            surplus = self._of[id(task.job)] = Surplus(task.job)
        return surplus.take(task)


class Surplus:
    """The spare members of one job: those that it can lose without missing a minimum. A job below a
    minimum has none, nor has one that leaves as a whole."""

    def __init__(self, job: SessionJob) -> None:
        self._job = job
        self._ready = job.census.ready
        self._minima = {} if job.roles_bypassed else dict(job.job.role_minima)
        self._roles = {
            role: job.by_role[role].ready for role in self._minima if role in job.by_role
        }
        self._subs = {sub.name: sub.census.ready for sub in job.subs.values() if sub.policy}
        self._policies = Counter(
            sub.policy.name for sub in job.subs.values() if sub.policy and sub.ready
        )

    def take(self, task: TaskInfo) -> bool:
        """Take one of its spare members; False if the member is needed."""
        # Volcano counts the job's minimum only. A role or a sub job below its own minimum makes a
        # gang as useless, so that both are held to here (docs/from-volcano.md).
        role = task.role.name
        if self._ready <= self._job.minimum or self._job.job.leaves_whole:
            return False
        if role in self._roles and self._roles[role] <= self._minima[role]:
            return False
        if not self._take_of_sub_job(task.sub):
            return False
        self._ready -= 1
        if role in self._roles:
            self._roles[role] -= 1
        return True

    def _take_of_sub_job(self, sub: SubJob) -> bool:
        """Take a spare member of the sub-job; False if it is needed. A sub-job may fall below its
        size only if its policy has more sub-jobs than it needs."""
        policy = sub.policy
        if policy is None:
            return True
        if self._subs[sub.name] == sub.minimum:
            if self._policies[policy.name] <= policy.minimum:
                return False
            self._policies[policy.name] -= 1
        self._subs[sub.name] -= 1
        return True
