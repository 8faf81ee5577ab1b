"""Waiting times of the load's requests, without those during a recovery."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import quantiles

from coordinator.verification.chaos.faults import InjectedFault
from coordinator.verification.chaos.plan import (
    CLUSTER,
    LEADER,
    RAY,
    REDIS,
    STANDBY,
    WORKER,
    InjectionKind,
)

EXCUSED_SECONDS = {
    LEADER: 5.0,
    REDIS: 5.0,
    RAY: 15.0,  # both coordinators end with the head
    STANDBY: 0.0,
    WORKER: 0.0,
    CLUSTER: 0.0,
}
"""After a blow to each, as docs/failures.md bounds it; a pause counts from its end."""


@dataclass(slots=True)
class ResponseTimes:
    """``times``: (sent, answered) of every request, seconds since 1970."""

    times: list[tuple[float, float]] = field(default_factory=list)

    def p99(self, struck: Iterable[InjectedFault]) -> tuple[float | None, int]:
        """The 99th percentile in seconds of those that no blow excuses, and how many these are;
        None for fewer than two."""
        excused = [_window(blow) for blow in struck]
        waits = [
            answered - sent
            for sent, answered in self.times
            if not any(begin <= answered and sent <= end for begin, end in excused)
        ]
        return (quantiles(waits, n=100)[98] if len(waits) > 1 else None), len(waits)


def _window(struck: InjectedFault) -> tuple[float, float]:
    if struck.blow.kind is InjectionKind.REWRITE:
        return struck.at, struck.at
    return struck.at, struck.over + EXCUSED_SECONDS[struck.blow.target]
