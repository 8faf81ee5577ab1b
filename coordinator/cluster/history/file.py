"""The history: one append-only file with the events of the ledger's log and of the cluster.

One JSON event per line (:mod:`coordinator.cluster.history.events` has the formats). A batch of
events is one write; the cluster's actions are written before they are reported to anybody. After a
kill the file may end inside an entry: opening it again cuts that off, and reading of the ledger's
log resumes after the last complete entry.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

import orjson
import structlog

from coordinator.cluster.events import ClusterEvent, ReportedUsage
from coordinator.cluster.history.events import (
    Event,
    LedgerEvents,
    acknowledged_event,
    cluster_event,
    end_event,
    measured_event,
)
from coordinator.cluster.history.seal import START, seal_of, sealed_lines
from shared.ledger.entries.log import LogEntry

SYNC_EVERY = 1.0
"""Seconds between two fsyncs of the file; it is also synced when it is closed."""

ENTRIES_AT_ONCE = 32
"""Log entries written before the cluster's own work gets a turn: an entry may hold 500 objects."""

_BLOCK = 2**16

log = structlog.get_logger(__name__)


class HistoryFile:
    """The only writer of one history. Every method may raise OSError."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        size, self._seal, self.position, self._number, entries = _resume(path)
        self._events = LedgerEvents(number=entries, resumed=self.position != "0")
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.ftruncate(self._file, size)
        self._synced = True

    def ledger_entries(self, entries: list[LogEntry]) -> None:
        """Write the events of log entries; :attr:`position` is then the id of the last one."""
        if entries:
            self._write([event for entry in entries for event in self._events.of(entry)])
            # After the write: a follower that fails there reads the same entries again.
            self.position = entries[-1].id

    def cluster_events(self, events: list[ClusterEvent]) -> None:
        if events:
            first = self._number + 1
            self._number += len(events)
            self._write([cluster_event(event, first + i) for i, event in enumerate(events)])

    def acknowledged(self, t: float, jobs: list[tuple[int, int]]) -> None:
        """Write that users were told that these jobs are stored: (first jid, number of jobs)."""
        self._number += 1
        self._write([acknowledged_event(t, jobs, self._number)])

    def measured(self, t: float, measured: ReportedUsage) -> None:
        """Write how busy nodes are, as a metrics source says."""
        self._number += 1
        self._write([measured_event(t, measured, self._number)])

    def end(self, t: float) -> None:
        """Write the final event: the file is complete up to here."""
        self._number += 1
        self._write([end_event(t, self._number)])

    def sync(self) -> None:
        if not self._synced:
            self._synced = True
            os.fsync(self._file)

    def close(self) -> None:
        self.sync()
        os.close(self._file)

    def _write(self, events: list[Event]) -> None:
        lines, seal = sealed_lines(events, self._seal)
        rest = memoryview(b"".join(lines))
        while rest:  # one call, unless the disk takes less
            rest = rest[os.write(self._file, rest) :]
        self._seal = seal
        self._synced = False


async def sync_regularly(history: HistoryFile) -> None:
    """fsync the file once a second, off the event loop, until cancelled."""
    while True:
        await asyncio.sleep(SYNC_EVERY)
        await asyncio.to_thread(history.sync)


class LogReader(Protocol):
    """The one ledger call that a follower needs."""

    async def read_log(
        self, after: str, *, count: int = 512, block: float | None = None
    ) -> list[LogEntry]: ...


class LogFollower:
    """Copies the ledger's log into the history. ``unavailable``: the exception type for an
    unreachable ledger."""

    def __init__(
        self, ledger: LogReader, history: HistoryFile, *, unavailable: type[Exception]
    ) -> None:
        self._ledger = ledger
        self._history = history
        self._unavailable = unavailable

    async def run(self) -> None:
        """Follow until cancelled; retries while the ledger is unreachable."""
        pause = 0.05
        while True:
            try:
                await self._copy(block=1.0)
                pause = 0.05
            except self._unavailable as error:
                log.warning("history waits for the ledger", error=str(error), seconds=pause)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)

    async def drain(self) -> None:
        """Copy the rest of the log. Raises ``unavailable`` if it cannot be read."""
        while await self._copy(block=None):
            pass

    async def _copy(self, *, block: float | None) -> int:
        entries = await self._ledger.read_log(
            self._history.position, count=ENTRIES_AT_ONCE, block=block
        )
        self._history.ledger_entries(entries)
        await asyncio.sleep(0)
        return len(entries)


# --- reading the end of a file that a dead process left -----------------------------------------


def _resume(path: Path) -> tuple[int, int, str, int, int]:
    """(bytes to keep, seal of the last line in them, id of the last complete log entry or "0",
    number of the last cluster event, number of the last log entry, 0 in files without such
    numbers).

    Only the last write can be torn, so reading backwards suffices: a line without a newline is cut,
    and so are the lines of a log entry whose last line is missing.
    """
    size, seal, position, number, entries = -1, START, "", -1, 0
    torn = ""
    for end, line in _backwards(path):
        if size < 0:
            size = end
        event = orjson.loads(line)
        if end == size:
            seal = seal_of(event)
        if event["src"] == "cluster":
            number = max(number, event["n"])
        elif event["id"] == torn or (not position and event.get("more")):
            torn, size, seal = event["id"], end - len(line) - 1, START
        elif not position:
            position, entries = event["id"], event.get("n", 0)
        if position and number >= 0:
            break
    return max(size, 0), seal, position or "0", max(number, 0), entries


def _backwards(path: Path) -> Iterator[tuple[int, bytes]]:
    """The complete lines of a file from the last to the first, each with the offset of its end."""
    if not path.exists():
        return
    with path.open("rb") as file:
        start = end = _end_of_lines(file)
        rest = b""
        while start > 0:
            step = min(_BLOCK, start)
            start -= step
            file.seek(start)
            first, *lines = (file.read(step) + rest)[:-1].split(b"\n")
            for line in reversed(lines):
                yield end, line
                end -= len(line) + 1
            rest = first + b"\n"
        if rest:
            yield end, rest[:-1]


def _end_of_lines(file: BinaryIO) -> int:
    """The offset after the last newline."""
    start = file.seek(0, os.SEEK_END)
    while start > 0:
        step = min(_BLOCK, start)
        start -= step
        file.seek(start)
        at = file.read(step).rfind(b"\n")
        if at >= 0:
            return start + at + 1
    return 0
