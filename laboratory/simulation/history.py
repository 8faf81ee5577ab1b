"""The history of a seeded run, in memory, with the same lines as a history file."""

from __future__ import annotations

from pathlib import Path

from coordinator.cluster.events import ClusterEvent, ReportedUsage
from coordinator.cluster.history.acknowledgements import Runs, add_runs
from coordinator.cluster.history.events import (
    Event,
    LedgerEvents,
    acknowledged_event,
    cluster_event,
    end_event,
    measured_event,
)
from coordinator.cluster.history.seal import START, sealed_lines
from shared.ledger.entries.log import LogEntry


class Notes:
    """``lines``: one JSON event each, including the newline."""

    reads_ledger = True
    """Whether :meth:`ledger_entries` wants what the ledger's log gets."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._number = 0
        self._seal = START
        self._events = LedgerEvents()

    def ledger_entries(self, entries: list[LogEntry], at: float) -> None:
        """``at``: virtual time; the log ids of a ledger in memory do not tell it."""
        for entry in entries:
            self._add(self._events.of(entry, at=at))

    def cluster_events(self, events: list[ClusterEvent]) -> None:
        for event in events:
            self._number += 1
            self._add([cluster_event(event, self._number)])

    def acknowledged(self, t: float, jids: list[int]) -> None:
        """Record that users are told that these jobs are stored."""
        runs: Runs = []
        add_runs(runs, jids)
        self._number += 1
        self._add([acknowledged_event(t, runs, self._number)])

    def measured(self, t: float, usage: dict[str, dict[str, float]]) -> None:
        """Record how busy nodes are: what every turn of this coordinator is told."""
        self._number += 1
        self._add([measured_event(t, ReportedUsage(usage, begins=0.0), self._number)])

    def end(self, t: float) -> None:
        self._number += 1
        self._add([end_event(t, self._number)])

    def _add(self, events: list[Event]) -> None:
        lines, self._seal = sealed_lines(events, self._seal)
        self.lines += lines

    def write(self, path: Path) -> None:
        """May raise OSError."""
        path.write_bytes(b"".join(self.lines))
