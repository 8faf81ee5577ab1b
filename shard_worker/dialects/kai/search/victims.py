"""Order of victims: the reverse of the order in which jobs are placed.

The queue that uses most of its share loses first, in it the job that was placed last; of a job its
surplus tasks one by one, then what is left as a whole. The order does not depend on what a search
tries, so that all its scenarios share one list, which grows as far as it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from shard_worker.dialects.kai.evictions import KaiEvictionUnit
from shard_worker.dialects.kai.model import KaiJob, QueueState
from shard_worker.dialects.kai.rules.amounts import NOTHING, Amounts
from shard_worker.dialects.kai.rules.groups import ACTIVE, is_surplus, tasks_to_evict
from shard_worker.dialects.kai.rules.queue_order import Candidate, last
from shard_worker.dialects.kai.search.clones import without
from shard_worker.dialects.kai.search.job_lines import VictimLine, entry_of
from shard_worker.dialects.kai.search.unread_jobs import UnreadJob
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.dialects.kai.turn_order import figures_of
from shard_worker.session_model.status import EVICTABLE


class VictimOrder:
    """The units of the jobs that may lose, in the order in which they go."""

    def __init__(
        self,
        ssn: KaiSession,
        lines: Mapping[QueueState, VictimLine],
        accepts: Callable[[KaiJob], bool],
    ) -> None:
        """``lines``: of each leaf, from now on the order's: the last job goes first. ``accepts``:
        whether a job may lose; asked when it is reached, of those that are objects."""
        self._ssn = ssn
        self._accepts = accepts
        self._lines = dict(lines)
        queues = dict.fromkeys(queue for leaf in self._lines for queue in leaf.chain)
        self._roots = [queue for queue in queues if len(queue.chain) == 1]
        self._children = {
            queue: [child for child in queue.children if child in queues] for queue in queues
        }
        self._gone = dict.fromkeys(self._lines, NOTHING)
        """Amount taken from each leaf so far."""
        self._first: dict[QueueState, QueueState | None] = {}
        """Queue -> the leaf at or below it that loses next."""
        self._units: list[KaiEvictionUnit] = []
        self._accepted: set[int] = set()
        """Numbers of the jobs that lost a part already: what is left of them may go, too."""

    def __iter__(self) -> Iterator[KaiEvictionUnit]:
        """The units, the first to go first."""
        at = 0
        while at < len(self._units) or self._grow():
            yield self._units[at]
            at += 1

    def _grow(self) -> bool:
        """Take the next unit from its queue; False where none is left."""
        number = len(self._units)
        while len(self._units) == number:
            leaf = self._first_of(self._roots)
            if leaf is None:
                return False
            self._take_from(leaf)
        return True

    def _take_from(self, leaf: QueueState) -> None:
        """Take the next unit of a leaf; none where it has a task that is on its way to its node:
        such a job goes no further."""
        for queue in leaf.chain:
            self._first.pop(queue, None)
        job = self._lines[leaf].pop()[2]
        if isinstance(job, UnreadJob):
            self._units.append(job.unit())
            self._gone[leaf] = self._gone[leaf].plus(job.amounts)
            return
        tasks = tasks_to_evict(job.root, whole=job.job.job.leaves_whole)
        if not all(task.status & EVICTABLE for task in tasks):
            return
        active = sum(pod_set.number(ACTIVE) for pod_set in job.root.pod_sets())
        # Of a job that goes at once there is no earlier unit that could stay.
        at_once = len(tasks) == active and job.job.job.jid not in self._accepted
        alone = at_once or is_surplus(job.root, tasks)
        self._units.append(KaiEvictionUnit(job, tuple(tasks), alone))
        self._gone[leaf] = self._gone[leaf].plus(self._ssn.asked_by(tasks))
        if len(tasks) < active:
            rest = without(job, tasks)
            self._accepted.add(job.job.job.jid)
            self._lines[leaf].put(entry_of(self._ssn, rest))

    def _first_of(self, siblings: Sequence[QueueState]) -> QueueState | None:
        """The leaf at or below one of these queues that loses next."""
        leaves = [(queue, leaf) for queue in siblings if (leaf := self._leaf(queue)) is not None]
        if len(leaves) < 2:
            return leaves[0][1] if leaves else None
        candidates = [self._candidate(queue, leaf) for queue, leaf in leaves]
        return leaves[last(candidates)][1]

    def _leaf(self, queue: QueueState) -> QueueState | None:
        if queue not in self._first:
            if queue in self._lines:
                self._first[queue] = queue if self._next_of(queue) is not None else None
            else:
                self._first[queue] = self._first_of(self._children[queue])
        return self._first[queue]

    def _next_of(self, leaf: QueueState) -> KaiJob | UnreadJob | None:
        """The job of a leaf that loses next."""
        line = self._lines[leaf]
        while (entry := line.last()) is not None:
            job = entry[2]
            if isinstance(job, UnreadJob):
                return job
            if job.job.job.jid in self._accepted or self._accepts(job):
                return job
            line.pop()
        return None

    def _candidate(self, queue: QueueState, leaf: QueueState) -> Candidate:
        """A queue with what was taken from its next leaf, and that leaf's next job."""
        job = self._next_of(leaf)
        own = NOTHING if job is None else self._amounts(job)
        victims = self._gone[leaf].plus(own)
        return Candidate(figures_of(queue), cluster=self._ssn.cluster, victims=victims)

    def _amounts(self, job: KaiJob | UnreadJob) -> Amounts:
        """Amounts that the rest of a job holds."""
        if isinstance(job, UnreadJob):
            return job.amounts
        bits = ACTIVE._value_
        return self._ssn.asked_by([t for t in job.root.tasks() if t.status._value_ & bits])
