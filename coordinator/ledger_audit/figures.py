"""What the ledger audit did and found, for metrics and ``/health``."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from shared.telemetry.histogram import Histogram

SLICE_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
"""Bounds of the histogram of slices: 5 ms is what one may take."""

SHOWN_SECONDS = 600.0
"""For so long ``/health`` names a finding after it was seen last, repaired or not: damage is a
fault somewhere, and whoever looks every few minutes must see it."""
SHOWN = 5
"""Findings that ``/health`` names."""


@dataclass(slots=True)
class AuditFigures:
    """Since the start of this coordinator."""

    found: Counter[str] = field(default_factory=Counter)
    """Findings that were seen twice, by kind."""
    repaired: Counter[str] = field(default_factory=Counter)
    """The same that were repaired."""
    looks: int = 0
    """Looks that went through the whole ledger."""
    look_seconds: float = 0.0
    """How long the last of them took."""
    tasks: int = 0
    """Task records of the last look."""
    slices: Histogram = field(default_factory=lambda: Histogram(SLICE_SECONDS))
    """Processor seconds of the audit's thread, between two times of giving way."""
    shown: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=100))
    """(when, what) of findings, the latest last."""

    def message(self, now: float) -> str:
        """For ``/health``: what was found lately, "" where nothing was."""
        while self.shown and now - self.shown[0][0] > SHOWN_SECONDS:
            self.shown.popleft()
        texts = [*dict.fromkeys(text for _, text in reversed(self.shown))]
        if not texts:
            return ""
        more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
        return f"the ledger contradicted its task records: {'; '.join(texts[:SHOWN])}{more}"
