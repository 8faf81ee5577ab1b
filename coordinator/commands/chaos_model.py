"""``quadrant chaos model``: every state of a small system, with all checks or without one."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator.chaos.model.checks import MEANING, Check
from coordinator.commands.failure import EXIT_ERROR
from coordinator.commands.options import Output, OutputOption

if TYPE_CHECKING:
    from coordinator.chaos.model.explore import Explored


def model_command(
    *,
    without: Annotated[
        Check | None,
        typer.Option(
            "--without",
            metavar="CHECK",
            help="Take this check away, and show the shortest way to what breaks: "
            + ", ".join(Check),
            show_default=False,
        ),
    ] = None,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="All kinds of faults in one run: a million states, a minute or two, 1.5 GB",
        ),
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Explore every state of a small system: exit 0 if every promise is kept, 1 if not"""
    from coordinator.chaos.model.explore import ALL, SCOPES, explore
    from coordinator.chaos.model.state import Faults

    scopes = (Faults(),) if thorough else SCOPES
    checks = ALL if without is None else ALL - {without}
    found: list[Explored] = []
    for faults in scopes:
        worst = shortest(found)  # of the others only shorter ways are of interest
        found.append(explore(faults, checks, within=len(worst.trace) - 1 if worst else None))
    match output:
        case Output.JSON:
            sys.stdout.write(json.dumps(_plain(found, without)) + "\n")
        case Output.TABLE:
            _print(found, without)
    raise typer.Exit(EXIT_ERROR if shortest(found) else 0)


def shortest(found: Sequence[Explored]) -> Explored | None:
    """Of the runs that broke a promise the one with the fewest steps."""
    broken = [one for one in found if one.broken]
    return min(broken, key=lambda one: len(one.trace), default=None)


def _plain(found: Sequence[Explored], without: Check | None) -> dict[str, object]:
    worst = shortest(found)
    return {
        "ok": worst is None,
        "without": without,
        "states": sum(one.states for one in found),
        "steps": sum(one.steps for one in found),
        "seconds": round(sum(one.seconds for one in found), 2),
        "broken": worst and worst.broken,
        "trace": worst.trace if worst else [],
    }


def _print(found: Sequence[Explored], without: Check | None) -> None:
    from rich.table import Table

    from coordinator.commands.terminal import console

    out = console()
    if without is not None:
        out.print(f"Without the check {without}: {MEANING[without]}", markup=False)
    worst = shortest(found)
    table = Table("crashes", "pauses", "lost answers", "changes", "states", "steps", "seconds", "")
    for one in found:
        verdict = "broken" if one.broken else "none shorter" if worst else "all kept"
        figures = (f"{one.states:,}", f"{one.steps:,}", f"{one.seconds:.1f}")
        table.add_row(*(str(n) for n in one.faults), *figures, verdict)
    out.print(table)
    if worst is None:
        out.print("Every promise is kept in every state.")
        return
    out.print(f"The shortest way to break promise {worst.broken}:", markup=False)
    for number, step in enumerate(worst.trace, 1):
        out.print(f"{number:4}. {step}", markup=False)
