"""Counts of BindRequests by outcome since the start of this process."""

from __future__ import annotations

from dataclasses import dataclass

OUTCOMES = ("written", "adopted", "failed", "withdrawn")


@dataclass(slots=True)
class RequestCounts:
    """By :data:`OUTCOMES`."""

    written: int = 0
    adopted: int = 0
    """Requests of an earlier leader that the ledger wants as they are."""
    failed: int = 0
    withdrawn: int = 0
    """Requests that were deleted because something else was decided."""
