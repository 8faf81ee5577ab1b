"""How much processor time each caller has used of something that is shared by it.

The least served goes first (start-time fair queueing). Nobody counts as less than whoever was
served last had, so that idling saves nothing up.
"""

from __future__ import annotations

KEPT = 1000
"""Callers that are remembered although they may have nothing to make up for: tokens are few, but an
operator may give each user one."""


class TimeUsed:
    """Virtual seconds by caller."""

    def __init__(self) -> None:
        self._used: dict[str, float] = {}
        self._floor = 0.0
        """Virtual seconds of whoever was served last."""

    def of(self, caller: str) -> float:
        return max(self._used.get(caller, 0.0), self._floor)

    def serve(self, caller: str) -> None:
        """The caller's turn begins."""
        self._floor = self.of(caller)
        if len(self._used) > KEPT:
            self._used = {name: used for name, used in self._used.items() if used > self._floor}

    def charge(self, caller: str, seconds: float) -> None:
        """Its turn took so much."""
        self._used[caller] = self.of(caller) + seconds
