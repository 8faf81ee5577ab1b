"""Lines: where jobs wait for their turn, and the reason they show meanwhile.

Jobs of one queue with the same need (numbers of tasks by class) are in one line, best first. What
blocks the first of a line blocks the rest. Beside the lines are the urgent jobs: those that lost a
conflict, or whose nominations can be used; they go first, without backoff.

Entries are never searched: a job that leaves gets a new stamp, and an entry with an old stamp is
void when it reaches the top.

A queue with few lines has them scanned for every pick. Where there are many, they are kept sorted
(:mod:`coordinator.jobs.pending_order`).
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence

from coordinator.jobs.charges.cluster_capacity import ClusterCapacity
from coordinator.jobs.pending_order import Line, LineBlock, LineOrder, PendingQueue
from coordinator.jobs.pending_reasons import word
from coordinator.jobs.pending_tree import Entry, LineKey, Room
from coordinator.jobs.state import JobState, Need, SchedulingStatus
from shard_worker.session_model.workload import Amounts
from shared.messages.reason import HoldReason, Reason, WaitReason
from shared.model.model import Requests

SCANNED_LINES = 16
"""A queue with at most this many lines has them scanned: faster there than keeping a tree (a look
takes 0.4 us, a line that comes or goes 20 us), and most queues have one or two."""


class Lines:
    """All lines of all queues, the urgent jobs, and counts of jobs by state."""

    def __init__(
        self,
        jobs: dict[int, JobState],
        capacity: ClusterCapacity,
        *,
        count_first: bool,
        scanned: int = SCANNED_LINES,
    ) -> None:
        """``count_first``: a line whose need exceeds what the cluster can give is blocked.
        ``scanned``: up to this many lines of a queue are not kept sorted."""
        self.starves: Callable[[JobState], bool] = lambda state: False
        """Whether a job may evict others where it waits."""
        self.sortable = True
        """Whether the keys of jobs are constant while the jobs wait."""
        self.scanned = scanned
        self._lines = 0
        """Number of lines ever created."""
        self.queues: dict[int, PendingQueue] = {}
        self.status_counts: Counter[SchedulingStatus] = Counter()
        """Jobs by state."""
        self.served: Counter[int] = Counter()
        """Queue -> its jobs that are served; see :attr:`JobState.served`."""
        self._reasons: Counter[WaitReason] = Counter()
        """Jobs outside the lines, by reason."""
        self._urgent: deque[tuple[int, int]] = deque()
        self._jobs = jobs
        self._capacity = capacity
        self.count_first = count_first
        self.looks = 0
        """Number of lines that scans have looked at, since the start."""

    # --- status -------------------------------------------------------------------------------

    def enter(self, state: JobState) -> None:
        """Add a new job."""
        self.status_counts[state.status] += 1

    def leave(self, state: JobState) -> None:
        """Remove a job."""
        self.set_status(state, SchedulingStatus.WAITING, HoldReason.NONE)
        self.status_counts[SchedulingStatus.WAITING] -= 1

    def set_status(
        self,
        state: JobState,
        status: SchedulingStatus,
        reason: WaitReason,
        line: Line | None = None,
        *,
        comes_back: bool = False,
    ) -> None:
        """Set a job's state, and the reason that users see. ``comes_back``: it waits for a turn of
        others or for a record, and goes on by itself."""
        before = self._reasons if state.line is None else state.line.reasons
        before[state.reason] -= 1
        (self._reasons if line is None else line.reasons)[reason] += 1
        self.status_counts[state.status] -= 1
        self.status_counts[status] += 1
        served = comes_back or status in (SchedulingStatus.OPEN, SchedulingStatus.NOMINATED)
        served |= status is SchedulingStatus.READY and line is None
        self.served[state.info.qid] += served - state.served
        state.served = served
        if state.line is not line:
            self._change_line(state.line, line)
        state.status, state.reason, state.line = status, reason, line

    def settle(self, run: Sequence[JobState]) -> None:
        """As :meth:`set_status` of each, of jobs of one queue whose open turns placed all of
        them."""
        for state in run:
            self._reasons[state.reason] -= 1
            state.status, state.reason = SchedulingStatus.SETTLED, HoldReason.NONE
            state.served = False
        self._reasons[HoldReason.NONE] += len(run)
        self.status_counts[SchedulingStatus.OPEN] -= len(run)
        self.status_counts[SchedulingStatus.SETTLED] += len(run)
        self.served[run[0].info.qid] -= len(run)

    @staticmethod
    def _change_line(before: Line | None, line: Line | None) -> None:
        """Move a job between lines; None for no line."""
        if before is not None:
            before.jobs -= 1
            before.queue.waiting -= 1
            # Not removed at once: a job that is queued anew leaves its line and joins it again, and
            # taking a line out of the tree costs 20 us each time.
            if not before.jobs and before.order is not None:
                before.order.emptied.append(before)
        if line is not None:
            line.jobs += 1
            line.queue.waiting += 1

    def join(self, state: JobState, reason: WaitReason, *, line: Line, key: LineKey) -> None:
        """Stand in a line."""
        self.set_status(state, SchedulingStatus.READY, reason, line)
        entry = (key, state.job.created, state.job.jid, state.stamp)
        heapq.heappush(line.heap, entry)
        if self.starves(state):
            heapq.heappush(line.starving, entry)
        if line.order is not None:
            line.order.entered(line, entry)
        elif line.queue.order is not None:
            line.queue.order.add(line, entry)
        # Where a plugin orders jobs by comparison alone no key holds while they wait: such queues
        # are scanned, however many lines they have (decision 0041).
        elif len(line.queue.lines) > self.scanned and self.sortable:
            self._keep_in_order(line.queue)

    def join_run(self, run: Sequence[JobState], key: LineKey) -> None:
        """As :meth:`enter` and :meth:`join` of each, of new jobs that have their status and their
        line, where another stands, already."""
        line, count = run[0].line, len(run)
        self._reasons[HoldReason.NONE] -= count
        line.reasons[run[0].reason] += count
        self.status_counts[SchedulingStatus.READY] += count
        line.jobs += count
        line.queue.waiting += count
        for state in run:
            entry = (key, state.job.created, state.job.jid, state.stamp)
            heapq.heappush(line.heap, entry)
            if self.starves(state):
                heapq.heappush(line.starving, entry)
            if line.order is not None:
                line.order.entered(line, entry)

    def join_urgent(self, state: JobState, reason: WaitReason) -> None:
        self.set_status(state, SchedulingStatus.READY, reason)
        self._urgent.append((state.job.jid, state.stamp))

    # --- lines --------------------------------------------------------------------------------

    def line(
        self,
        queue: PendingQueue,
        need: Need,
        likeness: Hashable,
        asks: Callable[[], tuple[Amounts, Requests | None]],
    ) -> Line:
        """The queue's line for this need and likeness, created where missing with what it ``asks``
        for. Its first job must join it next."""
        line = queue.lines.get((need, likeness))
        if line is None:
            self._lines += 1
            amounts, requests = asks()
            line = Line(need, likeness, amounts, requests, queue=queue, number=self._lines)
            queue.lines[line.key] = line
        return line

    def _keep_in_order(self, queue: PendingQueue) -> LineOrder:
        """Keep the queue's lines sorted from now on, until none of them is left."""
        order = queue.order = LineOrder(self._capacity)
        for line in queue.lines.values():
            order.add(line, line.heap[0])
            if not line.jobs:
                order.emptied.append(line)
        return order

    def drop(self, line: Line) -> None:
        """Remove an empty line."""
        queue = line.queue
        del queue.lines[line.key]
        if line.order is not None:
            line.order.remove(line)
            if not queue.lines:
                queue.order = None

    def drop_emptied(self, queue: PendingQueue, *, skipped: bool = False) -> None:
        """Remove lines without jobs. Lines that the order skips stay unless ``skipped`` is set: a
        scan does not look at them either."""
        if queue.order is None:
            return
        order, emptied = queue.order, queue.order.emptied
        order.emptied = []
        for line in emptied:
            if line.jobs or line.order is not order:
                continue
            if order.skips(line) and not skipped:
                order.emptied.append(line)
            else:
                self.drop(line)

    def clear(self, queue: PendingQueue) -> None:
        """Remove all lines; their jobs must be lined up again."""
        for line in queue.lines.values():
            # First, as jobs still point to these lines: one that leaves its line later must not
            # touch a tree that is gone.
            line.order = line.node = None
        queue.lines.clear()
        queue.order = None

    def hold(self, line: Line, *, since: int, now: float) -> None:
        """A worker found the line infeasible; see :meth:`Line.hold`."""
        line.hold(since=since, now=now)
        # `since` below 0 stands for none: the line may be tried at once.
        if line.order is not None and since >= 0:
            line.order.rest(line)

    def hold_again(self, line: Line, block: LineBlock) -> None:
        """Block a line as it was before its last job left it for a while."""
        if line.infeasible_at >= 0:
            return  # others are in it, and a worker has looked since
        line.infeasible_at, line.not_before = block.infeasible_at, block.not_before
        line.wait = block.wait
        if line.order is not None:
            line.order.rest(line)

    def release_all(self) -> None:
        """Unblock the lines that workers found infeasible."""
        for queue in self.queues.values():
            for line in queue.lines.values():
                line.infeasible_at = -1
            if queue.order is not None:
                queue.order.wake_all()

    # --- who is next --------------------------------------------------------------------------

    def pop_urgent(self) -> JobState | None:
        """The first urgent job; its queue's share was checked before."""
        while self._urgent:
            jid, stamp = self._urgent.popleft()
            state = self._jobs.get(jid)
            if (
                state is not None
                and state.stamp == stamp
                and state.status is SchedulingStatus.READY
            ):
                return state
        return None

    def top(self, line: Line) -> Entry | None:
        """The first valid entry of a line; an empty line is removed."""
        self.looks += 1
        while line.heap:
            entry = line.heap[0]
            if self._holds(entry):
                return entry
            heapq.heappop(line.heap)
        self.drop(line)
        return None

    def first_starving(self, line: Line) -> Entry | None:
        """The first of those in a line that may evict others. An elastic job that has its minimum
        may stand before them; an empty line is removed."""
        if self.top(line) is None:
            return None
        while line.starving:
            entry = line.starving[0]
            if self._holds(entry) and self.starves(self._jobs[entry[2]]):
                return entry
            heapq.heappop(line.starving)
        return None

    def add_starving(self, state: JobState, key: LineKey) -> None:
        """A job that stands in a line starves now, and may not have when it joined."""
        if state.line is not None:
            entry = (key, state.job.created, state.job.jid, state.stamp)
            heapq.heappush(state.line.starving, entry)

    def first_of(self, line: Line) -> JobState | None:
        """The first job of a line; changes nothing that a pick would notice."""
        # One entry stays, void or not: sorted lines are added by the key of their first one.
        while len(line.heap) > 1 and not self._holds(line.heap[0]):
            heapq.heappop(line.heap)
        return self._jobs[line.heap[0][2]] if line.heap and self._holds(line.heap[0]) else None

    def _holds(self, entry: Entry) -> bool:
        """Whether the entry's job still stands where the entry says."""
        state = self._jobs.get(entry[2])
        return (
            state is not None and state.stamp == entry[3] and state.status is SchedulingStatus.READY
        )

    def first(self, queue: PendingQueue, room: Room) -> tuple[Line, Entry] | None:
        """Find the first job in order among the lines whose need fits into ``room``; return its
        line and entry."""
        order = queue.order
        while order is not None and (node := order.tree.first(room)) is not None:
            top = self.top(node.line)
            # A key is never later in order than the line's present first entry, so the first node
            # that fits and whose key still holds is the first of all; one that does not hold moves
            # back and the search goes on.
            if top == node.key:
                return node.line, top
            if top is not None:
                order.tree.move(node, top)
        return None

    def in_order(self, queue: PendingQueue) -> Iterator[Entry]:
        """The valid entries of a queue, best first. Looks at no more than it must to give as many
        as are taken, and at every line once."""
        lines = list(queue.lines.values())
        # A heap of candidates: an entry of a line's heap comes in with the one above it taken out.
        ahead = [(line.heap[0], at, 0) for at, line in enumerate(lines) if line.heap]
        heapq.heapify(ahead)
        while ahead:
            entry, at, index = heapq.heappop(ahead)
            heap = lines[at].heap
            for below in (2 * index + 1, 2 * index + 2):
                if below < len(heap):
                    heapq.heappush(ahead, (heap[below], at, below))
            if self._holds(entry):
                yield entry

    def head(self, queue: PendingQueue) -> Line | None:
        """The line with the first job of the queue, blocked or not."""
        if queue.order is not None:
            self.drop_emptied(queue, skipped=True)
            pair = self.first(queue, {})
            return None if pair is None else pair[0]
        tops = [(top, line) for line in list(queue.lines.values()) if (top := self.top(line))]
        return min(tops, key=lambda pair: pair[0])[1] if tops else None

    def held_back(self, line: Line, now: float) -> bool:
        """Whether another attempt of the line is known to fail."""
        # Nothing was freed since a worker looked at every node: the answer would be the same.
        if line.infeasible_at == self._capacity.changes:
            return True
        # Something was freed, but a stream of small releases must not become a stream of hopeless
        # turns: the pause grows with each turn that failed.
        if line.infeasible_at >= 0 and now < line.not_before:
            return True
        return self.count_first and not self._capacity.covers(line.amounts)

    def alone(self) -> bool:
        """Whether at most one job waits in all lines."""
        if self._urgent:
            return False
        entries = 0
        for line in self._all():
            # Stale entries count, too: an answer that is wrong in this direction only makes a turn
            # smaller.
            entries += len(line.heap)
            if entries > 1:
                return False
        return True

    def next_due(self) -> float | None:
        """When a line may be tried again although nothing happens until then; None for never."""
        due: list[float] = []
        for queue in self.queues.values():
            if queue.order is not None:
                until = queue.order.next_due()
                due += [] if until is None else [until]
                continue
            due += [
                line.not_before
                for line in queue.lines.values()
                if 0 <= line.infeasible_at < self._capacity.changes
            ]
        return min(due, default=None)

    # --- tell ---------------------------------------------------------------------------------

    def reasons(self, now: float) -> Counter[str]:
        """Number of jobs by pending reason. Jobs of a blocked line wait for resources."""
        reasons = Counter(self._reasons)
        for line in self._all():
            if self.held_back(line, now):
                reasons[Reason.NOT_ENOUGH_RESOURCES] += line.reasons.total()
            else:
                reasons.update(line.reasons)
        del reasons[HoldReason.NONE]
        by_reason: Counter[str] = Counter()
        for reason, count in reasons.items():
            by_reason[word(reason).value] += count
        return +by_reason

    def outside(self) -> Counter[Reason]:
        """Jobs outside of all lines, by reason."""
        by_reason: Counter[Reason] = Counter()
        for reason, count in self._reasons.items():
            by_reason[word(reason)] += count if reason else 0
        return by_reason

    def _all(self) -> Iterator[Line]:
        for queue in self.queues.values():
            yield from queue.lines.values()

    def all(self) -> list[Line]:
        """A copy of all lines, safe to iterate while jobs move."""
        return list(self._all())
