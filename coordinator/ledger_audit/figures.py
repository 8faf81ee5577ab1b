"""Counters of the ledger audit, for metrics and ``/health``."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from shared.telemetry.histogram import Histogram

SLICE_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
"""Bounds of the histogram of slices; a slice should stay below 5 ms."""

SHOWN_SECONDS = 600.0
"""How long ``/health`` shows a finding after it was last seen, repaired or not: damage means a bug,
and whoever checks every few minutes must see it."""
SHOWN = 5
"""Maximum number of findings that ``/health`` names."""


@dataclass(slots=True)
class AuditFigures:
    """Counters since the start of this coordinator."""

    found: Counter[str] = field(default_factory=Counter)
    """Confirmed findings (seen twice) by kind."""
    repaired: Counter[str] = field(default_factory=Counter)
    """Repaired findings by kind."""
    looks: int = 0
    """Completed passes through the whole ledger."""
    look_seconds: float = 0.0
    """Duration of the last pass."""
    tasks: int = 0
    """Task records in the last pass."""
    slices: Histogram = field(default_factory=lambda: Histogram(SLICE_SECONDS))
    """Processor seconds of the audit's thread per slice."""
    shown: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=100))
    """(time, text) of findings, the latest last."""

    def message(self, now: float) -> str:
        """Recent findings for ``/health``; "" if there are none."""
        while self.shown and now - self.shown[0][0] > SHOWN_SECONDS:
            self.shown.popleft()
        texts = [*dict.fromkeys(text for _, text in reversed(self.shown))]
        if not texts:
            return ""
        more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
        return f"the ledger contradicted its task records: {'; '.join(texts[:SHOWN])}{more}"
