"""Turn order: jobs of leaf queues, each in job order, below a tree of queues.

Down from the roots the queue goes first that the policy puts first, each with the job that it, or a
queue below it, would place next. What stands at a queue is kept until something below it changed,
so that a turn costs one path of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush, nsmallest

from shard_worker.dialects.kai.model import KaiJob, QueueState, SortKey
from shard_worker.dialects.kai.rules.groups import tasks_to_allocate
from shard_worker.dialects.kai.rules.queue_order import Candidate, QueueFigures
from shard_worker.dialects.kai.session import KaiSession

Line = list[tuple[SortKey, int, KaiJob]]
"""A heap of the jobs of one leaf; the jid keeps jobs from being compared."""


class TurnOrder:
    """The jobs that wait, popped one by one and put back as they want more."""

    def __init__(
        self, ssn: KaiSession, jobs: Iterable[KaiJob], *, depth: int | None = None
    ) -> None:
        """``depth``: of each leaf, only the first so many jobs."""
        lines: dict[QueueState, Line] = {}
        for job in jobs:
            lines.setdefault(job.queue, []).append((ssn.kai_job_key(job), job.job.job.jid, job))
        if depth is not None:
            lines = {leaf: nsmallest(depth, line) for leaf, line in lines.items()}
        for line in lines.values():
            heapify(line)
        self._begin(ssn, lines)

    @classmethod
    def of_lines(cls, ssn: KaiSession, lines: dict[QueueState, Line]) -> TurnOrder:
        """Over lines that are in order already, and that are the order's from now on."""
        order = cls.__new__(cls)
        order._begin(ssn, lines)
        return order

    def _begin(self, ssn: KaiSession, lines: dict[QueueState, Line]) -> None:
        self._ssn = ssn
        self._lines = lines
        queues = dict.fromkeys(queue for leaf in lines for queue in leaf.chain)
        self._roots = [queue for queue in queues if len(queue.chain) == 1]
        self._children = {
            queue: [child for child in queue.children if child in queues] for queue in queues
        }
        self._best: dict[QueueState, tuple[KaiJob, Candidate] | None] = {}

    def _entry(self, job: KaiJob) -> tuple[SortKey, int, KaiJob]:
        return self._ssn.kai_job_key(job), job.job.job.jid, job

    def pop(self) -> KaiJob | None:
        """The job whose turn it is; None where no job is left."""
        best = self._first_of(self._roots)
        if best is None:
            return None
        job = best[0]
        heappop(self._lines[job.queue])
        self._forget(job.queue)
        return job

    def push(self, job: KaiJob) -> None:
        """Put back a job that wants another turn."""
        heappush(self._lines[job.queue], self._entry(job))
        self._forget(job.queue)

    def changed(self, job: KaiJob) -> None:
        """Note that a job's queues hold something else than before."""
        self._forget(job.queue)

    def refresh(self) -> None:
        """Note that any queue may hold something else than before."""
        self._best.clear()

    def _forget(self, leaf: QueueState) -> None:
        for queue in leaf.chain:
            self._best.pop(queue, None)

    def _first_of(self, siblings: Sequence[QueueState]) -> tuple[KaiJob, Candidate] | None:
        candidates = [best for queue in siblings if (best := self._best_of(queue)) is not None]
        if not candidates:
            return None
        return candidates[self._ssn.first_queue([candidate for _, candidate in candidates])]

    def _best_of(self, queue: QueueState) -> tuple[KaiJob, Candidate] | None:
        """The next job at or below a queue, and how the queue stands with it."""
        if queue not in self._best:
            self._best[queue] = self._find(queue)
        return self._best[queue]

    def _find(self, queue: QueueState) -> tuple[KaiJob, Candidate] | None:
        line = self._lines.get(queue)
        if line is not None:
            job = line[0][2] if line else None
        else:
            below = self._first_of(self._children[queue])
            job = None if below is None else below[0]
        return None if job is None else (job, self._candidate(queue, job))

    def _candidate(self, queue: QueueState, job: KaiJob) -> Candidate:
        asks = self._ssn.asked_by(tasks_to_allocate(job.root, simulated=True))
        return Candidate(figures_of(queue), cluster=self._ssn.cluster, asks=asks)


def figures_of(queue: QueueState) -> QueueFigures:
    """A queue as the queue order reads it."""
    return QueueFigures(
        uid=queue.uid,
        created=queue.record.created,
        priority=queue.record.priority,
        quota=queue.quota,
        limit=queue.limit,
        fair_share=queue.fair_share,
        allocated=queue.allocated,
    )
