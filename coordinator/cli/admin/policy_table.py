"""Policy and settings as people read them on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from coordinator.cli.admin.policy_report import ASKED_BY, Argument, PluginReport, PolicyReport
from shard_worker.framework.extension_points import EXTENSION_POINTS
from shared.policy.kai_model import KaiOptions
from shared.policy.model import Policy

if TYPE_CHECKING:
    from coordinator.cli.admin.effective import Setting

NONE = "<none>"
BESIDE = 120
"""Columns from which on there is room for what settings mean beside them."""


def show(report: PolicyReport, console: Console) -> None:
    """Print the actions, the tiers with their plugins and arguments, and what has no effect."""
    policy = report.policy
    because = f" ({policy.dialect_because})" if policy.dialect_because else ""
    console.print(f"Dialect: {policy.dialect.scheduler}{because}", markup=False)
    console.print(f"Actions: {', '.join(report.policy.actions)}\n", markup=False)
    console.print(_plugins(report))
    arguments = [(p.name, a) for tier in report.tiers for p in tier for a in p.arguments]
    arguments += [
        (name, Argument(key, value, None, given=True, asked=True))
        for name, values in report.policy.configurations.items()
        for key, value in values.items()
    ]
    arguments += _of_kai(policy)
    if arguments:
        console.print()
        console.print(_arguments(arguments))
    if report.not_served:
        console.print()
        console.print(_not_served(report))
    for warning in report.warnings:
        console.print(f"Warning: {warning}", markup=False)


def _of_kai(policy: Policy) -> list[tuple[str, Argument]]:
    """Settings of a KAI policy beside its plugins that differ from the defaults."""
    if policy.kai is None:
        return []
    usual = asdict(KaiOptions())
    options = [
        ("options", Argument(name.replace("_", "-"), value, usual[name], given=True, asked=True))
        for name, value in asdict(policy.kai.options).items()
        if value != usual[name]
    ]
    depths = policy.kai.queue_depth.items()
    return options + [
        ("queueDepthPerAction", Argument(name, depth, None, given=True, asked=True))
        for name, depth in depths
    ]


def _plugins(report: PolicyReport) -> Table:
    table = _table("TIER", "PLUGIN", "COORDINATOR ASKS", "WORKER ASKS", "SWITCHED OFF")
    for number, tier in enumerate(report.tiers, start=1):
        for plugin in tier:
            _row(
                table,
                str(number),
                plugin.name,
                _asked(plugin, "coordinator"),
                _asked(plugin, "worker"),
                ", ".join(f"{point} ({switch})" for point, switch in plugin.off) or NONE,
            )
    return table


def _asked(plugin: PluginReport, by: str) -> str:
    points = [p for p in plugin.points if ASKED_BY[EXTENSION_POINTS[p].half] in (by, "both")]
    return ", ".join(points) or NONE


def _arguments(arguments: Sequence[tuple[str, Argument]]) -> Table:
    table = _table("OF", "ARGUMENT", "VALUE", "DEFAULT")
    for name, argument in arguments:
        _row(table, name, argument.name, _word(argument.value), _word(argument.default))
    return table


def _not_served(report: PolicyReport) -> Table:
    table = _table("NOT SERVED", "OF", "WITHOUT IT")
    for entry in report.not_served:
        _row(table, entry.field, entry.kinds, entry.without)
    return table


def _word(value: object) -> str:
    """A value as a policy file writes it; ``<none>`` for an empty text or an unset value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return NONE if value is None or value == "" else str(value)


def show_settings(settings: Sequence[Setting], console: Console, *, origin: bool) -> None:
    """Print one line per setting; with ``origin`` also where it comes from and what it is for."""
    if origin and console.width < BESIDE:
        _with_meaning_below(settings, console)
        return
    table = _table("SETTING", "VALUE", *(("ORIGIN", "MEANING") if origin else ()))
    for setting in settings:
        row = [setting.name, _word(setting.value)]
        _row(table, *row, *((setting.origin, setting.meaning) if origin else ()))
    console.print(table)


def _with_meaning_below(settings: Sequence[Setting], console: Console) -> None:
    """The table for narrow terminals: the meaning is on a line below, so that paths stay whole."""
    rows = [(setting.name, _word(setting.value), setting.origin) for setting in settings]
    heads = ("SETTING", "VALUE", "ORIGIN")
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)][:2]
    meanings = ["", *(setting.meaning for setting in settings)]
    for row, meaning in zip((heads, *rows), meanings, strict=True):
        before = "".join(cell.ljust(w + 2) for cell, w in zip(row, widths, strict=False))
        console.print(Text(before + row[2], style="" if meaning else "bold"), soft_wrap=True)
        if meaning:
            console.print(Padding(Text(meaning, style="dim"), (0, 0, 0, 4)))


def _row(table: Table, *cells: str) -> None:
    table.add_row(*map(Text, cells))  # as they are: a [word] in a value is no markup


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    return table
