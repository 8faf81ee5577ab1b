"""Contention: jobs that starve and may take the place of others, and when each tries again.

A job that allocate left over gets a turn of each action of the policy that evicts, in the policy's
order. One that none of them helped waits, a little longer each time, and at least until something
in the cluster has moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.order.excerpts import EVICTING
from shared.policy.model import Policy

OPEN = 8
"""Turns that evict at once: two that look at the same victims cannot both have them."""

AGAIN_SECONDS = 0.1
"""How long a job waits at least after all actions were in vain; doubles each time, to the limit."""

AGAIN_LIMIT_SECONDS = 10.0

CONFLICT_SECONDS = 0.02
"""How long it waits where another was faster; doubles each time, to the limit above."""

EVICTED_SECONDS = 1.0
"""How long a job whose tasks were evicted evicts nobody itself; doubles each time, to the limit.
Rules of different actions may let two jobs take each other's place for ever."""

EVICTED_LIMIT_SECONDS = 300.0

LOOK_SECONDS = 0.01
LOOK_SECONDS_A_LINE = 2e-5
"""The lines are looked through for starving jobs at most so often; with very many lines less often,
so that it takes a small part of the time."""


@dataclass(slots=True)
class Trying:
    """How far a job has come."""

    step: int = 0
    """Index of the action that is next."""
    shards: set[int] = field(default_factory=set)
    """Shards that could not help by it (hard mode)."""
    not_before: float = 0.0
    wait: float = AGAIN_SECONDS
    conflicts: int = 0
    revision: int = -1
    """Of the totals when the last action was in vain."""


class Contention:
    def __init__(self, policy: Policy) -> None:
        self.actions: tuple[str, ...] = ()
        self.out: dict[int, str] = {}
        """jid -> action of its turn that is out."""
        self.turns = 0
        """Turns that evict, since the start."""
        self._trying: dict[int, Trying] = {}
        self._evicted: dict[int, tuple[float, float]] = {}
        """jid -> (when it may evict again, how long it had to wait for that)."""
        self._looked = float("-inf")
        self.adopt(policy)

    def adopt(self, policy: Policy) -> None:
        """By another policy everybody may try at once."""
        self.actions = tuple(name for name in policy.actions if name in EVICTING)
        self._trying.clear()
        self._evicted.clear()
        self._looked = float("-inf")

    def may_look(self, now: float) -> bool:
        """Is it time to look for starving jobs, and may another turn go out?"""
        room = bool(self.actions) and len(self.out) < OPEN
        return room and now >= self._looked + LOOK_SECONDS

    def looked(self, now: float, *, lines: int) -> None:
        """Note a look that found nobody in so many lines; the longer it took, the later
        the next."""
        self._looked = now + max(0.0, lines * LOOK_SECONDS_A_LINE - LOOK_SECONDS)

    def action(self, jid: int, *, now: float, revision: int) -> str | None:
        """The action that the job may try now."""
        if now < self._evicted.get(jid, (0.0, 0.0))[0]:
            return None
        trying = self._trying.get(jid)
        if trying is None:
            return self.actions[0]
        if now < trying.not_before or trying.revision == revision:
            return None
        return self.actions[trying.step]

    def tried(self, jid: int) -> set[int]:
        """Shards where the job's action failed."""
        trying = self._trying.get(jid)
        return set() if trying is None else trying.shards

    def attempts(self, jid: int) -> int:
        """Turns by the action that is next that came to nothing."""
        trying = self._trying.get(jid)
        return 0 if trying is None else trying.conflicts + len(trying.shards)

    def opened(self, jid: int, action: str) -> None:
        self.turns += 1
        self.out[jid] = action
        self._trying.setdefault(jid, Trying())

    def came_back(self, jid: int) -> str | None:
        """The action of the turn that was out; None where it was none that evicts."""
        return self.out.pop(jid, None)

    def in_vain(self, jid: int, *, shard: int, elsewhere: bool, now: float, revision: int) -> None:
        """``elsewhere``: another shard may help by the same action."""
        trying = self._trying.setdefault(jid, Trying())
        if elsewhere:
            trying.shards.add(shard)
            return
        self.skip(jid, now=now, revision=revision)

    def skip(self, jid: int, *, now: float, revision: int) -> None:
        """On to the next action; after the last one the job waits."""
        trying = self._trying.setdefault(jid, Trying())
        trying.shards.clear()
        trying.conflicts = 0
        trying.step += 1
        if trying.step >= len(self.actions):
            trying.step = 0
            trying.revision = revision
            trying.not_before = now + trying.wait
            trying.wait = min(2 * trying.wait, AGAIN_LIMIT_SECONDS)

    def refused(self, jid: int, *, now: float) -> None:
        """Others were faster: the same action again, a little later."""
        trying = self._trying.setdefault(jid, Trying())
        wait = CONFLICT_SECONDS * 2 ** min(trying.conflicts, 9)
        trying.conflicts += 1
        trying.not_before = now + min(wait, AGAIN_LIMIT_SECONDS)

    def was_evicted(self, jid: int, *, now: float) -> None:
        """Tasks of the job have to leave for another one: it waits before it evicts itself. Those
        of one moment count once."""
        until, wait = self._evicted.get(jid, (0.0, 0.0))
        if now < until:
            return
        if now > until + EVICTED_LIMIT_SECONDS:
            wait = 0.0
        wait = min(2 * wait or EVICTED_SECONDS, EVICTED_LIMIT_SECONDS)
        self._evicted[jid] = (now + wait, wait)

    def gone(self, jid: int) -> None:
        """The job is deleted, or done."""
        self._evicted.pop(jid, None)
        self.forget(jid)

    def forget(self, jid: int) -> None:
        """The job got what it needed, or is gone."""
        self._trying.pop(jid, None)

    def next_due(self, now: float) -> float | None:
        """When somebody may try again though nothing happens."""
        due = [t.not_before for t in self._trying.values() if t.not_before > now]
        due += [until for until, _ in self._evicted.values() if until > now]
        return min(due, default=None)
