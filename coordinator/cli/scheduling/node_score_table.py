"""Why a pod is where it is, as a table: a row for each node, a column for each plugin."""

from __future__ import annotations

from typing import Any

from coordinator.cli.output.paragraphs import TIED


def here_table(answer: dict[str, Any]) -> list[str]:
    """Lines that are not to be broken: their columns stand below each other."""
    explanation = answer.get("here")
    if not explanation:
        return []
    head = f"{explanation['pod']}, {explanation['note']}: "
    takes = [f"{count} at {level}" for level, count in explanation["nodes"].items() if count]
    lines = [head + (f"nodes that take it {', '.join(takes)}" if takes else "no node takes it")]
    if not explanation["candidates"]:
        return lines
    rows = [["", "node", "level", *explanation["plugins"], "final"]]
    rows += [_row(candidate, explanation["plugins"]) for candidate in explanation["candidates"]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return lines + [_line(row, widths) for row in rows]


def _row(candidate: dict[str, Any], plugins: list[str]) -> list[str]:
    scores = [f"{candidate['scores'][plugin]:.1f}" for plugin in plugins]
    mark = "*" if candidate["chosen"] else ""
    return [
        mark,
        candidate["node"],
        candidate["level"] or "none",
        *scores,
        f"{candidate['final']:.1f}",
    ]


def _line(row: list[str], widths: list[int]) -> str:
    """Names to the left, figures to the right."""
    cells = [
        cell.ljust(width) if i < 3 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip().replace(" ", TIED)
