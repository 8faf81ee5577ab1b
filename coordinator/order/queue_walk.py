"""The walk down a tree of queues to the job whose turn it is, each queue with its next job.

From the roots down the queue goes first that the policy's choice puts first among its siblings,
each with the job that it, or a queue below it, would place next
(:mod:`shard_worker.framework.queue_choice`). What stands at a queue is kept until something below
it changed, and siblings stay sorted, so that a pick costs one path of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from shard_worker.framework.queue_choice import QueueChoice, SiblingQueues
from shard_worker.session_model.workload import Amounts, ClusterInfo, QueueInfo

_ROOT = -2
"""Stands for what the roots are below; -1 is the queue of jobs without one."""


class NextJob(Protocol):
    """The job that a queue would place next."""

    @property
    def asks(self) -> Amounts: ...


J = TypeVar("J", bound=NextJob)


class QueueWalk(Generic[J]):
    def __init__(
        self,
        choice: QueueChoice[Any],
        cluster: ClusterInfo,
        next_job: Callable[[QueueInfo], J | None],
    ) -> None:
        """``next_job``: of one queue, without those below it."""
        self._choice = choice
        self._cluster = cluster
        self._next_job = next_job
        self._below: dict[int, SiblingQueues[Any]] = {}
        """Queue -> those directly below it."""
        self._paths: dict[int, tuple[QueueInfo, ...]] = {}
        """Queue -> itself and those above it, nearest first."""
        self._jobs: dict[int, J | None] = {}
        """Queue -> the next job at or below it."""
        self._stale: dict[int, QueueInfo] = {}

    def add(self, queues: Iterable[QueueInfo]) -> None:
        """Walk these queues too, if they are not walked yet."""
        for queue in queues:
            path = self._choice.chain(queue)
            for at, info in enumerate(path):
                if info.queue.qid in self._paths:
                    break
                self._paths[info.queue.qid] = path[at:]
                self._stale[info.queue.qid] = info

    def changed(self, queue: QueueInfo) -> None:
        """Note that a queue holds something else, or has another next job."""
        self.add([queue])
        for info in self._paths[queue.queue.qid]:
            self._stale[info.queue.qid] = info

    def first(self) -> J | None:
        """The job whose turn it is; None where no queue has one."""
        # Those below before those above, which stand by the best of them.
        for info in sorted(self._stale.values(), key=self._depth, reverse=True):
            self._enter(info)
        self._stale.clear()
        roots = self._below.get(_ROOT)
        qid = None if roots is None else roots.first()
        return None if qid is None else self._jobs[qid]

    def _depth(self, queue: QueueInfo) -> int:
        return len(self._paths[queue.queue.qid])

    def _enter(self, queue: QueueInfo) -> None:
        qid = queue.queue.qid
        job = self._next_job(queue)
        if job is None and (below := self._below.get(qid)) is not None:
            first = below.first()
            job = None if first is None else self._jobs[first]
        self._jobs[qid] = job
        path = self._paths[qid]
        above = path[1].queue.qid if len(path) > 1 else _ROOT
        if above not in self._below:
            self._below[above] = self._choice.siblings()
        contender = None
        if job is not None:
            contender = self._choice.contender(queue, job.asks, self._cluster)
        self._below[above].put(qid, contender)
