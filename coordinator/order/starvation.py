"""Starvation: which jobs may evict others, and when each tries again.

A job that allocate could not place gets a turn of each evicting action of the policy, in the
policy's order. If none of them helps, it waits, a little longer each time, and at least until
something in the cluster has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from coordinator.order.excerpts import EVICTING
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
        self._looked = float("-inf")
        self._most = OPEN
        self._by_time = False
        self.adopt(policy)

    def adopt(self, policy: Policy) -> None:
        """Take another policy's actions; every job may try at once."""
        self.actions = tuple(name for name in policy.actions if name in EVICTING)
        # Under KAI's rules each search depends on all that the one before took, and the same totals
        # may give another answer later: who runs long enough is protected no more.
        self._most = 1 if policy.dialect is Dialect.KAI else OPEN
        self._by_time = policy.dialect is Dialect.KAI
        self._trying.clear()
        self._evicted.clear()
        self._looked = float("-inf")

    def may_look(self, now: float) -> bool:
        """Whether to search for starving jobs now; needs room for another open turn."""
        room = bool(self.actions) and len(self.out) < self._most
        return room and now >= self._looked + LOOK_SECONDS

    def looked(self, now: float, *, lines: int) -> None:
        """Note a search through this many lines that found no job; the longer it took, the later
        the next."""
        self._looked = now + max(0.0, lines * LOOK_SECONDS_A_LINE - LOOK_SECONDS)

    def action(self, jid: int, *, now: float, revision: int) -> str | None:
        """The action that the job may try now; None for none."""
        if now < self._evicted.get(jid, (0.0, 0.0))[0]:
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
        return self.out.pop(jid, None)

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

    def gone(self, jid: int) -> None:
        """Forget a job that is deleted or done."""
        self._evicted.pop(jid, None)
        self.forget(jid)

    def forget(self, jid: int) -> None:
        """Reset the progress of a job that got its place, or is gone."""
        self._trying.pop(jid, None)

    def next_due(self, now: float) -> float | None:
        """The next time at which a job may try again although nothing happens."""
        due = [t.not_before for t in self._trying.values() if t.not_before > now]
        due += [until for until, _ in self._evicted.values() if until > now]
        return min(due, default=None)
