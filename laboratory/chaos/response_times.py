"""Response times of the load's requests, without those during a recovery."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import quantiles

from laboratory.chaos.faults import InjectedFault
from laboratory.chaos.plan import (
    CLUSTER,
    LEADER,
    LEDGER,
    RAY,
    STANDBY,
    WORKER,
    InjectionKind,
)

EXCUSED_SECONDS = {
    LEADER: 5.0,
    LEDGER: 5.0,
    RAY: 15.0,  # both coordinators end with the head
    STANDBY: 0.0,
    WORKER: 0.0,
    CLUSTER: 0.0,
}
"""Seconds excused after a fault of each role, from docs/failures.md; for a pause they count from
its end."""


@dataclass(slots=True)
class ResponseTimes:
    """``times``: (sent, answered) of every request, in seconds since 1970."""

    times: list[tuple[float, float]] = field(default_factory=list)

    def p99(self, struck: Iterable[InjectedFault]) -> tuple[float | None, int]:
        """(99th percentile in seconds, number of requests) without those excused by a fault; the
        percentile is None for fewer than two."""
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
