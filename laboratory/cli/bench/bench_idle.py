"""The run of ``quadrant bench idle``: a cluster on which much runs and nothing waits, and what the
processes take meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import typer
from rich.console import Console

from coordinator.cli.options.failure import CommandError
from coordinator.cli.output.progress import RunProgress
from coordinator.supervisor import cpu_time
from coordinator.supervisor.supervisor import COORDINATOR, REDIS
from laboratory.checker.report.report import CheckReport
from laboratory.cli.bench.bench_frame import (
    IN_FLIGHT,
    Bench,
    Cpu,
    cpu_of,
    run_framed,
    show_policy,
    table_of_figures,
    until,
)
from laboratory.cli.bench.bench_options import BenchOptions
from laboratory.cli.bench.bench_run import BUDGET
from laboratory.cli.stack import Sender, Status, Workspace, until_nodes_are_shared_out
from laboratory.history.figures import Figures
from laboratory.workloads.fill import POLICY
from laboratory.workloads.kai_service import IDLE_PODS, idle_cluster, idle_jobs

SETTLED_SECONDS, MEASURED_SECONDS = 10.0, 60.0
"""After the last task runs nothing is counted at first: what came of it is still written. A minute
has each of the periodic works in it, among them an audit of everything."""
GOAL_PERCENT = 5.0
"""Of one core, by all of the scheduler's processes together."""
SCHEDULER = (COORDINATOR, cpu_time.WORKERS, REDIS)


def run_idle(options: BenchOptions) -> int:
    """Returns the exit code. Raises :class:`CommandError`."""
    if options.other_pods is not None:
        raise CommandError(f"--pods: idle has {IDLE_PODS} on each node; give --nodes alone")
    return run_framed(Bench(_drive, idle_result, _show, POLICY), options)


async def _drive(
    options: BenchOptions, sender: Sender, space: Workspace, progress: RunProgress
) -> Cpu:
    """CPU of :data:`MEASURED_SECONDS` in which nothing waits."""
    nodes, tasks = options.nodes, options.nodes * IDLE_PODS

    async def runs(status: Status) -> bool:
        return bool(status["tasks"]["running"] >= tasks)

    progress.phase(f"Loading {nodes:,} nodes and {tasks:,} running tasks (not counted)")
    await sender.send(idle_cluster(nodes), in_flight=IN_FLIGHT)
    await until_nodes_are_shared_out(sender.api, nodes=nodes)
    await sender.send(idle_jobs(nodes), in_flight=IN_FLIGHT)
    await until(sender, runs)
    progress.phase("Letting it settle")
    await asyncio.sleep(SETTLED_SECONDS)
    progress.phase(f"Measuring {MEASURED_SECONDS:g} s in which nothing waits")
    return await cpu_of(asyncio.sleep(MEASURED_SECONDS), space)


def idle_result(
    options: BenchOptions, cpu: Cpu, figures: Figures, report: CheckReport, sent: dict[str, float]
) -> dict[str, Any]:
    """What ``-o json`` prints. Percent of one core."""
    del sent
    tasks = options.nodes * IDLE_PODS
    faults = [str(violation) for violation in report.violations[:1]]
    if len(figures.bound) != tasks:
        faults.append(f"{len(figures.bound):,} of {tasks:,} tasks ran")
    percent = {role: round(100 * cpu.get(role, 0.0) / MEASURED_SECONDS, 2) for role in BUDGET}
    return {
        "bench": options.size.value,
        "nodes": options.nodes,
        "shards": options.shards,
        "tasks": len(figures.bound),
        "percent_of_a_core": percent,
        "scheduler_percent": round(sum(percent[role] for role in SCHEDULER), 2),
        "goal_percent": GOAL_PERCENT,
        "faults": faults,
    }


def _show(values: dict[str, Any]) -> None:
    title = f"idle: {values['nodes']:,} nodes, {values['tasks']:,} running tasks, "
    title += f"{values['shards']} shards"
    table = table_of_figures(title)
    parts = f"of a core: {', '.join(SCHEDULER)}"
    table.add_row("scheduler", f"{values['scheduler_percent']:.2f}%", parts)
    table.add_row("goal", f"{values['goal_percent']:g}%", "")
    table.add_section()
    for role, used in values["percent_of_a_core"].items():
        table.add_row(f"CPU, {role}", f"{used:.2f}%", "")
    Console().print(table)
    show_policy(values, unnamed="KAI's default")
    over = values["scheduler_percent"] - values["goal_percent"]
    if over > 0:
        typer.echo(f"The goal was missed by {over:.2f}% of a core")
