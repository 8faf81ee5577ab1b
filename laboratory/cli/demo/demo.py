"""``quadrant demo``: what the options must satisfy. The run itself is in demo_run."""

from __future__ import annotations

import typer

from coordinator.cli.options.policy_file import check_policy_early
from laboratory.cli.demo.demo_options import DemoOptions


def demo(*, options: DemoOptions) -> None:
    """Run a workload on a simulated cluster, with real shards, a real ledger and real processes

    Starts everything, submits the jobs over HTTP, shows the progress, stops everything, and then
    checks the history of the run with code that shares nothing with the scheduler: no task bound
    twice, no gang bound in part, nothing lost. Ends with 0 only if all of this holds.

    Examples:

      quadrant demo --backlog

      quadrant demo --jobs 200 --nodes 100 --shards 2 --backlog -o json

      quadrant demo --trace jobs.csv --columns submit=time,duration=secs,gpus=n
    """
    if options.gpus_per_node is not None and options.cpus_per_node is not None:
        raise typer.BadParameter("give one of --gpus-per-node and --cpus-per-node, not both")
    if options.columns is not None and options.trace is None:
        raise typer.BadParameter("--columns needs --trace: it says what the file's columns mean")
    # Before the imports, which take seconds on a busy machine.
    typer.echo("Quadrant's demo: starts everything, and stops it at the end", err=True)
    check_policy_early()
    from laboratory.cli.demo.demo_run import run_demo

    code = run_demo(options)
    if code:
        raise typer.Exit(code)
