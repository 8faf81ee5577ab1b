"""drf: the job that has least of what it has most of goes first (dominant resource fairness).

A job's share is the largest part that it holds of anything the cluster has; what it was promised
counts. A task may be evicted for another where its job, without it, would still have as large a
share as the other's with what it asks for.

With ``enableHierarchy`` queues are ordered by shares along the tree that their annotations
describe; see :mod:`shard_worker.plugins.drf_tree`. That excludes proportion, as in Volcano.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shard_worker.plugins.drf_tree import FairTree
from shard_worker.rules import EventHandler
from shard_worker.session import Session
from shard_worker.workload import Amounts, ClusterInfo, JobInfo, QueueInfo, add
from shared.model import Requests
from shared.policy import PluginOption, PolicyError
from shared.resources import dominant_share

if TYPE_CHECKING:
    from shard_worker.tasks import TaskInfo
    from shard_worker.world import World

ALIKE = 1e-6
"""Shares that differ by no more are the same."""


class Drf:
    name = "drf"

    def __init__(self, option: PluginOption) -> None:
        self._hierarchical = option.enabled("enableHierarchy")
        self._moves = 0
        """Counts operations of the session: shares in the tree are computed anew after each."""
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
            ssn.add_reclaimable_fn(self.reclaimable)
            ssn.add_event_handler(EventHandler(self._moved, self._moved))

    # --- the tree -----------------------------------------------------------------------------

    def compare_queues(self, left: QueueInfo, right: QueueInfo, cluster: ClusterInfo) -> float:
        """Where their ways part, the smaller share by weight first; saturated ones last."""
        return self.tree(cluster).compare(left.queue.qid, right.queue.qid)

    def reclaimable(
        self, reclaimer: TaskInfo, candidates: Sequence[TaskInfo], world: World
    ) -> list[TaskInfo]:
        """Each task without which, and with the reclaimer placed, the reclaimer's queue would
        still go before its own."""
        queue = reclaimer.job.queue
        if queue is None:
            return []
        tree, own = self.tree(world), queue.queue.qid
        victims = []
        with tree.trying(reclaimer.job, reclaimer.requests, +1):
            for task in candidates:
                theirs = task.job.queue
                if theirs is None:
                    continue
                with tree.trying(task.job, task.requests, -1):
                    if tree.compare(own, theirs.queue.qid) < 0:
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
    """What the job holds, and was promised in this session. Not to be changed."""
    if not info.nominated:
        return info.allocated
    both = dict(info.allocated)
    add(both, info.nominated.items(), 1)
    return both


def job_order(info: JobInfo, cluster: ClusterInfo) -> float:
    """The job's dominant share of what all nodes have."""
    return dominant_share(held_by(info), cluster.total)


def preemptable(
    preemptor: TaskInfo, candidates: Sequence[TaskInfo], world: World
) -> list[TaskInfo]:
    """Tasks whose jobs would have no smaller share without them than the preemptor's with it.

    As Volcano has it, every candidate of a job counts as gone for those after it, whether it may be
    evicted or not."""
    own = _share(held_by(preemptor.job), preemptor.requests, +1, world)
    left: dict[int, Amounts] = {}
    victims = []
    for task in candidates:
        theirs = left.setdefault(task.job.job.jid, dict(held_by(task.job)))
        share = _share(theirs, task.requests, -1, world)
        add(theirs, task.requests, -1)
        if own < share or abs(own - share) <= ALIKE:
            victims.append(task)
    return victims


def _share(held: Amounts, requests: Requests, times: int, cluster: ClusterInfo) -> float:
    """With a request more, or less."""
    would = dict(held)
    add(would, requests, times)
    return dominant_share(would, cluster.total)
