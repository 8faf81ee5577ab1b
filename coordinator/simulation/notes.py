"""The history of a seeded run, kept in memory: the same lines that a history file has."""

from __future__ import annotations

from pathlib import Path

import orjson

from coordinator.cluster.kubelets import ClusterEvent
from coordinator.history_events import Event, cluster_event, ledger_events
from shared.ledger.protocol import LogEntry


class Notes:
    """``lines``: one JSON event each, with its newline."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._number = 0

    def ledger_entries(self, entries: list[LogEntry]) -> None:
        for entry in entries:
            self._add(ledger_events(entry))

    def cluster_events(self, events: list[ClusterEvent]) -> None:
        for event in events:
            self._number += 1
            self._add([cluster_event(event, self._number)])

    def _add(self, events: list[Event]) -> None:
        self.lines += [orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE) for event in events]

    def write(self, path: Path) -> None:
        """May raise OSError."""
        path.write_bytes(b"".join(self.lines))
