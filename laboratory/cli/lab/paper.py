"""``quadrant lab --paper``: a published table, measured again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.cli.options.failure import EXIT_USAGE, CommandError, as_command_errors
from coordinator.cli.options.options import Output

if TYPE_CHECKING:
    from laboratory.papers.paper import PaperTable

WIDEST = 500
"""Characters of a line: a table is not cut at the terminal's width."""


def print_paper(
    name: str, data: Path | None, seeds: tuple[int, ...] | None, processes: int, output: Output
) -> None:
    """Measure the table and print both sides. Raises CommandError."""
    from laboratory.cli.lab.progress import fraction_bar
    from laboratory.papers.measure import measured_table
    from laboratory.papers.paper import NAMES, PaperError, PaperRun, experiment

    if name not in NAMES:
        raise CommandError(
            f"--paper: {name!r} is none of {', '.join(NAMES)}; docs/laboratory.md describes them",
            code=EXIT_USAGE,
        )
    with as_command_errors(PaperError), fraction_bar() as progress:
        run = PaperRun(
            data=data or Path("../shared/data"),
            seeds=seeds or experiment(name).SEEDS,
            processes=processes,
            progress=progress,
        )
        table = measured_table(name, run)
    match output:
        case Output.JSON:
            sys.stdout.write(json.dumps(table.as_json(), indent=1) + "\n")
        case Output.TABLE:
            _print(table)


def _print(table: PaperTable) -> None:
    """A row for each case and side, a column for each measure."""
    from rich.console import Console
    from rich.table import Table

    cases = dict.fromkeys(figure.case for figure in table.figures)
    measures = dict.fromkeys(figure.measure for figure in table.figures)
    cells = {(figure.case, figure.measure): figure for figure in table.figures}
    grid = Table(title=table.title, title_justify="left", box=None, pad_edge=False)
    for column in ("", ""):
        grid.add_column(column, no_wrap=True)
    for measure in measures:
        grid.add_column(measure, justify="right", no_wrap=True)
    for case in cases:
        row = [cells.get((case, measure)) for measure in measures]
        for side, name in (("published", case), ("ours", "")):
            values = [None if figure is None else getattr(figure, side) for figure in row]
            grid.add_row(name, side, *map(_text, values))
    console = Console(soft_wrap=True, width=WIDEST)
    console.print(grid)
    console.print(f"\nPublished: {table.source}.\nDifferences of method:", highlight=False)
    for difference in table.differences:
        console.print(f"- {difference}", highlight=False)


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"
