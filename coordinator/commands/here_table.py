"""Why a pod is where it is, as a table: a row for each node, a column for each plugin."""

from __future__ import annotations

from typing import Any

from coordinator.commands.answers import TIED


def here_table(answer: dict[str, Any]) -> list[str]:
    """Lines that are not to be broken: their columns stand below each other."""
    here = answer.get("here")
    if not here:
        return []
    head = f"{here['pod']}, {here['note']}: "
    takes = [f"{count} at {level}" for level, count in here["nodes"].items() if count]
    lines = [head + (f"nodes that take it {', '.join(takes)}" if takes else "no node takes it")]
    if not here["candidates"]:
        return lines
    rows = [["", "node", "level", *here["plugins"], "final"]]
    rows += [_row(one, here["plugins"]) for one in here["candidates"]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return lines + [_line(row, widths) for row in rows]


def _row(one: dict[str, Any], plugins: list[str]) -> list[str]:
    scores = [f"{one['scores'][plugin]:.1f}" for plugin in plugins]
    mark = "*" if one["chosen"] else ""
    return [mark, one["node"], one["level"] or "none", *scores, f"{one['final']:.1f}"]


def _line(row: list[str], widths: list[int]) -> str:
    """Names to the left, figures to the right."""
    cells = [
        cell.ljust(width) if i < 3 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip().replace(" ", TIED)
