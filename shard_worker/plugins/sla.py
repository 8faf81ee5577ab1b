"""sla: a job that has waited too long goes first, and is let in whatever others say of it.

How long is too long says the job (annotation ``volcano.sh/sla-waiting-time``), else the argument
``sla-waiting-time`` for all; durations such as ``90s`` or ``1h30m``. A job for which neither says
anything has all the time in the world. One that is not a duration above 0 is not looked at.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from shard_worker.session import ABSTAIN, PERMIT, Session
from shard_worker.workload import ClusterInfo, JobInfo, Progress
from shared.model import Job
from shared.policy import PluginOption, PolicyError, read_duration

if TYPE_CHECKING:
    from shard_worker.session_job import SessionJob
    from shard_worker.world import World

WAITING_TIME = "sla-waiting-time"
ANNOTATION = "volcano.sh/sla-waiting-time"
MAY_REJECT = frozenset({"gang", "tdm"})
"""Plugins that say no at JobPipelined."""


class Sla:
    name = "sla"

    def __init__(self, option: PluginOption) -> None:
        self._waiting = option.duration(WAITING_TIME, inf)
        if self._waiting <= 0:
            raise PolicyError(f"plugin sla: argument {WAITING_TIME} is not above 0; write e.g. 1h")

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_fn(key=self.job_order)
        ssn.add_job_enqueueable_fn(self.job_enqueueable)
        ssn.add_job_pipelined_fn(self.job_pipelined, counted=None if _decides(ssn) else _abstain)

    def job_order(self, info: JobInfo, cluster: ClusterInfo) -> float:
        """The earlier deadline first; a job without one is the last."""
        return self.deadline(info.job)

    def job_enqueueable(self, info: JobInfo, cluster: ClusterInfo) -> int:
        """It has waited long enough: nobody of a later tier keeps it out."""
        return PERMIT if cluster.now >= self.deadline(info.job) else ABSTAIN

    def job_pipelined(self, job: SessionJob, world: World) -> int:
        """It has waited long enough: it keeps what it was promised, if less than it needs."""
        return PERMIT if world.now >= self.deadline(job.job) else ABSTAIN

    def deadline(self, job: Job) -> float:
        """When it will have waited too long, seconds since 1970."""
        for key, value in job.annotations:
            if key == ANNOTATION:
                own = read_duration(value)
                if own is not None and own > 0:
                    return job.created + own
        return job.created + self._waiting


def _decides(ssn: Session) -> bool:
    """Could a permission change what the others say? Only of tiers after this one."""
    later = False
    for tier in ssn.policy.tiers:
        if later and any(option.name in MAY_REJECT for option in tier):
            return True
        later = later or any(option.name == Sla.name for option in tier)
    return False


def _abstain(progress: Progress) -> int:
    del progress
    return ABSTAIN
