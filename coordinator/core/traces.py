"""The jobs whose next turns are being traced, and who follows them.

Without any, a step of the core and the outcome of a turn cost one look at an empty mapping each,
and a turn one at an empty set.
"""

from __future__ import annotations

from typing import Protocol

from shared.messages.messages import Outcome, Turn


class TurnFollower(Protocol):
    """Follows one job. No call affects a decision."""

    @property
    def wants_turns(self) -> bool:
        """Whether further turns of the job are to be traced."""
        ...

    def opened(self, turn: Turn, shard: int) -> None:
        """A turn of the job was opened, and waits to be sent to the shard."""
        ...

    def returned(self, shard: int, outcome: Outcome) -> None:
        """A turn of the job came back; Order has not taken its outcome yet."""
        ...

    def stepped(self, now: float) -> None:
        """All turns that may go out now have been opened. Called very often."""
        ...


class Traces:
    def __init__(self, traced: set[int]) -> None:
        """``traced``: the jobs whose turns Order marks as traced; kept here."""
        self._traced = traced
        self.followers: dict[int, list[TurnFollower]] = {}

    def begin(self, jid: int, follower: TurnFollower) -> None:
        self.followers.setdefault(jid, []).append(follower)
        self._mark(jid)

    def end(self, jid: int, follower: TurnFollower) -> None:
        remaining = [other for other in self.followers.get(jid, ()) if other is not follower]
        if remaining:
            self.followers[jid] = remaining
        else:
            self.followers.pop(jid, None)
        self._mark(jid)

    def opened(self, turn: Turn, shard: int) -> None:
        for follower in self.followers.get(turn.jid, ()):
            follower.opened(turn, shard)
        self._mark(turn.jid)

    def returned(self, shard: int, outcome: Outcome) -> None:
        for follower in self.followers.get(outcome.jid, ()):
            follower.returned(shard, outcome)

    def stepped(self, now: float) -> None:
        for followers in self.followers.values():
            for follower in followers:
                follower.stepped(now)

    def _mark(self, jid: int) -> None:
        if any(follower.wants_turns for follower in self.followers.get(jid, ())):
            self._traced.add(jid)
        else:
            self._traced.discard(jid)
