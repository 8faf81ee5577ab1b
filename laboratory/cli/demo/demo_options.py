"""The options of a demo."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.options.options import (
    ModeChoice,
    ModeOption,
    Output,
    OutputOption,
    Seed,
    Shards,
)
from laboratory.cli.sizes import MOST_NODES, MOST_PER_NODE

TRACE = "What to run"
CLUSTER = "The cluster"
RUN = "How to run it"

SPEEDUP = 1000.0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the command."""

    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            readable=True,
            rich_help_panel=TRACE,
            help="Job trace: CSV (.gz too, see --columns) or Standard Workload Format (.swf). "
            "Without it: a seeded workload, four fifths narrow jobs, one fifth gangs of 64 to 256",
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="NAME=COLUMN,...",
            rich_help_panel=TRACE,
            help="Columns of a CSV trace as in quadrant lab: submit (date-time or seconds), "
            "duration, gpus, queue; e.g. submit=time,duration=run ms,gpus=n",
        ),
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            min=1,
            rich_help_panel=TRACE,
            help="First N jobs by submission; 2000 without --trace, all of them with it",
        ),
    ] = None
    backlog: Annotated[
        bool,
        typer.Option(
            "--backlog",
            rich_help_panel=TRACE,
            help="Submit everything at once; otherwise jobs arrive as in the trace, "
            "--speedup times as fast",
        ),
    ] = False
    nodes: Annotated[
        int,
        typer.Option(
            "--nodes", min=1, max=MOST_NODES, rich_help_panel=CLUSTER, help="Number of nodes"
        ),
    ] = 1000
    gpus_per_node: Annotated[
        int | None,
        typer.Option(
            "--gpus-per-node",
            min=1,
            max=MOST_PER_NODE,
            rich_help_panel=CLUSTER,
            help="GPUs of every node (otherwise 8); each task asks for one",
        ),
    ] = None
    cpus_per_node: Annotated[
        int | None,
        typer.Option(
            "--cpus-per-node",
            min=1,
            max=MOST_PER_NODE,
            rich_help_panel=CLUSTER,
            help="CPUs of every node, in place of GPUs; each task asks for one. Otherwise 2 for "
            ".swf traces",
        ),
    ] = None
    shards: Shards = 4
    mode: ModeOption = ModeChoice.SOFT
    seed: Seed = 0
    speedup: Annotated[
        float,
        typer.Option(
            "--speedup",
            min=1e-3,
            rich_help_panel=RUN,
            help="Durations and arrivals are divided by this",
        ),
    ] = SPEEDUP
    grace: Annotated[
        float,
        typer.Option(
            "--grace",
            min=0.0,
            rich_help_panel=RUN,
            help="Seconds between the end of a task and its node being free; real seconds, "
            "--speedup does not touch them",
        ),
    ] = 0.05
    history: Annotated[
        Path | None,
        typer.Option(
            "--history",
            metavar="FILE",
            dir_okay=False,
            writable=True,
            rich_help_panel=RUN,
            help="Keep the history of the run here, for quadrant chaos check; "
            "otherwise it is checked and deleted",
        ),
    ] = None
    output: OutputOption = Output.TABLE

    @property
    def cpus(self) -> bool:
        """Whether tasks ask for a CPU each, not for a GPU."""
        swf = self.trace is not None and self.trace.name.removesuffix(".gz").endswith(".swf")
        return self.cpus_per_node is not None or (swf and self.gpus_per_node is None)

    @property
    def units(self) -> int:
        """GPUs or CPUs of every node."""
        return (self.cpus_per_node or 2) if self.cpus else (self.gpus_per_node or 8)
