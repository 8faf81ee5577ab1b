"""Scheduling signatures: jobs that ask for the same, of which one found no victims.

A search that failed tells of every job that asks for at least as much in the same way. For each
signature the smallest such job is remembered; one that is not easier to place is passed over.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

Footprint = Sequence[Mapping[int, int]]
"""Requests of each pending task by slot, in one order for all jobs."""


@dataclass(slots=True)
class FailedSearches:
    """The smallest job of each signature for which a search failed, since the last commit."""

    _smallest: dict[Hashable, Footprint] = field(default_factory=dict)

    def is_hopeless(self, signature: Hashable, footprint: Footprint) -> bool:
        """Whether a job that asks for no more has failed already."""
        failed = self._smallest.get(signature)
        return failed is not None and covers(footprint, failed)

    def failed(self, signature: Hashable, footprint: Footprint) -> None:
        """Remember a job whose search failed, unless one that is no smaller is remembered."""
        known = self._smallest.get(signature)
        if known is None or covers(known, footprint):
            self._smallest[signature] = footprint

    def forget(self) -> None:
        """Forget everything: the cluster changed, and what failed may come out otherwise."""
        self._smallest.clear()


def covers(larger: Footprint, smaller: Footprint) -> bool:
    """Whether a job asks for at least as much: as many tasks, and for each task of the smaller one,
    in order, no less of anything."""
    return len(larger) >= len(smaller) and all(
        larger_request.get(slot, 0) >= amount
        for larger_request, theirs in zip(larger, smaller, strict=False)
        for slot, amount in theirs.items()
    )
