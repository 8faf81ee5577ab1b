"""Carries a chaos run out, and tells what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from coordinator.cli.options.failure import EXIT_ERROR
from coordinator.cli.options.options import Output

if TYPE_CHECKING:
    from rich.console import Console

    from laboratory.chaos.kubernetes.run import KubernetesChaos
    from laboratory.chaos.run import Chaos
    from laboratory.cli.stack import Workspace


def run_and_tell(
    chaos: Chaos | KubernetesChaos, space: Workspace, console: Console, output: Output
) -> int:
    """Returns the exit code. Raises CommandError."""
    from laboratory.cli.stack import run_to_exit_code

    async def run() -> int:
        await chaos.run()
        return 0

    if code := run_to_exit_code(run):
        return code
    return _tell(chaos, space, console, output)


def _tell(
    chaos: Chaos | KubernetesChaos, space: Workspace, console: Console, output: Output
) -> int:
    """The timeline with what was found out at the end, the result, the exit code."""
    from rich.console import Console

    report = chaos.report
    console.print("\nTimeline")
    for line in chaos.timeline.in_order():
        console.print(line, markup=False, soft_wrap=True)
    if output is Output.JSON:
        typer.echo(report.line())
    else:
        Console(soft_wrap=True).print(report.table())
    if report.ok:
        return 0
    space.keep = True
    console.print(f"History: {space.history}\nLogs: {space.settings.run_dir}", markup=False)
    return EXIT_ERROR
