"""What a simulated cluster does, as a function of time: the pure part behind a driver.

Time is always an argument (seconds; any origin, but never backwards), so that the same cluster runs
in the cluster process on the wall clock and in a seeded run on virtual time.
"""

from __future__ import annotations

from typing import Protocol

from coordinator.cluster.events import ClusterEvent
from coordinator.cluster.protocol import BindAnswers, BindRequests, Foreign, Listed, Reports

REPORTS_AT_ONCE = 4096
"""Reports handed out per question: bounds the size of one answer."""


class Kubelets(Protocol):
    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        """One answer per request, in order. Raises ClusterTimeout where a fault hides them."""
        ...

    def delete(self, tasks: list[str], now: float, uids: list[str] | None = None) -> list[str]:
        """Those that it never had. Raises ClusterTimeout where a fault hides the answer."""
        ...

    def advance(self, now: float) -> None:
        """Let everything happen that is due until ``now``."""
        ...

    def next_due(self) -> float | None:
        """When something happens next by itself; None: never."""
        ...

    def reports(self, after: int, limit: int = REPORTS_AT_ONCE) -> Reports:
        """Reports newer than ``after``; those up to ``after`` are acknowledged and forgotten."""
        ...

    def listing(self, token: str) -> Listed:
        """A part of all tasks, see :meth:`coordinator.cluster.protocol.ClusterDriver.listing`."""
        ...

    def look(self, tasks: list[str]) -> Listed:
        """These tasks as they stand. Raises ClusterTimeout, as do the two others."""
        ...

    def foreign(self) -> Foreign:
        """What others use, by node and resource."""
        ...

    def drain(self) -> list[ClusterEvent]:
        """Events since the last call, in order; each is handed out once."""
        ...
