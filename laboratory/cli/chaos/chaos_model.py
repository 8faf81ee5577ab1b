"""``quadrant chaos model``: every state of a small system, with all checks or without one."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator.cli.options.failure import EXIT_ERROR
from coordinator.cli.options.options import Output, OutputOption
from laboratory.model import checks, eviction

if TYPE_CHECKING:
    from laboratory.model.explore import Explored
    from laboratory.model.state import FaultBudget

MEANING = {str(one): text for one, text in (*checks.MEANING.items(), *eviction.MEANING.items())}
"""Every check that can be taken away, of both models."""


def _removable(name: str | None) -> str | None:
    if name is not None and name not in MEANING:
        raise typer.BadParameter(f"{name!r} is no check; take one of {', '.join(MEANING)}")
    return name


@dataclass(frozen=True, slots=True)
class Exploration:
    """Result of exploring one model with one set of faults."""

    scope: str
    found: Explored | eviction.ExploredEvictions
    seconds: float


def model_command(
    *,
    without: Annotated[
        str | None,
        typer.Option(
            "--without",
            callback=_removable,
            metavar="CHECK",
            help="Remove this check, and show the shortest way to a broken promise: "
            + ", ".join(MEANING),
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
    """Explore every state of a small system: exit 0 if every promise is kept, 1 if not

    Two models: workers and coordinators with leases, hand-over, commits and takeovers; and one task
    that is evicted again and again while its leader changes and messages come late or twice.
    """
    explorations: list[Exploration] = []
    if without is None or without in set(checks.ModelCheck):
        explorations += _explore_workers(without, thorough=thorough)
    if without is None or without in set(eviction.EvictionRule):
        explorations.append(_explore_victim(without))
    match output:
        case Output.JSON:
            sys.stdout.write(json.dumps(_plain(explorations, without)) + "\n")
        case Output.TABLE:
            _print(explorations, without)
    raise typer.Exit(EXIT_ERROR if shortest(explorations) else 0)


def _explore_workers(without: str | None, *, thorough: bool) -> list[Exploration]:
    from laboratory.model.explore import ALL, SCOPES, explore
    from laboratory.model.state import FaultBudget

    checks_left = ALL if without is None else ALL - {checks.ModelCheck(without)}
    explorations: list[Exploration] = []
    for faults in (FaultBudget(),) if thorough else SCOPES:
        worst = shortest(explorations)  # of the others only shorter ways are of interest
        within = len(worst.found.trace) - 1 if worst else None
        explored = explore(faults, checks_left, within=within)
        explorations.append(Exploration(_scope(faults), explored, explored.seconds))
    return explorations


def _explore_victim(without: str | None) -> Exploration:
    rules = eviction.ALL if without is None else eviction.ALL - {eviction.EvictionRule(without)}
    started = time.perf_counter()
    explored = eviction.explore(rules)
    scope = f"{eviction.INCARNATIONS} evictions of one task, 1 takeover"
    return Exploration(scope, explored, time.perf_counter() - started)


def _scope(faults: FaultBudget) -> str:
    crashes, pauses, cuts, changes = faults
    counts = {"crash": crashes, "pause": pauses, "lost answer": cuts, "change by a user": changes}
    return ", ".join(f"{count} {fault}" for fault, count in counts.items() if count)


def shortest(explorations: Sequence[Exploration]) -> Exploration | None:
    """Return the exploration with the shortest violation; None if none was found."""
    broken = [exploration for exploration in explorations if exploration.found.broken]
    return min(broken, key=lambda exploration: len(exploration.found.trace), default=None)


def _plain(explorations: Sequence[Exploration], without: str | None) -> dict[str, object]:
    worst = shortest(explorations)
    return {
        "ok": worst is None,
        "without": without,
        "states": sum(exploration.found.states for exploration in explorations),
        "steps": sum(exploration.found.steps for exploration in explorations),
        "seconds": round(sum(exploration.seconds for exploration in explorations), 2),
        "broken": worst and worst.found.broken,
        "trace": worst.found.trace if worst else [],
    }


def _print(explorations: Sequence[Exploration], without: str | None) -> None:
    from rich.table import Table

    from coordinator.cli.output.terminal import console

    out = console()
    if without is not None:
        out.print(f"Without the check {without}: {MEANING[without]}", markup=False)
    worst = shortest(explorations)
    table = Table("what may happen", "states", "steps", "seconds", "")
    for exploration in explorations:
        verdict = "broken" if exploration.found.broken else "none shorter" if worst else "all kept"
        table.add_row(
            exploration.scope,
            f"{exploration.found.states:,}",
            f"{exploration.found.steps:,}",
            f"{exploration.seconds:.1f}",
            verdict,
        )
    out.print(table)
    if worst is None:
        out.print("Every promise is kept in every state.")
        return
    out.print(f"The shortest way to break promise {worst.found.broken}:", markup=False)
    for number, step in enumerate(worst.found.trace, 1):
        out.print(f"{number:4}. {step}", markup=False)
