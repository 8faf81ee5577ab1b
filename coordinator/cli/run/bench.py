"""``quadrant bench``: the options. The run itself is in bench_run."""

from __future__ import annotations

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
from coordinator.cli.run.bench_options import SIZES, BenchOptions, BenchSize


def bench(
    *,
    size: Annotated[
        BenchSize,
        typer.Argument(
            help="basic: 5,000 nodes and 10,000 pods; wide: 100,000 nodes and 100,000 pods"
        ),
    ],
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="Another number of nodes")
    ] = None,
    pods: Annotated[
        int | None, typer.Option("--pods", min=1, help="Another number of pods")
    ] = None,
    shards: Shards = 4,
    mode: ModeOption = ModeChoice.SOFT,
    seed: Seed = 0,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy", metavar="FILE", dir_okay=False, help="A policy file instead of the default"
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", dir_okay=False, help="Keep the history here"),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Measure tasks per second, and what each task costs every process

    Twice: first every pod is an object of its own, sent in Lists of 500 over HTTP; then one Job has
    as many tasks. The time runs from the first submission until the ledger has durably recorded the
    answer to the last bind; loading the nodes is not counted. The load comes from this process, on
    the same cores, and its CPU is shown. Afterwards the checker reads the history. Figures can be
    compared where the policy is the same: it is printed with them.
    """
    usual_nodes, usual_pods = SIZES[size]
    options = BenchOptions(
        size=size,
        nodes=nodes or usual_nodes,
        pods=pods or usual_pods,
        shards=shards,
        mode=mode,
        seed=seed,
        policy=policy,
        history=history,
        output=output,
    )
    from coordinator.cli.run.bench_run import run_bench

    code = run_bench(options)
    if code:
        raise typer.Exit(code)
