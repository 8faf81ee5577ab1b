"""Starvation: which jobs may evict others, and when each tries again.

A job that allocate could not place gets a turn of each evicting action of the policy, in the
policy's order. If none of them helps, it waits, a little longer each time, and at least until
something in the cluster has changed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from shared.model.kai import KaiPodGroup
from shared.model.model import Job, WorldObject
from shared.policy.evicting_actions import EVICTING
from shared.policy.model import Dialect, Policy

OPEN = 8
"""Limit on open evicting turns: two that choose the same victims conflict."""

AGAIN_SECONDS = 0.1
"""First pause of a job after all actions failed; doubles each time, to the limit."""

AGAIN_LIMIT_SECONDS = 10.0

CONFLICT_SECONDS = 0.02
"""First pause after a conflict; doubles each time, to the limit above."""

EVICTED_SECONDS = 1.0
"""First pause before a job whose tasks were evicted may evict others; doubles each time, to the
limit. Without it two jobs could evict each other for ever by different actions."""

EVICTED_LIMIT_SECONDS = 300.0

LOOK_SECONDS = 0.01
LOOK_SECONDS_A_LINE = 2e-5
"""Minimum interval between searches for starving jobs; grows with the number of lines so that the
search stays a small part of the time."""


@dataclass(slots=True)
class StarvationProgress:
    """The progress of a starving job through the actions."""

    step: int = 0
    """Index of the next action."""
    shards: set[int] = field(default_factory=set)
    """Shards where the next action already failed (hard mode)."""
    searched: bool = False
    """Whether it had a turn that evicts."""
    failed: bool = False
    """Whether an action was tried in vain since the first one's turn."""
    not_before: float = 0.0
    wait: float = AGAIN_SECONDS
    conflicts: int = 0
    revision: int = -1
    """Revision of the totals when the last action failed."""


class Contention:
    def __init__(self, policy: Policy) -> None:
        self.actions: tuple[str, ...] = ()
        self.out: dict[int, str] = {}
        """jid -> action of its turn that is out."""
        self.turns = 0
        """Turns that evict, since the start."""
        self._trying: dict[int, StarvationProgress] = {}
        self._evicted: dict[int, tuple[float, float]] = {}
        """jid -> (when it may evict again, how long it had to wait for that)."""
        self._held: dict[int, tuple[float, str]] = {}
        """jid -> (until when it may evict nobody, its PodGroup or ""), of jobs that others of their
        line go before."""
        self._ends: list[tuple[float, int]] = []
        """Heap of what :attr:`_held` says, and of what it said before."""
        self._held_groups: dict[str, int] = {}
        """PodGroup (``namespace/name``) -> jid, of the jobs in :attr:`_held`."""
        self._looked = float("-inf")
        self._blocked = False
        """Whether the last look found jobs that wait for an open turn."""
        self._by_time = False
        self.adopt(policy)

    def adopt(self, policy: Policy) -> None:
        """Take another policy's actions; every job may try at once."""
        self.actions = tuple(name for name in policy.actions if name in EVICTING)
        # Under KAI's rules the same totals may give another answer later: who runs long enough is
        # protected no more.
        self._by_time = policy.dialect is Dialect.KAI
        self._trying.clear()
        self._evicted.clear()
        self._held.clear()
        self._held_groups.clear()
        self._ends.clear()
        self._looked = float("-inf")

    def may_look(self, now: float) -> bool:
        """Whether to search for starving jobs now; needs room for another open turn."""
        room = bool(self.actions) and len(self.out) < OPEN
        return room and now >= self._looked + LOOK_SECONDS

    def looked(self, now: float, *, lines: int, blocked: bool = False) -> None:
        """Note a search through this many lines that found no job; the longer it took, the later
        the next. ``blocked``: some wait for an open turn, and may have theirs as soon as it
        returns."""
        self._blocked = blocked
        self._looked = now + max(0.0, lines * LOOK_SECONDS_A_LINE - LOOK_SECONDS)

    def action(self, jid: int, *, now: float, revision: int) -> str | None:
        """The action that the job may try now; None for none."""
        if now < self._pauses_until(jid):
            return None
        trying = self._trying.get(jid)
        if trying is None:
            return self.actions[0]
        # The same totals give the same answer: a pause alone does not make it worth another search.
        if now < trying.not_before:
            return None
        if trying.revision == revision and not self._by_time:
            return None
        return self.actions[trying.step]

    def searched(self) -> Iterator[int]:
        """Jobs for which evictions were tried, and that got no place since."""
        return (jid for jid, trying in self._trying.items() if trying.searched)

    def tried(self, jid: int) -> set[int]:
        """Shards where the job's action failed."""
        trying = self._trying.get(jid)
        return set() if trying is None else trying.shards

    def attempts(self, jid: int) -> int:
        """Failed turns of the job's next action."""
        trying = self._trying.get(jid)
        return 0 if trying is None else trying.conflicts + len(trying.shards)

    def opened(self, jid: int, action: str) -> None:
        self.turns += 1
        self.out[jid] = action
        self._trying.setdefault(jid, StarvationProgress()).searched = True

    def came_back(self, jid: int) -> str | None:
        """Close the job's turn; returns its action, None if that is one without evictions."""
        action = self.out.pop(jid, None)
        if action is not None and self._blocked:
            self._looked, self._blocked = float("-inf"), False
        return action

    def failed(self, jid: int, *, shard: int, elsewhere: bool, now: float, revision: int) -> None:
        """Note a failed attempt. ``elsewhere``: another shard may still help by the same action."""
        trying = self._trying.setdefault(jid, StarvationProgress())
        if elsewhere:
            trying.shards.add(shard)
            return
        self.skip(jid, now=now, revision=revision)

    def skip(self, jid: int, *, now: float, revision: int) -> None:
        """Go on to the next action; after the last one the job pauses."""
        self._trying.setdefault(jid, StarvationProgress()).failed = True
        self.pass_over(jid, now=now, revision=revision)

    def pass_over(self, jid: int, *, now: float, revision: int) -> None:
        """Go on to the next action without having tried this one: others come before the job. It
        pauses after the last one only for what was tried."""
        trying = self._trying.setdefault(jid, StarvationProgress())
        trying.shards.clear()
        trying.conflicts = 0
        trying.step += 1
        if trying.step >= len(self.actions):
            trying.step = 0
            if not trying.failed:
                return
            trying.failed = False
            trying.revision = revision
            trying.not_before = now + trying.wait
            trying.wait = min(2 * trying.wait, max(trying.wait, AGAIN_LIMIT_SECONDS))

    def evicted_for(self, jid: int, *, now: float) -> None:
        """Note that tasks leave for the job. Until it is placed each further eviction comes later:
        where it cannot start on what was freed (a plugin promises a gang less than it needs), its
        victims come back, and it would evict them for ever."""
        trying = self._trying.setdefault(jid, StarvationProgress())
        self.promised(jid)
        trying.not_before = now + trying.wait
        trying.wait = min(2 * trying.wait, EVICTED_LIMIT_SECONDS)

    def promised(self, jid: int) -> None:
        """Note that the job has nominations: if they come to nothing, it begins at the first action
        again."""
        trying = self._trying.get(jid)
        if trying is not None:
            trying.step = trying.conflicts = 0
            trying.revision = -1
            trying.shards.clear()

    def refused(self, jid: int, *, now: float) -> None:
        """Note a conflict: the same action again after a short pause."""
        trying = self._trying.setdefault(jid, StarvationProgress())
        # Short at first: a conflict says that another shard was faster, not that there is no room.
        wait = CONFLICT_SECONDS * 2 ** min(trying.conflicts, 9)
        trying.conflicts += 1
        trying.not_before = now + min(wait, AGAIN_LIMIT_SECONDS)

    def was_evicted(self, jid: int, *, now: float) -> None:
        """Note that tasks of the job are evicted: it pauses before it evicts others. Evictions
        during a pause do not extend it."""
        until, wait = self._evicted.get(jid, (0.0, 0.0))
        if now < until:
            return
        if now > until + EVICTED_LIMIT_SECONDS:
            wait = 0.0
        wait = min(2 * wait or EVICTED_SECONDS, EVICTED_LIMIT_SECONDS)
        self._evicted[jid] = (now + wait, wait)

    def may_evict(self, job: Job, *, earliest: float, now: float) -> bool:
        """Whether a starving job may evict others now. Where it may only later, because its policy
        says so (``earliest``) or because its own tasks were evicted, it gives way to those who ask
        for the same, and :meth:`held_no_more` names it then."""
        until = max(earliest, self._pauses_until(job.jid))
        if until <= now:
            return True
        group = job.key if job.kind == "PodGroup" else ""
        if self._held.get(job.jid) != (until, group):
            self._hold(job.jid, until, group)
        return False

    def _hold(self, jid: int, until: float, group: str) -> None:
        self._held[jid] = until, group
        if group:
            self._held_groups[group] = jid
        heapq.heappush(self._ends, (until, jid))

    def _pauses_until(self, jid: int) -> float:
        """When a job whose tasks were evicted may evict others; in the past for most."""
        return self._evicted.get(jid, (0.0, 0.0))[0]

    def ask_anew(self, value: WorldObject) -> None:
        """A PodGroup was stored: its job may have to wait longer, or no more."""
        if isinstance(value, KaiPodGroup) and (jid := self._held_groups.get(value.key)) is not None:
            self._hold(jid, 0.0, value.key)

    def held_no_more(self, now: float) -> Iterator[int]:
        """The jobs that may evict again, each once."""
        while self._ends and self._ends[0][0] <= now:
            until, jid = heapq.heappop(self._ends)
            if jid in self._held and self._held[jid][0] == until:
                self._let_go(jid)
                yield jid

    def _let_go(self, jid: int) -> None:
        _, group = self._held.pop(jid, (0.0, ""))
        self._held_groups.pop(group, None)

    def gone(self, jid: int) -> None:
        """Forget a job that is deleted or done."""
        self._evicted.pop(jid, None)
        self._let_go(jid)
        self.forget(jid)

    def forget(self, jid: int) -> None:
        """Reset the progress of a job that got its place, or is gone."""
        self._trying.pop(jid, None)

    def next_due(self, now: float) -> float | None:
        """The next time at which a job may try again although nothing happens."""
        due = [trying.not_before for trying in self._trying.values()]
        due += [until for until, _ in self._evicted.values()]
        # Not before the next look: until then nobody asks whose time has come.
        due += [max(until, self._looked + LOOK_SECONDS) for until, _ in self._ends[:1]]
        return min((at for at in due if at > now), default=None)
