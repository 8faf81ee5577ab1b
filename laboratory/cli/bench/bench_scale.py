"""``quadrant bench scale``: one shape with each number of shards in each mode."""

from __future__ import annotations

import os
from functools import partial
from itertools import product
from typing import Any

import orjson
import typer
from rich.console import Console

from coordinator.cli.options.failure import EXIT_ERROR
from coordinator.cli.output.progress import RunProgress
from laboratory.cli.bench.bench_options import BenchOptions, BenchOutput
from laboratory.cli.bench.bench_run import Bench, bench_of, bench_workspace, measure
from laboratory.cli.bench.scale_report import scale_report
from laboratory.cli.bench.scale_result import scale_result, show_scale
from laboratory.cli.stack import Workspace, run_to_exit_code, tell_faults

SHAPE = "basic"


def run_scale(options: BenchOptions) -> int:
    """Returns the exit code. Raises CommandError."""
    console = Console(stderr=True, highlight=False)
    pairs = list(product(options.modes, options.numbers))
    benches = [bench_of(options, SHAPE, shards=shards, mode=mode) for mode, shards in pairs]
    runs: list[dict[str, Any]] = []
    for number, bench in enumerate(benches, start=1):
        shards = f"{bench.shards} shard{'s' if bench.shards > 1 else ''}"
        text = f"Run {number} of {len(benches)}: {shards}, mode {bench.mode.value}"
        console.print(text, style="bold", markup=False)
        with bench_workspace(bench, history=None) as space:
            if code := run_to_exit_code(partial(_run, bench, space, runs, console)):
                return code
    values = scale_result(runs, cores=os.cpu_count() or 1)
    match options.output:
        case BenchOutput.TABLE:
            show_scale(values)
        case BenchOutput.JSON:
            typer.echo(orjson.dumps(values).decode())
        case BenchOutput.HTML:
            typer.echo(scale_report(values), nl=False)
    return 0


async def _run(bench: Bench, space: Workspace, runs: list[dict[str, Any]], console: Console) -> int:
    """Add the values of one run; 1 where it had a fault."""
    with RunProgress(console) as progress:
        values = await measure(bench, space, progress)
    tell_faults(values["faults"], space, console)
    runs.append(values | {"mode": bench.mode.value})
    return EXIT_ERROR if values["faults"] else 0
