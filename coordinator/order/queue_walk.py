"""The walk down a tree of queues to the job whose turn it is, each queue with its next job.

From the roots down the queue goes first that the policy's choice puts first among its siblings,
each with the job that it, or a queue below it, would place next
(:mod:`shard_worker.framework.queue_choice`). What stands at a queue is kept until something below
it changed, so that a pick costs one path of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from shard_worker.framework.queue_choice import QueueChoice
from shard_worker.session_model.workload import Amounts, ClusterInfo, QueueInfo

_ROOT = -2
"""Stands for what the roots are below; -1 is the queue of jobs without one."""


class NextJob(Protocol):
    """The job that a queue would place next."""

    @property
    def asks(self) -> Amounts: ...


J = TypeVar("J", bound=NextJob)


class _QueueCandidate(NamedTuple, Generic[J]):
    """A queue with the next job at or below it."""

    job: J
    contender: Any


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
        self._below: dict[int, list[QueueInfo]] = {_ROOT: []}
        """Queue -> those directly below it that have jobs, or lead to some."""
        self._chains: dict[int, tuple[QueueInfo, ...]] = {}
        self._candidates: dict[int, _QueueCandidate[J] | None] = {}

    def add(self, queues: Iterable[QueueInfo]) -> None:
        """Walk these queues too, if they are not walked yet."""
        for queue in queues:
            chain = self._choice.chain(queue)
            for at, info in enumerate(chain):
                qid = info.queue.qid
                if qid in self._chains:
                    break
                self._chains[qid] = chain[at:]
                above = chain[at + 1].queue.qid if at + 1 < len(chain) else _ROOT
                self._below.setdefault(above, []).append(info)

    def changed(self, queue: QueueInfo) -> None:
        """Note that a queue holds something else, or has another next job."""
        self.add([queue])
        for info in self._chains[queue.queue.qid]:
            self._candidates.pop(info.queue.qid, None)

    def first(self) -> J | None:
        """The job whose turn it is; None where no queue has one."""
        best = self._first_of(self._below[_ROOT])
        return None if best is None else best.job

    def _first_of(self, siblings: Sequence[QueueInfo]) -> _QueueCandidate[J] | None:
        candidates = [at for queue in siblings if (at := self._candidate(queue)) is not None]
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        return candidates[self._choice.first([at.contender for at in candidates])]

    def _candidate(self, queue: QueueInfo) -> _QueueCandidate[J] | None:
        qid = queue.queue.qid
        if qid not in self._candidates:
            job = self._next_job(queue)
            if job is None and (below := self._first_of(self._below.get(qid, ()))) is not None:
                job = below.job
            self._candidates[qid] = (
                None
                if job is None
                else _QueueCandidate(job, self._choice.contender(queue, job.asks, self._cluster))
            )
        return self._candidates[qid]
