"""Outcome of one part of a victim search, which tries some of the policy's scenario generators."""

from __future__ import annotations

from shared.codec.packed import Count, Packed


class SearchPart(Packed, frozen=True):
    """How the generators of one part ended, as the worker that tried them tells it."""

    solved: bool
    """Whether a scenario came out."""
    simulated: Count
    """Scenarios that were simulated."""
    bound: str = ""
    """The budget that ended it; "" where none did."""
    generator: str = ""
    """The one that was at work then."""
    position: str = ""
    """Up to where in the ledger's log the worker had read."""
