"""Live progress of a run on stderr: redrawn on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

LINE_EVERY = 5.0
"""Seconds between two lines where the output is not a terminal."""
BAR = 36
"""Width of a bar: with the longest words beside it a line still fits 80 columns."""
RATE_WINDOW = 2.0
"""Seconds over which tasks per second are averaged."""

Status = Mapping[str, Any]


@dataclass(slots=True)
class Rate:
    """A counter's growth per second over the last :data:`RATE_WINDOW` seconds."""

    samples: list[tuple[float, int]] = field(default_factory=list)

    def add(self, now: float, count: int) -> float:
        self.samples.append((now, count))
        while len(self.samples) > 2 and now - self.samples[1][0] >= RATE_WINDOW:
            del self.samples[0]
        (since, before), span = self.samples[0], now - self.samples[0][0]
        return (count - before) / span if since < now else 0.0


@dataclass(frozen=True, slots=True)
class ProgressFigures:
    """The figures to show at one moment."""

    seconds: float
    submitted: int
    expected: int
    finished: int
    running: int
    pending: int
    bound: int
    rate: float
    busy: float
    conflicts: int
    shards_up: int
    shards: int


def moment_of(
    status: Status, *, seconds: float, expected: int, capacity: int, rate: float
) -> ProgressFigures:
    """Read the coordinator's status; figures that are missing in it count as 0. ``capacity``: how
    many tasks the whole cluster can hold, to tell how much of it is busy."""
    jobs, tasks = status.get("jobs", {}), status.get("tasks", {})
    statements, shards = status.get("statements", {}), status.get("shards", [])
    return ProgressFigures(
        seconds=seconds,
        submitted=jobs.get("submitted", 0),
        expected=expected,
        finished=jobs.get("finished", 0),
        running=jobs.get("running", 0),
        pending=jobs.get("pending", 0),
        bound=tasks.get("bound", 0),
        rate=rate,
        busy=tasks.get("running", 0) / capacity if capacity else 0.0,
        conflicts=statements.get("conflicts_true", 0) + statements.get("conflicts_read", 0),
        shards_up=sum(bool(shard.get("up")) for shard in shards),
        shards=len(shards),
    )


class RunProgress:
    """``with Progress(console) as progress``: say which phase it is, then show moments."""

    def __init__(self, console: Console, *, unit: str = "GPUs") -> None:
        self._console = console
        self._unit = unit
        self._live: Live | None = None
        self._started = time.monotonic()
        self._last_line = 0.0

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def phase(self, text: str) -> None:
        """Begin a phase of start-up or shut-down: one line with the time since the start."""
        self.stop()
        self._console.print(
            f"[dim]{self.seconds:6.1f} s[/dim]  {text}", highlight=False, soft_wrap=True
        )

    def warn(self, text: str) -> None:
        self._console.print(f"Warning: {text}", style="yellow", markup=False, highlight=False)

    def show(self, moment: ProgressFigures) -> None:
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(picture(moment, self._unit), refresh=True)
            return
        now = time.monotonic()
        if now - self._last_line >= LINE_EVERY:
            self._last_line = now
            self._console.print(
                line(moment, self._unit), markup=False, highlight=False, soft_wrap=True
            )

    def stop(self) -> None:
        """Leave the live display."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def line(moment: ProgressFigures, unit: str) -> str:
    """One moment as plain text."""
    return (
        f"{moment.seconds:6.1f} s  jobs {moment.finished:,} finished, {moment.running:,} running, "
        f"{moment.pending:,} pending of {moment.expected:,}; "
        f"{moment.rate:,.0f} tasks bound/s; {unit} {moment.busy:.0%} busy; "
        f"{moment.conflicts:,} conflicts"
    )


def picture(moment: ProgressFigures, unit: str) -> Table:
    """One moment with bars."""
    table = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=max(moment.expected, 1), completed=moment.finished, width=BAR)
    table.add_row("jobs", bar, f"{moment.finished:,} of {moment.expected:,} finished")
    table.add_row("", "", f"{moment.running:,} running, {moment.pending:,} pending")
    busy = ProgressBar(total=100, completed=100 * moment.busy, width=BAR)
    table.add_row(unit, busy, f"{moment.busy:.1%} busy")
    table.add_row("tasks", f"{moment.bound:,} bound", f"{moment.rate:,.0f} per second")
    table.add_row("conflicts", f"{moment.conflicts:,} refused", "true and read")
    table.add_row("shards", f"{moment.shards_up} of {moment.shards} up", f"{moment.seconds:.1f} s")
    return table
