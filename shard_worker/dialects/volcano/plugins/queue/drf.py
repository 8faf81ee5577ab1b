"""drf: the job with the smallest dominant share goes first (dominant resource fairness).

A job's dominant share is the largest part that it holds of any resource of the cluster, nominations
included. A task may be evicted for another if its job, without it, would still have at least the
share that the other's job has with its request.

With ``enableHierarchy`` queues are ordered by shares along the tree that their annotations
describe; see :mod:`shard_worker.dialects.volcano.plugins.queue.drf_tree`. That excludes proportion,
as in Volcano: both would order the queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shard_worker.dialects.volcano.plugins.queue.drf_tree import FairTree
from shard_worker.framework.rules import EventHandler
from shard_worker.framework.session import Session
from shard_worker.session_model.workload import Amounts, ClusterInfo, JobInfo, QueueInfo, add
from shared.model.model import Requests
from shared.policy.model import PluginOption, PolicyError
from shared.units.resources import dominant_share

if TYPE_CHECKING:
    from shard_worker.session_model.job import TaskInfo
    from shard_worker.session_model.world import World

ALIKE = 1e-6
"""Shares whose difference is at most this are equal."""


class Drf:
    name = "drf"

    def __init__(self, option: PluginOption) -> None:
        self._hierarchical = option.enabled("enableHierarchy")
        self._moves = 0
        """Number of the session's operations so far; shares in the tree are recomputed after
        each."""
        self._tree: tuple[ClusterInfo, tuple[int, int], FairTree] | None = None

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_fn(key=job_order)
        ssn.add_preemptable_fn(preemptable)
        if self._hierarchical:
            if any(option.name == "proportion" for tier in ssn.policy.tiers for option in tier):
                raise PolicyError(
                    "plugin drf: enableHierarchy and the plugin proportion order queues by "
                    "different shares; leave one of the two out"
                )
            ssn.add_queue_order_fn(self.compare_queues)
            ssn.report_queue_path()
            ssn.add_reclaimable_fn(self.reclaimable)
            ssn.add_event_handler(EventHandler(self._moved, self._moved))

    # --- the tree -----------------------------------------------------------------------------

    def compare_queues(self, left: QueueInfo, right: QueueInfo, cluster: ClusterInfo) -> float:
        """The smaller weighted share first, compared where the two paths in the tree part;
        saturated last."""
        return self.tree(cluster).compare(left.queue.qid, right.queue.qid)

    def reclaimable(
        self, reclaimer: TaskInfo, candidates: Sequence[TaskInfo], world: World
    ) -> list[TaskInfo]:
        """The candidates whose queue the reclaimer's would still precede with the candidate evicted
        and the reclaimer placed."""
        queue = reclaimer.job.queue
        if queue is None:
            return []
        tree, own_qid = self.tree(world), queue.queue.qid
        victims = []
        with tree.trying(reclaimer.job, reclaimer.requests, +1):
            for task in candidates:
                theirs = task.job.queue
                if theirs is None:
                    continue
                with tree.trying(task.job, task.requests, -1):
                    if tree.compare(own_qid, theirs.queue.qid) < 0:
                        victims.append(task)
        return victims

    def tree(self, cluster: ClusterInfo) -> FairTree:
        at = (cluster.revision, self._moves)
        if self._tree is None or self._tree[0] is not cluster or self._tree[1] != at:
            self._tree = (cluster, at, FairTree(cluster))
        return self._tree[2]

    def _moved(self, task: TaskInfo) -> None:
        del task
        self._moves += 1


def held_by(info: JobInfo) -> Amounts:
    """Amounts that the job holds or is nominated for in this session. Callers must not change
    them."""
    if not info.nominated:
        return info.allocated
    both = dict(info.allocated)
    add(both, info.nominated.items(), 1)
    return both


def job_order(info: JobInfo, cluster: ClusterInfo) -> float:
    """The job's dominant share of the amounts of all nodes; smaller first."""
    return dominant_share(held_by(info), cluster.total)


def preemptable(
    preemptor: TaskInfo, candidates: Sequence[TaskInfo], world: World
) -> list[TaskInfo]:
    """Candidates whose jobs, without them, keep at least the share that the preemptor's job gets.

    As in Volcano, every candidate counts as gone for those of its job after it, whether or not it
    may be evicted.
    """
    own_share = _share(held_by(preemptor.job), preemptor.requests, +1, world)
    remaining: dict[int, Amounts] = {}
    victims = []
    for task in candidates:
        theirs = remaining.setdefault(task.job.job.jid, dict(held_by(task.job)))
        share = _share(theirs, task.requests, -1, world)
        add(theirs, task.requests, -1)
        # Volcano's rule, its tolerance included: equal shares may evict each other.
        if own_share < share or abs(own_share - share) <= ALIKE:
            victims.append(task)
    return victims


def _share(allocated: Amounts, requests: Requests, times: int, cluster: ClusterInfo) -> float:
    """The dominant share with the requests added ``times`` times; negative subtracts."""
    would = dict(allocated)
    add(would, requests, times)
    return dominant_share(would, cluster.total)
