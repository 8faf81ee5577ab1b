"""Selection of the next job where the policy compares queues with the next job of each.

As KAI's allocate: the job at the head of each queue counts until its turn came. Where it fails then
(its queue may not have it, or the cluster is known to lack it) it is out for the rest of the
session, and the job behind it counts: nobody waits behind it, and it comes before nobody.

Jobs of one line fail alike, so that a line is out as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from coordinator.jobs.accounts import Accounts
from coordinator.jobs.pending_order import SKIPPED, Line, LineId, PendingQueue
from coordinator.jobs.pending_queue import SCANNED_LINES, Lines
from coordinator.jobs.pending_tree import Entry
from coordinator.order.queue_walk import QueueWalk
from shard_worker.framework.queue_choice import QueueChoice
from shard_worker.session_model.workload import Amounts, QueueInfo

SortedHead = Callable[[PendingQueue], tuple[Line, Entry] | None]


@dataclass(frozen=True, slots=True)
class QueueHead:
    """The next job of one queue."""

    queue: PendingQueue
    line: Line
    entry: Entry
    asks: Amounts


class TreeSelection:
    """The picks of one session."""

    def __init__(
        self,
        choice: QueueChoice[Any],
        accounts: Accounts,
        lines: Lines,
        *,
        now: float,
        session: int,
        depth: int | None,
        fitting: SortedHead,
    ) -> None:
        """``session``: its number. ``depth``: only the first so many jobs of each queue are tried.
        ``fitting``: the first of a queue's sorted lines for which there may be room."""
        self._accounts, self._lines = accounts, lines
        self._now, self._session, self._depth = now, session, depth
        self._fitting = fitting
        self._out: set[tuple[int, LineId]] = set()
        """Lines (queue, line) whose first job failed in this session."""
        self._failed: dict[int, int] = {}
        """Queue -> sorted lines of it that are out."""
        self._last: dict[int, Entry | None] = {}
        """Queue -> the last of its jobs that is tried in this session, where there is a depth; None
        where none is."""
        self._walk: QueueWalk[QueueHead] = QueueWalk(choice, accounts.cluster, self._head)
        self._hopeful = {qid: queue for qid, queue in lines.queues.items() if queue.lines}
        """Queues in which there may be a job to try: capacity only shrinks during a session."""
        self._walk.add(queue.info for queue in self._hopeful.values())

    def changed(self, queue: QueueInfo) -> None:
        """Note that a queue got a turn, or that a job of it joined or left its lines."""
        self._walk.changed(queue)
        if (pending := self._lines.queues.get(queue.queue.qid)) is not None:
            self._hopeful[queue.queue.qid] = pending

    def next(self) -> QueueHead | None:
        """The job whose turn it is, of those not known to find no room."""
        while self._any_room() and (head := self._walk.first()) is not None:
            if not self._lines.held_back(head.line, self._now):
                return head
            self.fail(head)
        return None

    def _any_room(self) -> bool:
        """Whether any job may be tried. Where capacity holds all of a thousand queues back, nobody
        asks whose turn it would be."""
        while self._hopeful:
            queue = next(iter(self._hopeful.values()))
            if queue.order is not None or any(
                not self._lines.held_back(line, self._now)
                and (queue.info.queue.qid, line.key) not in self._out
                for line in queue.lines.values()
            ):
                return True
            del self._hopeful[queue.info.queue.qid]
        return False

    def fail(self, head: QueueHead) -> None:
        """The job's turn came, and it cannot have one: it is out for the session."""
        queue, line = head.queue, head.line
        qid = queue.info.queue.qid
        self._out.add((qid, line.key))
        if line.order is not None:
            line.order.skip(line)
            self._failed[qid] = self._failed.get(qid, 0) + 1
        self._walk.changed(queue.info)

    # --- the next job of one queue --------------------------------------------------------------

    def _head(self, info: QueueInfo) -> QueueHead | None:
        queue = self._lines.queues.get(info.queue.qid)
        if queue is None or not queue.lines:
            return None
        head = self._sorted_head(queue) if queue.order is not None else self._scanned_head(queue)
        if head is None or not self._within_depth(queue, head[1]):
            return None
        asks, need = head[0].amounts, head[0].need
        if self._accounts.depends_on_node(need):
            asks = self._accounts.needed(need, most=True)
        return QueueHead(queue, *head, asks=asks)

    def _scanned_head(self, queue: PendingQueue) -> tuple[Line, Entry] | None:
        qid = queue.info.queue.qid
        best: tuple[Line, Entry] | None = None
        # A copy: `top` removes a line whose last job has left.
        for key, line in list(queue.lines.items()):
            if (qid, key) in self._out or (top := self._lines.top(line)) is None:
                continue
            if best is None or top < best[1]:
                best = line, top
        return best

    def _sorted_head(self, queue: PendingQueue) -> tuple[Line, Entry] | None:
        """The first of many lines. Only as many as would be scanned may fail one by one: after that
        those without room are passed over unseen, or 20,000 hopeless lines would each be touched in
        every session (decision 0041)."""
        order = queue.order
        assert order is not None
        order.begin(self._session, self._now)
        self._lines.drop_emptied(queue)
        if self._failed.get(queue.info.queue.qid, 0) >= SCANNED_LINES:
            return self._fitting(queue)
        return self._lines.first(queue, {SKIPPED: 0})

    def _within_depth(self, queue: PendingQueue, entry: Entry) -> bool:
        if self._depth is None:
            return True
        qid = queue.info.queue.qid
        if qid not in self._last:
            # Jobs that are served count: their turns are tried by now, or go on by themselves. One
            # whose evicting turn waited for another's once let those behind it pass.
            left = max(self._depth - self._lines.served[qid], 0)
            tried = list(islice(self._lines.in_order(queue), left))
            self._last[qid] = tried[-1] if tried else None
        last = self._last[qid]
        return last is not None and entry <= last
