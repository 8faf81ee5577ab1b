"""Which starving job may evict others next, and by which action of the policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coordinator.jobs.accounts import Accounts
from coordinator.jobs.capability import within_capability
from coordinator.jobs.pending_queue import Lines
from coordinator.jobs.state import JobState, Need
from coordinator.order.eviction_depth import EvictionDepth
from coordinator.order.queue_heap import QueueHeap
from coordinator.order.starvation import Contention
from coordinator.order.turn_contexts import tree_key
from shard_worker.framework.session import Session
from shard_worker.framework.sort_keys import QueuePlace
from shared.policy.evicting_actions import ANY_QUEUE, SAME_QUEUE


@dataclass(frozen=True, slots=True, kw_only=True)
class Contenders:
    """One look at the jobs that wait in lines, and at those whose tasks ask for nothing."""

    session: Session
    accounts: Accounts
    lines: Lines
    jobs: Mapping[int, JobState]
    contention: Contention
    depth: EvictionDepth
    need: Callable[[JobState], Need]
    """Tasks that a job's next turn has to place."""
    searched: Callable[[JobState, str, Session], set[str]]
    """The keys of the queues that the search of an action is judged by."""
    touched: Callable[[set[str]], bool]
    """Whether an open turn touches some of these keys."""
    unfilled: Sequence[JobState]
    """Starving jobs that stand in no line, because their tasks ask for nothing."""
    allocates: bool
    """Whether the policy has the action allocate."""
    now: float
    """Seconds since 1970."""

    def next(self) -> tuple[JobState, str] | None:
        """The next starving job that may evict, and its action: by queue order, then job order.

        One whose search is judged by queues that an open one touches waits for that, where it
        stands: allocate may have room for it sooner. Nobody behind it may touch those queues
        either: else a search over all of them would wait for ever behind those within one each.
        """
        lines = self.lines
        if self.session.queue_choice is not None and self._all_touched():
            return None  # not even a look: it takes time by the number of lines
        awaited: set[str] = set()
        waiting = [qid for qid, queue in lines.queues.items() if queue.lines]
        for qid in QueueHeap(waiting, self._place).drain():
            queue = lines.queues[qid]
            # Those of all lines are sorted at each look, which is why looks without a result grow
            # rarer with the number of lines.
            own = tree_key(queue.info)
            if own in awaited:
                continue
            every = (lines.first_starving(line) for line in list(queue.lines.values()))
            for first in sorted(filter(None, every)):
                state = self.jobs[first[2]]
                within = self.depth.of(queue, first)
                if (action := self._action(state, within)) is None:
                    continue
                keys = self.searched(state, action, self.session)
                if awaited.isdisjoint(keys) and not self.touched(keys):
                    return state, action
                awaited |= keys
                if own in awaited:
                    break  # whatever else waits in this queue touches its own tree as well
        for state in self.unfilled:
            if (action := self._action(state, lambda _: True)) is not None:
                keys = self.searched(state, action, self.session)
                if awaited.isdisjoint(keys) and not self.touched(keys):
                    return state, action
                awaited |= keys
        looked = sum(len(lines.queues[qid].lines) for qid in waiting) + len(self.unfilled)
        self.contention.looked(self.now, lines=looked, blocked=bool(awaited))
        return None

    def _place(self, qid: int) -> QueuePlace:
        return self.session.queue_place(self.lines.queues[qid].info, self.accounts.cluster)

    def _all_touched(self) -> bool:
        """Whether there is no tree of queues that no open turn touches."""
        roots = (info for info in self.accounts.cluster.queues.values() if not info.above)
        return all(self.touched({tree_key(info)}) for info in roots)

    def _action(self, state: JobState, within: Callable[[str], bool]) -> str | None:
        """The action by which this job may evict now; None for none. ``within``: whether an action
        tries as many jobs of its queue as come up to it."""
        jid, revision = state.job.jid, self.accounts.cluster.revision
        for _ in self.contention.actions:
            action = self.contention.action(jid, now=self.now, revision=revision)
            if action is None:
                return None
            if not within(action):
                self.contention.pass_over(jid, now=self.now, revision=revision)
            elif self._worth(state, action):
                return action
            else:
                self.contention.skip(jid, now=self.now, revision=revision)
        return None

    def _worth(self, state: JobState, action: str) -> bool:
        """Whether the action has a possible victim, and the job's queue may have what it asks."""
        cluster, info = self.accounts.cluster, self.accounts.queue(state)
        if self.session.queue_choice is not None and action not in SAME_QUEUE:
            asks = self.accounts.needed(self.need(state))
            # The victims of a reclaim give back what they have of the limits above.
            if not within_capability(self.lines.queues if action in ANY_QUEUE else {}, info, asks):
                return False
        if action in ANY_QUEUE or (action in SAME_QUEUE and not self.allocates):
            return True  # preempt promises idle room as well, and nobody else does
        if action in SAME_QUEUE:
            return any(n > state.info.allocated.get(s, 0) for s, n in info.allocated.items())
        if self.session.overused(info, cluster):
            return False
        return any(
            queue is not info and queue.queue.reclaimable and any(queue.allocated.values())
            for queue in cluster.queues.values()
        )
