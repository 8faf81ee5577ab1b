"""``quadrant chaos measure``: how long recovery takes, against the bounds of docs/failures.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from coordinator.cli.options.failure import EXIT_ERROR
from coordinator.cli.options.options import Output, OutputOption, Seed

if TYPE_CHECKING:
    from laboratory.chaos.recovery_time import MeasuredRecovery

TASKS = 140_000


def chaos_measure(
    *,
    tasks: Annotated[
        int,
        typer.Option("--tasks", min=0, help="Number of running tasks, each in a job of its own"),
    ] = TASKS,
    times: Annotated[int, typer.Option("--times", min=1, help="How often each fault strikes")] = 3,
    shards: Annotated[int, typer.Option("--shards", min=1, max=16, help="Shard workers")] = 3,
    seed: Seed = 0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Measure how long recovery takes, against the promised bounds

    Starts everything with a standby, has many tasks run, and then strikes once at a time: a worker
    is killed, a worker hangs, the leader is killed, the ledger's server is killed, the Ray head is
    killed. Short jobs trickle in all the time; the first that is placed is the recovery. Ends with
    1 where a bound was exceeded: other work on the machine counts against it.

    Examples:

      quadrant chaos measure

      quadrant chaos measure --tasks 10000 --times 1 -o json
    """
    from rich.console import Console

    from laboratory.chaos.recovery_time import Measurement
    from laboratory.chaos.timeline import ChaosTimeline
    from laboratory.cli.stack import run_to_exit_code, workspace

    console = Console(stderr=True, highlight=False)
    with workspace(
        history=None, shards=shards, seed=seed, standby=True, log_format="json"
    ) as space:
        space_settings = space.settings.replace(max_pending_jobs=max(200_000, 2 * tasks))
        timeline = ChaosTimeline(lambda line: console.print(line, markup=False, soft_wrap=True))
        measurement = Measurement(space_settings, timeline, tasks=tasks, times=times)
        results: list[MeasuredRecovery] = []

        async def run() -> int:
            results.append(await measurement.run())
            return 0

        code = run_to_exit_code(run)
    if code == 0:
        code = _tell(results[0], output)
    if code:
        raise typer.Exit(code)


def _tell(measured: MeasuredRecovery, output: Output) -> int:
    from rich.console import Console
    from rich.table import Table

    rows = measured.rows()
    if output is Output.JSON:
        result = {"ok": measured.ok, "running_tasks": measured.running, "rows": rows}
        typer.echo(orjson.dumps(result).decode())
    else:
        title = f"Recovery with {measured.running:,} running tasks"
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for number, column in enumerate(("what", "times", "median", "longest", "bound", "")):
            table.add_column(column, justify="right" if number else "left")
        for row in rows:
            times = [f"{row[key]:.2f} s" if row[key] is not None else "-" for key in _TIMES]
            verdict = "kept" if row["ok"] else "exceeded" if row["times"] else "not measured"
            table.add_row(row["what"], str(row["times"]), *times, verdict)
        Console(soft_wrap=True).print(table)
    return 0 if measured.ok else EXIT_ERROR


_TIMES = ("median", "max", "bound")
