"""How much a worker does at once, and how often it tries."""

from __future__ import annotations

from dataclasses import dataclass

INQUIRY_CLASSES = 8
"""Classes kept compiled within one inquiry."""


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Bounds of a worker."""

    batch_operations: int = 256
    """Limit on operations per batch; a larger statement is sent alone."""
    repairs: int = 3
    """How often a refused statement is placed again before Order gets the outcome."""
    nomination_seconds: float = 10.0
    """How long a nomination holds its node."""
    compiled_classes: int = 64
