"""Screen of ``quadrant top``, from the coordinator's counts and its queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from coordinator.cli.output.progress import Rate
from coordinator.cli.scheduling.kai_queues import HEADS, tree_rows
from coordinator.cli.scheduling.queue import row_of
from coordinator.cli.scheduling.queue_figures import QueueMetrics
from shared.units.quantity import quantity

WIDE = 140
"""From this many columns on, shards and queues stand side by side."""
HEAD_LINES = 12
"""Lines that are neither shards nor queues."""
RESOURCES = 5
REASONS = 6
_OF_TREE = ("RESOURCE", "QUOTA", "LIMIT", "FAIR-SHARE", "ALLOCATED", "PENDING")
"""Columns of ``quadrant queue list`` that the screen has, too; REQUESTED where it is wide."""

Status = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScreenSample:
    """The server's figures at one moment."""

    status: Status = field(default_factory=dict)
    queues: Sequence[Mapping[str, Any]] = ()
    figures: Mapping[str, QueueMetrics] = field(default_factory=dict)
    tree: Mapping[str, Any] | None = None
    """KAI's queues, under a policy of KAI's."""
    at: float = 0.0
    """Seconds since 1970."""


@dataclass(slots=True)
class Screen:
    """Draws the screen from the figures that :meth:`take` got."""

    server: str
    trouble: str = ""
    """Error of the last refresh; "" for none."""
    _look: ScreenSample = field(default_factory=ScreenSample)
    _rate: Rate = field(default_factory=Rate)
    _per_second: float = 0.0

    def take(self, look: ScreenSample, clock: float) -> None:
        """``clock`` never goes back."""
        self._look = look
        bound = int(look.status.get("tasks", {}).get("bound", 0))
        self._per_second = self._rate.add(clock, bound)

    @property
    def _status(self) -> Status:
        return self._look.status

    def render(
        self, width: int, *, height: int | None = None, interactive: bool = True
    ) -> RenderableType:
        """``height`` limits the lines of the tables; None shows all."""
        lines = None if height is None else max(3, height - HEAD_LINES)
        wide = width >= WIDE
        each = lines if wide or lines is None else max(2, lines // 2 - 1)
        tree = self._look.tree
        make = self._queues_table if tree is None else partial(_tree_table, tree)
        tables = [self._shards(each), make(each, wide=wide)]
        body: RenderableType = Columns(tables, padding=(0, 4)) if wide else Group(*_between(tables))
        parts = [
            self._title(interactive=interactive),
            self._bars(width),
            self._jobs(),
            Text(),
            body,
        ]
        return Group(*parts)

    # --- parts --------------------------------------------------------------------------------

    def _title(self, *, interactive: bool) -> Text:
        moment = datetime.fromtimestamp(self._look.at, UTC).strftime("%H:%M:%SZ")
        title = Text.assemble(("quadrant", "bold"), f"  {self.server}  {moment}")
        if interactive:
            title.append("  q quits", "dim")
        if self.trouble:
            title.append(f"\n{self.trouble}", "red")
        return title

    def _bars(self, width: int) -> Table:
        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True)
        table.add_column(width=max(10, min(60, width - 50)))
        table.add_column(no_wrap=True)
        for name, total, used in resources_of(self._status):
            share = used / total
            text = f"{quantity(name, used)} of {quantity(name, total)}, {share:.0%}"
            table.add_row(name, ProgressBar(total=total, completed=used), text)
        return table

    def _jobs(self) -> Table:
        jobs, tasks = self._status.get("jobs", {}), self._status.get("tasks", {})
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        table.add_row("Jobs", _counts(jobs))
        table.add_row("Tasks", f"{_counts(tasks)}, {self._per_second:,.0f} bound/s")
        table.add_row("Waits", _reasons(self._status.get("pending_reasons", {})))
        return table

    def _shards(self, most: int | None) -> Table:
        table = _plain("SHARD", "STATE", ">NODES", ">OUTSTANDING", "EPOCH")
        shards = self._status.get("shards", [])
        for shard in shards[:most]:
            up = bool(shard.get("up"))
            table.add_row(
                f"shard-{shard.get('shard')}",
                Text("Up", "green") if up else Text("Down", "red"),
                f"{shard.get('nodes', 0):,}",
                f"{shard.get('outstanding', 0):,}",
                str(shard.get("epoch") or "<none>"),
            )
        return _cut(table, len(shards), most)

    def _queues_table(self, most: int | None, *, wide: bool) -> Table:
        heads = ["QUEUE", "STATE", ">WEIGHT", ">SHARE", "ALLOCATED", ">PENDING"]
        picked = [0, 1, 2, 3, 4, 6]
        if wide:
            heads.append("REASON")
            picked.append(7)
        table = _plain(*heads)
        look = self._look
        rows = [row_of(queue, look.figures, wide=False) for queue in look.queues]
        rows.sort(key=lambda row: -_number(row[3]))
        for row in rows[:most]:
            table.add_row(*(row[at] or "<none>" for at in picked))
        return _cut(table, len(rows), most)


def _tree_table(tree: Mapping[str, Any], most: int | None, *, wide: bool) -> Table:
    """KAI's queues, each below its parent, with a line for each resource of the cluster."""
    heads = [*_OF_TREE, *(["REQUESTED"] if wide else [])]
    table = _plain("QUEUE", *(f">{head}" for head in heads))
    rows = list(tree_rows(tree, every=False))
    for row in rows[:most]:
        table.add_row(row[0], *(row[HEADS.index(head)] for head in heads))
    return _cut(table, len(rows), most)


def resources_of(status: Status) -> list[tuple[str, int, int]]:
    """Name, total, used: accelerators before the usual ones; pods left out."""
    resources = [
        (name, int(amount["total"]), int(amount["used"]))
        for name, amount in status.get("resources", {}).items()
        if name != "pods" and amount["total"]
    ]
    return sorted(resources, key=lambda item: ("/" not in item[0], item[0]))[:RESOURCES]


def _reasons(counts: Mapping[str, int]) -> str:
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{reason} {count:,}" for reason, count in most[:REASONS]) or "<none>"


def _counts(of: Mapping[str, int]) -> str:
    return ", ".join(f"{of.get(word, 0):,} {word}" for word in ("running", "pending", "finished"))


def _plain(*heads: str) -> Table:
    """A table without lines; ``>`` before a header puts its cells to the right."""
    table = Table(
        box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 3, 0, 0)
    )
    for head in heads:
        right = head.startswith(">")
        table.add_column(head.lstrip(">"), justify="right" if right else "left", no_wrap=True)
    return table


def _cut(table: Table, count: int, most: int | None) -> Table:
    if most is not None and count > most:
        table.caption = f"and {count - most} more"
        table.caption_justify = "left"
    return table


def _between(tables: Sequence[RenderableType]) -> list[RenderableType]:
    """The tables with an empty line between them."""
    return [part for table in tables for part in (table, Text())][:-1]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
