"""The interface of a simulated cluster as a function of time: the pure part behind a driver.

Time is always an argument (seconds from any origin, never backwards), so that the same cluster runs
on the wall clock in the cluster process and on virtual time in a seeded run.
"""

from __future__ import annotations

from typing import Protocol

from coordinator.cluster.events import ClusterEvent
from coordinator.cluster.protocol import BindAnswers, BindRequests, Foreign, Listed, Reports

REPORTS_AT_ONCE = 4096
"""Maximum number of reports per answer."""


class Kubelets(Protocol):
    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        """One answer per request, in order. Raises ClusterTimeout if a fault hides them."""
        ...

    def delete(self, tasks: list[str], now: float, uids: list[str] | None = None) -> list[str]:
        """Delete tasks; returns those that it never had. Raises ClusterTimeout if a fault hides the
        answer."""
        ...

    def advance(self, now: float) -> None:
        """Process everything that is due until ``now``."""
        ...

    def next_due(self) -> float | None:
        """When something is due next; None: never."""
        ...

    def reports(self, after: int, limit: int = REPORTS_AT_ONCE) -> Reports:
        """Reports after number ``after``; those up to it are acknowledged and dropped."""
        ...

    def listing(self, token: str) -> Listed:
        """A part of all tasks; see :meth:`coordinator.cluster.protocol.ClusterDriver.listing`."""
        ...

    def look(self, tasks: list[str]) -> Listed:
        """The current state of these tasks. Raises ClusterTimeout, as do ``listing`` and
        ``foreign``."""
        ...

    def foreign(self) -> Foreign:
        """Usage by other schedulers, by node and resource."""
        ...

    def drain(self) -> list[ClusterEvent]:
        """The events since the last call, in order."""
        ...
