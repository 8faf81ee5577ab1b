"""Counters of the ledger audit, for metrics and ``/health``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator.ledger_audit.findings import Finding
from shared.telemetry.histogram import Histogram

SLICE_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
"""Bounds of the histogram of slices; a slice should stay below 5 ms."""

SHOWN = 5
"""Maximum number of findings that ``/health`` names."""


@dataclass(slots=True)
class AuditFigures:
    """Counters since the start of this coordinator."""

    found: Counter[str] = field(default_factory=Counter)
    """Confirmed findings (seen twice) by kind; one that stays is counted once."""
    recounted: Counter[str] = field(default_factory=Counter)
    """Findings by kind that were put right when this coordinator took the leadership."""
    looks: int = 0
    """Completed passes through the whole ledger."""
    look_seconds: float = 0.0
    """Duration of the last pass."""
    tasks: int = 0
    """Task records in the last pass."""
    slices: Histogram = field(default_factory=lambda: Histogram(SLICE_SECONDS))
    """Processor seconds of the audit's thread per slice."""
    present: dict[tuple[object, ...], str] = field(default_factory=dict)
    """Confirmed findings that the last pass has too, by identity, as text."""

    def keep(self, findings: Iterable[Finding]) -> None:
        """Forget the present findings that are not among these."""
        identities = {finding.identity for finding in findings}
        self.present = {i: text for i, text in self.present.items() if i in identities}

    def message(self) -> str:
        """The present findings for ``/health``; "" if there are none."""
        texts = [*self.present.values()]
        if not texts:
            return ""
        more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
        return f"the ledger contradicts its task records: {'; '.join(texts[:SHOWN])}{more}"
