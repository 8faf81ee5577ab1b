"""How many writes are under way at once, by what the server answers. No I/O and no clock."""

from __future__ import annotations

from dataclasses import dataclass

LOWEST = 4
_SHRINK = 0.7
"""Factor for the limit when the server refuses: milder than half, because priority and fairness
answers 429 to many requests of one moment."""
_QUIET_SECONDS = 0.5
"""After the limit shrank it stays for as long: the answers to what was under way are no news."""


@dataclass(slots=True)
class RequestLimit:
    """Additive increase, multiplicative decrease (as TCP's congestion control)."""

    highest: int
    limit: float = 0.0
    paused_until: float = 0.0
    """Nothing is to be sent before this time: the server said Retry-After."""
    refusals: int = 0
    _shrunk_at: float = float("-inf")

    def __post_init__(self) -> None:
        self.limit = float(self.highest)

    @property
    def allowed(self) -> int:
        return int(self.limit)

    def served(self) -> None:
        """The server answered what was asked."""
        self.limit = min(float(self.highest), self.limit + 1 / self.limit)

    def overloaded(self, now: float, *, retry_after: float = 0.0) -> None:
        """The server refused for load, or did not answer in time."""
        self.refusals += 1
        self.paused_until = max(self.paused_until, now + retry_after)
        if now - self._shrunk_at >= _QUIET_SECONDS:
            self._shrunk_at = now
            self.limit = max(float(LOWEST), self.limit * _SHRINK)
