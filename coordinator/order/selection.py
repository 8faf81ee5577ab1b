"""Selection of the next job in a session, by the queues' shares and the jobs' order.

Volcano's loop: the first queue in order that is not overused, its first job that the queue admits;
a queue without such a job is closed for the rest of the session. Our addition, off in replay: when
no queue within its share has a job that can be tried, free capacity goes to queues beyond their
share.

Capacity only shrinks during a session, from one pick to the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.jobs.accounts import Accounts
from coordinator.jobs.capability import held, upwards, within_capability
from coordinator.jobs.pending_order import NONE_OF_THOSE, Line, LineId, LineOrder, PendingQueue
from coordinator.jobs.pending_queue import Lines
from coordinator.jobs.pending_tree import Entry
from coordinator.jobs.state import JobState, Need, SchedulingStatus
from coordinator.order.queue_heap import QueueHeap
from coordinator.order.tree_selection import TreeSelection
from coordinator.order.usage_over_time import UsageOverTime
from shard_worker.framework.session import Session
from shard_worker.framework.sort_keys import QueuePlace
from shard_worker.session_model.workload import Amounts, QueueInfo
from shared.messages.reason import Reason
from shared.model.model import Requests

BEYOND_SECONDS = 1.0
"""Seconds for which a job is tried only beyond its queue's share, after a session has found no room
for it within. Within the share it would be the first job again each time."""


FAILED_QUEUES = 16
"""So many queues in a row without a job to try, and the others are looked through before they are
asked one by one: the last turn may have taken the last room."""


class Picking:
    def __init__(
        self,
        session: Session,
        accounts: Accounts,
        lines: Lines,
        jobs: dict[int, JobState],
        *,
        work_conserving: bool,
    ) -> None:
        self._session = session
        self.usage = UsageOverTime(session, accounts.cluster)
        """By which shares are corrected."""
        self._accounts = accounts
        self._lines = lines
        self._jobs = jobs
        self._work_conserving = work_conserving
        self._now = 0.0
        self._closed: set[int] = set()
        """Queues that were overused, or had nothing that can be tried."""
        self._blocked: set[tuple[int, LineId]] = set()
        """Lines (queue, line) that capacity holds back."""
        self._over_share: set[tuple[int, LineId]] = set()
        """Lines that their queue's share or capability holds back."""
        self._sessions = 0
        self._borrowing: set[int] = set()
        """Queues beyond their share that got something, or might have, in this session."""
        self._beyond: dict[int, float] = {}
        """jid -> until when, of jobs whose members may have their places only beyond the share."""
        self._within: QueueHeap | None = None
        """The queues that are not closed."""
        self._lenders: QueueHeap | None = None
        """The closed queues that may have a job to try beyond their share."""
        self._tree: TreeSelection | None = None
        """The picks of this session, where the policy compares queues with the next job of each."""

    def adopt(self, session: Session) -> None:
        """Use the session of another policy from now on."""
        self._session = session
        self.usage.adopt(session)
        self._reopen()

    def begin(self, now: float) -> None:
        """Open a session: closed queues and blocked lines may be tried again."""
        self._now = now
        self.usage.begin(now)
        self._beyond = {jid: until for jid, until in self._beyond.items() if until > now}
        self._reopen()

    def _reopen(self) -> None:
        self._sessions += 1
        self._borrowing.clear()
        self._closed.clear()
        self._blocked.clear()
        self._over_share.clear()
        self._within = self._lenders = None
        self._tree = None

    def changed(self, queue: QueueInfo) -> None:
        """Note that a queue gets a turn now, or that its jobs joined or left its lines."""
        if self._tree is not None:
            self._tree.changed(queue)
        for at in upwards(self._lines.queues, queue):
            qid = at.queue.qid
            if qid not in self._lines.queues:
                continue
            own, other = self._within, self._lenders
            if qid in self._closed:
                own, other = other, own
            if own is not None:
                own.changed(qid)
            if other is not None:
                other.moved(qid)

    def next(self) -> tuple[JobState, Need] | None:
        """The next job and its need; it stays in its line until its turn is opened."""
        if self._session.queue_choice is not None:
            return self._next_of_tree()
        failed = 0
        while (queue := self._first_queue()) is not None:
            while (best := self._best_line(queue)) is not None:
                line, state = best[0], self._jobs[best[1][2]]
                if state.job.jid not in self._beyond and self._line_allowed(queue.info, line):
                    return state, line.need
                self._lines.set_status(
                    state, SchedulingStatus.READY, Reason.WAITING_FOR_QUOTA, line
                )
                self._over_share.add((queue.info.queue.qid, line.key))
                if line.order is not None:
                    line.order.skip(line)
            self._close(queue)
            failed += 1
            if failed == FAILED_QUEUES and self._within is not None:
                self._within = self._left_with_room(self._within)
        # Volcano leaves this capacity free: with four queues of weight one that each want a gang of
        # 8 on 16 GPUs each deserves 4, and the cluster stays empty for ever (decision 0010).
        return self._borrow() if self._work_conserving else None

    def _next_of_tree(self) -> tuple[JobState, Need] | None:
        tree = self._tree = self._tree or self._open_tree()
        while (head := tree.next()) is not None:
            state, line = self._jobs[head.entry[2]], head.line
            if self._line_allowed(head.queue.info, line):
                return state, line.need
            self._lines.set_status(state, SchedulingStatus.READY, Reason.WAITING_FOR_QUOTA, line)
            tree.fail(head)
        return None

    def _open_tree(self) -> TreeSelection:
        choice = self._session.queue_choice
        assert choice is not None
        return TreeSelection(
            choice,
            self._accounts,
            self._lines,
            now=self._now,
            session=self._sessions,
            depth=self._session.depths.get("allocate"),
            fitting=lambda queue: (
                None if queue.order is None else self._search(queue, queue.order, borrowing=False)
            ),
        )

    def _first_queue(self) -> PendingQueue | None:
        """The first queue that is neither overused nor closed."""
        if self._within is None or not self._session.sorts_queues:
            queues = self._lines.queues.items()
            qids = [qid for qid, queue in queues if queue.lines and qid not in self._closed]
            self._within = QueueHeap(self._with_room(qids), self._place)
        while (qid := self._within.first()) is not None:
            queue = self._lines.queues[qid]
            if not self._session.overused(queue.info, self._accounts.cluster):
                return queue
            self._close(queue)
        self._closed.update(qid for qid, queue in self._lines.queues.items() if queue.lines)
        return None

    def _left_with_room(self, heap: QueueHeap) -> QueueHeap:
        """The heap, or one of the queues in it that have room if those are few."""
        qids = heap.qids()
        left = self._with_room(qids)
        return heap if 2 * len(left) > len(qids) else QueueHeap(left, self._place)

    def _with_room(self, qids: Iterable[int]) -> list[int]:
        """The queues for which capacity may have room. On a full cluster that is none of a
        thousand, and the place of each in order would take ten times as long as this look."""
        queues, lines, now = self._lines.queues, self._lines, self._now
        return [
            qid
            for qid in qids
            if queues[qid].order is not None
            or not all(lines.held_back(line, now) for line in queues[qid].lines.values())
        ]

    def _close(self, queue: PendingQueue) -> None:
        """For the rest of the session, as in Volcano: capacity only shrinks from pick to pick."""
        qid = queue.info.queue.qid
        self._closed.add(qid)
        if self._within is not None:
            self._within.remove(qid)
        if self._lenders is not None:
            self._lenders.changed(qid)

    def _place(self, qid: int) -> QueuePlace:
        return self._session.queue_place(self._lines.queues[qid].info, self._accounts.cluster)

    def _best_line(self, queue: PendingQueue) -> tuple[Line, Entry] | None:
        """Find the line whose first job is first in order, among the lines that are not blocked."""
        if queue.order is not None:
            return self._search(queue, queue.order, borrowing=False)
        qid = queue.info.queue.qid
        best: tuple[Line, Entry] | None = None
        # A copy: `top` removes a line whose last job has left.
        for key, line in list(queue.lines.items()):
            if (qid, key) in self._blocked or (qid, key) in self._over_share:
                continue
            top = self._lines.top(line)
            if top is None:
                continue
            if self._lines.held_back(line, self._now):
                self._blocked.add((qid, key))
            elif best is None or top < best[1]:
                best = (line, top)
        return best

    def _search(
        self, queue: PendingQueue, order: LineOrder, *, borrowing: bool
    ) -> tuple[Line, Entry] | None:
        """:meth:`_best_line` for many lines: skips those without room by an index, so that lines
        beyond their queue's share cost nothing."""
        order.begin(self._sessions, self._now)
        self._lines.drop_emptied(queue)
        room = self._room(queue.info, borrowing=borrowing)
        while room is not None and (candidate := self._lines.first(queue, room)) is not None:
            if not self._lines.held_back(candidate[0], self._now):
                return candidate
            # The room is an upper bound: what it lets through is asked the exact question. A room
            # that is too large costs a look and never a decision (decision 0041).
            order.skip(candidate[0])
        return None

    def _room(self, queue: QueueInfo, *, borrowing: bool) -> dict[int, float] | None:
        """The most that a line of the queue may request, by the rules that return amounts; None:
        nothing."""
        room = self._session.room(queue, self._accounts.cluster, borrowing=borrowing)
        if room is None:
            return None
        if self._lines.count_first:
            for slot, free in self._accounts.capacity.room().items():
                room[slot] = min(free, room.get(slot, free))
        for above in upwards(self._lines.queues, queue):
            for slot, limit in above.queue.capability or ():
                headroom = max(limit - held(self._lines.queues, above, slot), 0)
                room[slot] = min(headroom, room.get(slot, headroom))
        room.update(NONE_OF_THOSE)
        return room

    def allowed(self, queue: QueueInfo, need: Need) -> bool:
        """Whether the queue's share and capability admit the whole need.

        Volcano asks Allocatable for one task after the other with the share growing; the rule only
        compares a growing sum, so that asking once for the sum is the same.
        """
        return self.admits_amounts(queue, self._accounts.needed(need))

    def _line_allowed(self, queue: QueueInfo, line: Line) -> bool:
        """:meth:`allowed`, of the next job of a line."""
        if line.requests is None:
            return self.allowed(queue, line.need)
        return self._admits(queue, line.amounts, line.requests)

    def admits_amounts(self, queue: QueueInfo, total: Amounts) -> bool:
        """The same of amounts."""
        return self._admits(queue, total, tuple(sorted(total.items())))

    def _admits(self, queue: QueueInfo, total: Amounts, requests: Requests) -> bool:
        if not self._session.allocatable(queue, requests, self._accounts.cluster):
            return False
        return within_capability(self._lines.queues, queue, total)

    def lends(self, state: JobState, need: Need) -> bool:
        """Whether the job's session may exceed its queue's share: the job was picked beyond it, or
        has promises, with which it was admitted."""
        if state.nominated or state.job.jid in self._beyond:
            return True
        queue = self._accounts.queue(state)
        overused = self._session.overused(queue, self._accounts.cluster)
        return overused or not self.allowed(queue, need)

    def refused_within(self, jid: int) -> bool:
        """Note that a session found no room for a job within its queue's share. A need is the least
        that the members can ask for, and which of them are placed first is the session's matter.
        Returns whether the job may be tried beyond the share."""
        lent = self._work_conserving and self._session.queue_choice is None
        if lent:
            self._beyond[jid] = self._now + BEYOND_SECONDS
        return lent

    def within(self, queue: QueueInfo, need: Need) -> bool:
        """Whether the queue's capability, and those above it, admit the whole need."""
        return within_capability(self._lines.queues, queue, self._accounts.needed(need))

    def admits(self, state: JobState, need: Need) -> bool:
        """Whether the job's queue may have the whole need now, within its share or beyond it."""
        queue = self._accounts.queue(state)
        if self.allowed(queue, need):
            return True
        total = self._accounts.needed(need)
        return self._work_conserving and queue.queue.open and self._may_lend(queue, total)

    def _borrow(self) -> tuple[JobState, Need] | None:
        """Work conservation: when no queue within its share has a job to try, free capacity goes by
        queue order, then job order."""
        if self._lenders is None or not self._session.sorts_queues:
            self._lenders = QueueHeap(self._with_room(self._closed), self._place)
        failed = 0
        while (qid := self._lenders.first()) is not None:
            queue = self._lines.queues[qid]
            if queue.info.queue.open and (best := self._best_beyond(queue)) is not None:
                return self._jobs[best[1][2]], best[0].need
            self._lenders.remove(qid)
            failed += 1
            if failed == FAILED_QUEUES:
                self._lenders = self._left_with_room(self._lenders)
        return None

    def _best_beyond(self, queue: PendingQueue) -> tuple[Line, Entry] | None:
        """The first line that its queue may place beyond its share."""
        if queue.order is None:
            lines = [(line, self._lines.top(line)) for line in list(queue.lines.values())]
            may = [(line, top) for line, top in lines if top and self._may_borrow(queue, line)]
            return min(may, key=lambda candidate: candidate[1], default=None)
        if queue.info.queue.qid not in self._borrowing:  # its share counts no more
            self._borrowing.add(queue.info.queue.qid)
            queue.order.unskip()
        while (candidate := self._search(queue, queue.order, borrowing=True)) is not None:
            if self._may_borrow(queue, candidate[0]):
                return candidate
            queue.order.skip(candidate[0])
        return None

    def _may_borrow(self, queue: PendingQueue, line: Line) -> bool:
        if (queue.info.queue.qid, line.key) in self._blocked:
            return False
        if self._lines.held_back(line, self._now):
            return False
        return self._may_lend(queue.info, line.amounts)

    def _may_lend(self, queue: QueueInfo, total: Amounts) -> bool:
        """Whether a queue may have this much beyond its share."""
        if not within_capability(self._lines.queues, queue, total):
            return False
        requests: Requests = tuple(sorted(total.items()))
        return self._session.may_borrow(queue, requests, self._accounts.cluster)
