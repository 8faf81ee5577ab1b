"""Parts that flat turns of like one-task jobs share."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.jobs.state import JobState, Need
from shard_worker.session_model.workload import Progress
from shared.messages.messages import Group, TaskRun
from shared.model.model import Job


@dataclass(frozen=True, slots=True)
class OneTask:
    """A one-task job that got a flat turn, and the parts of it that turns of like jobs share."""

    job: Job
    progress: Progress
    need: Need
    runs: list[TaskRun]
    groups: list[Group]

    def serves(self, state: JobState, need: Need) -> bool:
        """Whether a flat turn of this job, which allocate opens, has the same parts."""
        job, info, progress = state.job, state.info, self.progress
        if job.tasks != 1 or need != self.need or state.nominated:
            return False
        role, own = job.roles[0], self.job.roles[0]
        return (
            (role.name, role.group, role.first) == (own.name, own.group, own.first)
            and job.groups == self.job.groups
            and info.held == progress.held
            and info.waiting == progress.waiting
            and info.best_effort == progress.best_effort
        )
