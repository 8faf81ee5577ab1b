"""Picking: whose turn is next in this session, by the queues' shares and the jobs' order.

Volcano's walk: the first queue in order that is not overused, its first job whose need the queue
may have; a queue without one is closed for the rest of the session. Our addition, off in replay:
when no queue within its share has a job that can be tried, free capacity goes to queues beyond
it."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.accounts import Accounts
from coordinator.jobs import JobState, Need, Standing, amounts
from coordinator.lines import Entry, Line, Lines, QueueState
from shard_worker.session import Session
from shard_worker.workload import QueueInfo
from shared.model import Requests


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
        self._accounts = accounts
        self._lines = lines
        self._jobs = jobs
        self._work_conserving = work_conserving
        self._now = 0.0
        self._closed: set[int] = set()
        """Queues that were overused, or had nothing that can be tried."""
        self._blocked: set[tuple[int, Need]] = set()
        """Lines (queue, need) that capacity holds back."""
        self._over_share: set[tuple[int, Need]] = set()
        """Lines that their queue's share or capability holds back."""

    def adopt(self, session: Session) -> None:
        """Go by another session from now on."""
        self._session = session
        self.begin(self._now)

    def begin(self, now: float) -> None:
        """A new session: what was closed or held back may be tried again."""
        self._now = now
        self._closed.clear()
        self._blocked.clear()
        self._over_share.clear()

    def next(self) -> tuple[JobState, Need] | None:
        """The next job and what it needs; it stays in its line until its turn is opened."""
        while (picked := self._pick()) is not None:
            queue, line, state = picked
            if self.allowed(queue.info, line.need):
                return state, line.need
            self._lines.stand(state, Standing.READY, "WaitingForQuota", line)
            self._over_share.add((queue.info.queue.qid, line.need))
        return self._borrow() if self._work_conserving else None

    def _pick(self) -> tuple[QueueState, Line, JobState] | None:
        """The first job of the first queue that is not overused and not held back."""
        cluster = self._accounts.cluster
        while (queue := self._best_queue()) is not None:
            if not self._session.overused(queue.info, cluster):
                found = self._best_line(queue)
                if found is not None:
                    return queue, found[0], self._jobs[found[1][2]]
            self._closed.add(queue.info.queue.qid)
        return None

    def _best_queue(self) -> QueueState | None:
        best: QueueState | None = None
        best_key: tuple[tuple[float, ...], str] | None = None
        for qid, queue in self._lines.queues.items():
            if not queue.lines or qid in self._closed:
                continue
            key = self._queue_key(queue)
            if best_key is None or key < best_key:
                best, best_key = queue, key
        return best

    def _queue_key(self, queue: QueueState) -> tuple[tuple[float, ...], str]:
        key = self._session.queue_key(queue.info, self._accounts.cluster)
        return (key, queue.info.queue.name)

    def _best_line(self, queue: QueueState) -> tuple[Line, Entry] | None:
        """The line whose first job is first in order, of those that are not held back."""
        qid = queue.info.queue.qid
        best: tuple[Line, Entry] | None = None
        for need, line in list(queue.lines.items()):
            if (qid, need) in self._blocked or (qid, need) in self._over_share:
                continue
            top = self._lines.top(queue, line)
            if top is None:
                continue
            if self._lines.held_back(line, self._now):
                self._blocked.add((qid, need))
            elif best is None or top < best[1]:
                best = (line, top)
        return best

    def allowed(self, queue: QueueInfo, need: Need) -> bool:
        """Whether queue share and capability let all of the need pass.

        Volcano asks Allocatable for one task after the other with the share growing; as the rule
        only ever compares a growing sum, asking once for the sum is the same.
        """
        asked: Requests = tuple(sorted(amounts(need, self._accounts.classes).items()))
        if not self._session.allocatable(queue, asked, self._accounts.cluster):
            return False
        return self._within_capability(queue, asked)

    def _within_capability(self, queue: QueueInfo, asked: Requests) -> bool:
        """Whether the queue and each ancestor can take it (the ledger will ask the same)."""
        for above in self._upwards(queue):
            limits = dict(above.queue.capability or ())
            for slot, amount in asked:
                if slot in limits and self._held(above, slot) + amount > limits[slot]:
                    return False
        return True

    def _upwards(self, queue: QueueInfo) -> Iterator[QueueInfo]:
        """A queue and its ancestors."""
        at: QueueState | None = self._lines.queues.get(queue.queue.qid)
        while at is not None:
            yield at.info
            at = self._lines.queues.get(at.info.queue.parent)

    def _held(self, top: QueueInfo, slot: int) -> int:
        """What a queue and all below it hold of a slot, leaving tasks included."""
        return sum(
            queue.info.allocated.get(slot, 0) + queue.info.releasing.get(slot, 0)
            for queue in self._lines.queues.values()
            if queue.info is top or any(above is top for above in self._upwards(queue.info))
        )

    def _borrow(self) -> tuple[JobState, Need] | None:
        """Work conservation: what no queue may have within its share goes by queue order."""
        closed = [
            (self._queue_key(self._lines.queues[qid]), qid)
            for qid in {qid for qid, _ in self._over_share} | self._closed
        ]
        for _, qid in sorted(closed):
            queue = self._lines.queues[qid]
            if not queue.info.queue.open:
                continue
            for need, line in list(queue.lines.items()):
                top = self._lines.top(queue, line)
                if (
                    top is None
                    or (qid, need) in self._blocked
                    or self._lines.held_back(line, self._now)
                ):
                    continue
                asked: Requests = tuple(sorted(line.amounts.items()))
                if self._within_capability(queue.info, asked) and self._session.may_borrow(
                    queue.info, asked, self._accounts.cluster
                ):
                    return self._jobs[top[2]], need
        return None
