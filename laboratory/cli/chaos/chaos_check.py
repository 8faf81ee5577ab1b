"""The checker's report on a history, for people and programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.cli.options.failure import EXIT_ERROR, EXIT_USAGE
from coordinator.cli.options.options import Output
from coordinator.cli.output.terminal import say_error

if TYPE_CHECKING:
    from laboratory.checker.report.report import CheckReport

_SHOWN = 10


def run_check(file: Path, output: Output = Output.TABLE, *, closed: bool = False) -> int:
    """Check a history and print what was found; returns the exit code."""
    from laboratory.checker.check import check
    from laboratory.checker.report.report import HistoryError

    try:
        report = check(file, closed=closed)
    except HistoryError as error:
        say_error(f"cannot check: {error}")
        return EXIT_USAGE
    match output:
        case Output.JSON:
            sys.stdout.write(json.dumps(as_json(report)) + "\n")
        case Output.TABLE:
            print_table(report)
    return 0 if report.ok else EXIT_ERROR


def as_json(report: CheckReport) -> dict[str, Any]:
    """The report as `-o json` prints it."""
    violations = [
        {
            "line": v.line,
            "event": v.event,
            "promise": v.promise,
            "rule": v.rule,
            "message": v.message,
        }
        for v in report.violations
    ]
    promises = [
        {
            "promise": row.promise,
            "rule": row.rule,
            "state": row.state,
            "checked": row.checked,
            "broken": row.broken,
        }
        for row in report.rows
    ]
    return {
        "ok": report.ok,
        "events": report.events,
        "closed": report.closed,
        "torn": report.torn,
        "ended": report.ended,
        "broken": {str(promise): count for promise, count in report.broken.items()},
        "promises": promises,
        "violations": violations,
        "summary": report.summary.table(),
    }


def print_table(report: CheckReport) -> None:
    """Print a row for each promise, the run's figures, and the first events that break one."""
    from rich.console import Console
    from rich.table import Table

    console = Console(soft_wrap=True)
    promises = Table("promise", "", "", "checked", "broken")
    promises.title = f"{report.events} events in {report.path}"
    for row in report.rows:
        promise = f"{row.rule}: {row.text}" if row.rule else f"{row.text} (no history shows it)"
        promises.add_row(str(row.promise), promise, row.state, f"{row.checked:,}", str(row.broken))
    console.print(promises)
    figures = Table("figure", "value", show_header=False)
    for name, value in report.summary.table().items():
        text = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        figures.add_row(name.replace("_", " "), str(text))
    console.print(figures)
    if not report.ended:
        cut = "its last line is incomplete" if report.torn else "it has no last event"
        console.print(f"The history is open, {cut}: its writer was killed, or still writes.")
    if report.first is None:
        console.print("Every promise was kept.")
        return
    console.print(f"The first event that breaks a promise:\n  {report.first}", markup=False)
    for violation in report.violations[1:_SHOWN]:
        console.print(f"  {violation}", markup=False)
    if (rest := sum(report.broken.values()) - _SHOWN) > 0:
        console.print(f"  and {rest} more")
