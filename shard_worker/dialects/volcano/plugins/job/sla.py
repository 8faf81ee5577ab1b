"""sla: a job that has waited too long goes first, and is admitted whatever other plugins vote.

How long is too long says the job (annotation ``volcano.sh/sla-waiting-time``), else the argument
``sla-waiting-time`` for all; durations such as ``90s`` or ``1h30m``. A job for which neither is set
may wait for ever. A value that is not a duration above 0 is ignored.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from shard_worker.framework.rules import ABSTAIN, PERMIT
from shard_worker.framework.session import Session
from shard_worker.session_model.workload import ClusterInfo, JobInfo, Progress
from shared.model.model import Job
from shared.policy.model import PluginOption, PolicyError, read_duration

if TYPE_CHECKING:
    from shard_worker.session_model.job import SessionJob
    from shard_worker.session_model.world import World

WAITING_TIME = "sla-waiting-time"
ANNOTATION = "volcano.sh/sla-waiting-time"
MAY_REJECT = frozenset({"gang", "tdm"})
"""Plugins that vote at JobPipelined and may reject."""


class Sla:
    name = "sla"

    def __init__(self, option: PluginOption) -> None:
        self._waiting = option.duration(WAITING_TIME, inf)
        if self._waiting <= 0:
            raise PolicyError(f"plugin sla: argument {WAITING_TIME} is not above 0; write e.g. 1h")

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_fn(key=self.job_order)
        ssn.add_job_enqueueable_fn(self.job_enqueueable)
        # Where no permission can change the result the rule has a fast form that abstains, and jobs
        # need no session for it.
        ssn.add_job_pipelined_fn(self.job_pipelined, counted=None if _decides(ssn) else _abstain)

    def job_order(self, info: JobInfo, cluster: ClusterInfo) -> float:
        """The earlier deadline first; jobs without one last."""
        return self.deadline(info.job)

    def job_enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> int:
        """Permit a job past its deadline, which overrules rejections of later tiers."""
        return PERMIT if cluster.now >= self.deadline(info.job) else ABSTAIN

    def job_pipelined(self, job: SessionJob, world: World) -> int:
        """Permit a job past its deadline to keep its nominations, even if they are too few."""
        return PERMIT if world.now >= self.deadline(job.job) else ABSTAIN

    def deadline(self, job: Job) -> float:
        """When the job will have waited too long, in seconds since 1970; inf if no limit is set."""
        for key, value in job.annotations:
            if key == ANNOTATION:
                waiting = read_duration(value)
                if waiting is not None and waiting > 0:
                    return job.created + waiting
        return job.created + self._waiting


def _decides(ssn: Session) -> bool:
    """Whether a permission can change the result: only if a later tier may reject."""
    later = False
    for tier in ssn.policy.tiers:
        if later and any(option.name in MAY_REJECT for option in tier):
            return True
        later = later or any(option.name == Sla.name for option in tier)
    return False


def _abstain(progress: Progress) -> int:
    del progress
    return ABSTAIN
