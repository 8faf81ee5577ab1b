"""``quadrant chaos``: breaking things on purpose, and the check of what the system made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.options.options import Output, OutputOption
from coordinator.cli.options.records import CommandGroup
from laboratory.cli.chaos.chaos_check import run_check
from laboratory.cli.chaos.chaos_kill import chaos_kill
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
        Path, typer.Argument(help="The history that a run has written", metavar="FILE")
    ],
    closed: Annotated[
        bool, typer.Option("--closed", help="The run must have finished all its jobs")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a history offline: exit 0 if every promise was kept, 1 if not"""
    raise typer.Exit(run_check(file, output, closed=closed))
