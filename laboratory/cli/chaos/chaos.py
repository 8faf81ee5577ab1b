"""``quadrant chaos``: breaking things on purpose, and the check of what the system made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.options.failure import as_command_errors
from coordinator.cli.options.options import Output, OutputOption
from coordinator.cli.options.records import CommandGroup
from laboratory.cli.chaos.chaos_check import run_check
from laboratory.cli.chaos.chaos_kill import chaos_kill, run_directory
from laboratory.cli.chaos.chaos_measure import chaos_measure
from laboratory.cli.chaos.chaos_model import model_command
from laboratory.cli.chaos.chaos_run import chaos_run
from laboratory.cli.chaos.chaos_sim import sim_command

app = CommandGroup(no_args_is_help=True)

app.command("run")(chaos_run)
app.command("kill")(chaos_kill)
app.command("measure")(chaos_measure)
app.command("sim")(sim_command)
app.command("model")(model_command)


@app.command("check")
def check_command(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The history that a run has written; without it that of the running quadrant up",
            metavar="FILE",
        ),
    ] = None,
    closed: Annotated[
        bool, typer.Option("--closed", help="The run must have finished all its jobs")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a history offline: exit 0 if every promise was kept, 1 if not

    Without FILE a `quadrant up` of this machine has to run, in the directory of the kubeconfig or
    in the usual one.
    """
    if file is None:
        from coordinator.supervisor.live_run import NoRun, find_run

        with as_command_errors(NoRun):
            file = find_run(run_directory(None)).history
    raise typer.Exit(run_check(file, output, closed=closed))
