"""reclaim: a queue with less than its share takes nodes back from queues that have more.

Queue by queue, a job at a time, so that shares are computed anew after each. Nodes are not scored:
the first on which evictions help is taken, the own shard's before others'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard_worker.eviction.node_search import NodeSearch
from shard_worker.eviction.refusals import WILLING, Tests, considered, tell
from shard_worker.eviction.victims import by_turns, starving_jobs
from shard_worker.framework.extension_points import RECLAIMABLE
from shard_worker.framework.statement import WorldStatement
from shard_worker.placement.candidates import feasible
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shard_worker.topology.label_domains import is_confined

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob

NAME = "reclaim"


def execute(ssn: Session) -> None:
    """Run for each starving job once, alternating between the queues that may have more."""
    starving = [job for job in starving_jobs(ssn) if not is_confined(job)]
    for job in by_turns(ssn, starving):
        _for_job(ssn, job)


def reclaim_job(ssn: Session, job: SessionJob) -> None:
    """Run the action for one job."""
    if job.queue is not None and not is_confined(job) and not ssn.queue_overused(job.queue):
        _for_job(ssn, job)


def _for_job(ssn: Session, job: SessionJob) -> None:
    """Evict for the tasks of a job until it no longer starves; all or nothing."""
    search = ReclaimSearch(
        ssn, WorldStatement(ssn), action=NAME, tests=TESTS, rules=ssn.reclaimable
    )
    if not search.serve(job) and search.failed is not None:
        _tell(ssn, job, search.failed)


def _tell(ssn: Session, job: SessionJob, task: TaskInfo) -> None:
    """Record why no task was evicted for the first task that found no place."""
    rows = feasible(ssn, task, cure=True).mask
    refusals = considered(ssn, task, rows, TESTS, RECLAIMABLE)
    tell(ssn, job, refusals)


class ReclaimSearch(NodeSearch):
    """Finds nodes for the tasks of one job, in the order of the nodes."""

    def eligible(self, task: TaskInfo) -> bool:
        queue, ssn = task.job.queue, self._ssn
        return (
            queue is not None
            and task.preempts
            # Asked before any node is looked at: a queue that would exceed its share gets nothing
            # back.
            and ssn.preemptive(queue, [task])
            and ssn.pre_predicate(task) is None
        )


def _gives_back(victim: TaskInfo, _: TaskInfo) -> bool:
    return victim.job.queue is not None and victim.job.queue.queue.reclaimable


TESTS: Tests = (
    ("leaving, or not running yet", lambda victim, _: victim.status is Status.RUNNING),
    ("of its own queue", lambda victim, task: victim.job.queue is not task.job.queue),
    ("of queues that give nothing back", _gives_back),
    *WILLING,
)
