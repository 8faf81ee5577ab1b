"""The concurrency limit of a shard's worker: how many turns it may have open at once.

Turns of one call are planned on one view of the cluster. Where several workers want the same few
nodes, the later statements of a large call lose them to others, and each loser costs a wasted
placement and commit. So the limit shrinks when conflicts rise, and grows again: additive increase,
multiplicative decrease, as TCP shares a line without its senders' speaking to one another. No
clock: a round trip is a call.
"""

from __future__ import annotations

SHRINK_ABOVE = 0.2
"""Fraction of lost statements above which the limit shrinks. A lost one costs another placement and
commit, some tens of microseconds; a call costs about a millisecond, whatever it carries. Smaller
calls pay only where a good part of each is wasted."""

SHRINK_TO = 0.5
"""A half, as in TCP: two shards that collide have room beside one another in one round trip."""

SAMPLE = 16
"""Statements judged together: fewer say little about a fraction of a fifth."""

GROW = 8
"""Turns that each sample without many conflicts adds: from one turn to 512 in some 60 calls, so a
second or two, and far less than a halving takes away while the cause lasts."""

LEAST = 1
"""One turn at a time always makes progress: it is planned after all earlier decisions."""


class ConcurrencyLimit:
    """The limit of one shard, in turns."""

    def __init__(self, most: int) -> None:
        """``most``: the limit where nothing conflicts."""
        self.limit = most
        self._most = most
        self._judged = 0
        self._lost = 0
        self._heeded = 0
        """Calls up to this one were sent before the last decrease, and are ignored."""

    def judged(self, *, call: int, last_call: int, statements: int, lost: int) -> None:
        """Take the result of a call: how many statements were judged, and how many of them lost a
        conflict. ``last_call``: the newest call sent."""
        if call <= self._heeded:
            return
        self._judged += statements
        self._lost += lost
        if self._judged < SAMPLE:
            return
        if self._lost > SHRINK_ABOVE * self._judged:
            self.limit = max(LEAST, int(self.limit * SHRINK_TO))
            self._heeded = last_call
        else:
            self.limit = min(self._most, self.limit + GROW)
        self._judged = self._lost = 0
