"""``quadrant scaling``: what more shards cost in quality, and what they do not, on virtual time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator.cli.options.failure import CommandError, as_command_errors
from coordinator.cli.options.options import ModeChoice, ModeOption, Output, OutputOption
from coordinator.cli.options.policy_file import read_policy
from laboratory.cli.sizes import MOST_NODES, MOST_PER_NODE, MOST_SHARDS, numbers_of

if TYPE_CHECKING:
    from rich.table import Table

    from laboratory.scenarios.scaling import ScalingBacklog, ScalingRun, ShardComparison
    from laboratory.workloads.generators import ClusterShape
    from laboratory.workloads.trace import Trace

SHARDS = "1,4,16"


def scaling(
    *,
    trace: Annotated[
        Path,
        typer.Argument(help="Job trace: CSV (.gz too, see --columns) or Standard Workload Format"),
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="NAME=COLUMN,...",
            help="Columns of a CSV trace as in quadrant lab: submit, duration, gpus, queue; also "
            "computed (duration=end-start), with a unit (submit=ts ms)",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", min=1, help="First N jobs by submission, all of them at once")
    ] = 5000,
    allow_dropped: Annotated[
        bool, typer.Option("--allow-dropped", help="Go on with more than 1% of the rows unusable")
    ] = False,
    nodes: Annotated[
        int, typer.Option("--nodes", min=1, max=MOST_NODES, help="Number of nodes")
    ] = 80,
    gpus_per_node: Annotated[
        int,
        typer.Option(
            "--gpus-per-node",
            min=1,
            max=MOST_PER_NODE,
            help="GPUs of every node; a task asks for one",
        ),
    ] = 8,
    shards: Annotated[
        str,
        typer.Option(
            "--shards", metavar="N,...", help="Numbers of shards; all are compared with the first"
        ),
    ] = SHARDS,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Runs of each; a seed delays the messages anew")
    ] = 10,
    mode: ModeOption = ModeChoice.SOFT,
    speedup: Annotated[
        float,
        typer.Option(
            "--speedup",
            min=1.0,
            help="Durations are divided by this; messages are not: at 1000 one of 3 ms counts "
            "as 3 s of a job",
        ),
    ] = 1000.0,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Another policy")
    ] = None,
    processes: Annotated[
        int,
        typer.Option("--processes", min=0, help="Runs side by side; 0 is one per processor"),
    ] = 0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run one backlog with different numbers of shards, on virtual time, and compare

    The figure is GPU-seconds used / (GPUs x time until the last task started). It shows the cost of
    sharding in packing and order, and not the scheduler's speed, which quadrant demo and quadrant
    bench measure.

      quadrant scaling jobs.csv --columns submit=time,duration=end-start,queue=team
    """
    from laboratory.scenarios.scaling import ScalingBacklog, UnfitBacklog, compare
    from laboratory.workloads.generators import ClusterShape
    from shard_worker.view.mode import Mode as WorkerMode
    from shared.policy.volcano import DEFAULT_POLICY

    shape = ClusterShape(nodes, gpus_per_node)
    read = _trace(trace, columns, jobs, shape, allow_dropped=allow_dropped)
    chosen = DEFAULT_POLICY if policy is None else read_policy(policy)
    backlog = ScalingBacklog(read, shape, speedup, WorkerMode(mode.value), chosen)
    pairs = list(product(numbers_of(shards, "--shards", MOST_SHARDS), range(1, seeds + 1)))
    with as_command_errors(UnfitBacklog):
        runs = list(_all(backlog, pairs, processes or os.cpu_count() or 1))
    compared = compare(runs)
    match output:
        case Output.JSON:
            line = {"compared": list(map(asdict, compared)), "runs": list(map(asdict, runs))}
            sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
        case Output.TABLE:
            from rich.console import Console

            Console(soft_wrap=True).print(_table(compared, backlog))


def _trace(
    file: Path, columns: str | None, jobs: int, shape: ClusterShape, *, allow_dropped: bool
) -> Trace:
    """The first jobs of a trace; all of them fit an empty cluster."""
    from laboratory.lab.trace import read_trace
    from laboratory.lab.week import WeekError, dropped_text

    with as_command_errors(WeekError):
        read = read_trace(file, columns=columns, limit=jobs, allow_dropped=allow_dropped)
    if lost := dropped_text(read.unusable):
        sys.stderr.write(f"{file}: left out {lost}\n")
    widest = int(read.width.max())
    if widest > shape.capacity:
        raise CommandError(
            f"{file}: its widest job has {widest} tasks, the cluster {shape.capacity} GPUs; "
            "give more --nodes"
        )
    return read


def _all(
    backlog: ScalingBacklog, pairs: list[tuple[int, int]], processes: int
) -> Iterator[ScalingRun]:
    """Every run in the order asked for, with a bar where somebody looks."""
    from rich.console import Console
    from rich.progress import track

    from laboratory.scenarios.scaling import run_backlog
    from laboratory.scenarios.worker_processes import worker_processes

    console = Console(stderr=True)
    with worker_processes(processes) as pool:
        futures = [
            pool.submit(run_backlog, backlog, shards=shards, seed=seed) for shards, seed in pairs
        ]
        shown = track(
            futures, "Running", console=console, disable=not console.is_terminal, transient=True
        )
        for future in shown:
            yield future.result()


def _table(compared: list[ShardComparison], backlog: ScalingBacklog) -> Table:
    from rich.table import Table

    trace, shape = backlog.trace, backlog.shape
    table = Table(
        title=f"{trace.jobs:,} jobs, {trace.tasks:,} tasks on {shape.nodes} x {shape.units} GPUs, "
        f"mode {backlog.mode.value}: share of GPU time in use until the last start",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for head in ("SHARDS", "MEDIAN", "LOWEST", "HIGHEST", "AGAINST THE FIRST"):
        table.add_column(head, justify="right")
    for row in compared:
        cells = (row.median, row.low, row.high)
        table.add_row(str(row.shards), *(f"{cell:.2%}" for cell in cells), f"{row.against:+.2%}")
    return table
