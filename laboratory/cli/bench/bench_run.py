"""The run of ``quadrant bench``: load nodes, measure two workloads, stop, check, tell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from coordinator.cli.output.progress import RunProgress
from coordinator.supervisor import cpu_time
from coordinator.supervisor.supervisor import CLUSTER, COORDINATOR, RAY, REDIS
from laboratory.checker.report.report import CheckReport
from laboratory.cli.bench.bench_frame import (
    IN_FLIGHT,
    Bench,
    Cpu,
    cpu_of,
    run_framed,
    show_policy,
    until,
)
from laboratory.cli.bench.bench_options import BenchOptions
from laboratory.cli.stack import Sender, Status, Workspace, until_nodes_are_shared_out
from laboratory.history.figures import Figures
from laboratory.workloads.generators import (
    CPU,
    ClusterShape,
    Item,
    node_items,
    pod_items,
    wide_job,
)

BUDGET = {
    COORDINATOR: (70, "HTTP, parse 10; class, order 30; dispatch 10; bind, status 20"),
    cpu_time.WORKERS: (10, "place"),
    REDIS: (10, "check and write, durably"),
    cpu_time.LOAD: (50, "this process; and the slack, which the next two share"),
    CLUSTER: (0, "simulated nodes, and the history"),
    RAY: (0, "its own processes"),
}
"""Microseconds of CPU per task at the target of 14,300 tasks/s on 2 cores, and their parts."""

CORES_PER_NODE = 32


@dataclass(slots=True)
class BenchPhase:
    """One measured workload. Object names begin with ``prefix``."""

    name: str
    prefix: str
    tasks: int
    cpu_seconds: Cpu = field(default_factory=dict)
    """By role, from the first submission until the last bind was seen."""


def run_bench(options: BenchOptions) -> int:
    """Returns the exit code. Raises :class:`CommandError`."""
    return run_framed(Bench(_drive, bench_result, show_bench), options)


async def _drive(
    options: BenchOptions, sender: Sender, space: Workspace, progress: RunProgress
) -> list[BenchPhase]:
    phases = []
    progress.phase(f"Loading {options.nodes:,} nodes (not counted)")
    shape = ClusterShape(options.nodes, CORES_PER_NODE, CPU)
    await sender.send(node_items(shape), in_flight=IN_FLIGHT)
    await until_nodes_are_shared_out(sender.api, nodes=options.nodes)
    for name, prefix, items in (
        ("separate pods", "default/pod-", pod_items(options.pods)),
        ("one Job", "default/job-", iter([wide_job(options.pods)])),
    ):
        progress.phase(f"Measuring {options.pods:,} tasks: {name}")
        phase = BenchPhase(name, prefix, options.pods)
        phase.cpu_seconds = await cpu_of(load(phase, items, sender), space)
        phases.append(phase)
    return phases


async def load(phase: BenchPhase, items: Iterable[Item], sender: Sender) -> None:
    """Send everything and wait until as many more tasks are bound."""
    status = await sender.api.status()
    goal = status["tasks"]["bound"] + phase.tasks

    async def all_bound(status: Status) -> bool:
        return bool(status["tasks"]["bound"] >= goal)

    async with asyncio.TaskGroup() as group:
        group.create_task(sender.send(items, in_flight=IN_FLIGHT))
        await until(sender, all_bound)


# --- result -----------------------------------------------------------------------------------


def bench_result(
    options: BenchOptions,
    phases: list[BenchPhase],
    figures: Figures,
    report: CheckReport,
    sent: dict[str, float],
) -> dict[str, Any]:
    """What ``-o json`` prints: per workload the rate, the waits and the CPU per task."""
    complaints = [str(violation) for violation in report.violations[:1]]
    workloads = {}
    for phase in phases:
        part = figures.only(phase.prefix)
        if len(part.bound) != phase.tasks:
            complaints.append(
                f"{phase.name}: {len(part.bound):,} of {phase.tasks:,} tasks were bound"
            )
        per_task = {
            role: round(1e6 * phase.cpu_seconds.get(role, 0.0) / phase.tasks, 1) for role in BUDGET
        }
        workloads[phase.name] = {
            "tasks": phase.tasks,
            "tasks_per_second": part.tasks_per_second(sent),
            "submit_to_bound_ms": part.submit_to_bound(sent),
            "cpu_us_per_task": per_task,
            "over_budget": over_budget(per_task),
        }
    return {
        "bench": options.size.value,
        "nodes": options.nodes,
        "shards": options.shards,
        "workloads": workloads,
        "budget_us_per_task": {role: budget for role, (budget, _) in BUDGET.items()},
        "statements": report.summary.table()["statements"],
        "faults": complaints,
    }


def over_budget(per_task: dict[str, float]) -> list[str]:
    """Roles that cost more than they may; those without a budget of their own share the slack."""
    slack = [role for role, (budget, _) in BUDGET.items() if not budget]
    spent = dict(per_task)
    spent[cpu_time.LOAD] = spent.get(cpu_time.LOAD, 0.0) + sum(
        spent.pop(role, 0.0) for role in slack
    )
    return [role for role, us in spent.items() if us > BUDGET[role][0]]


def show_bench(values: dict[str, Any], *, unnamed: str = "the default", seconds: str = "") -> None:
    names = list(values["workloads"])
    title = f"{values['bench']}: {values['nodes']:,} nodes, {values['shards']} shards"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("budget", justify="right", no_wrap=True)
    table.add_column("", style="dim")
    parts = list(values["workloads"].values())
    table.add_row("tasks", *(f"{p['tasks']:,}" for p in parts))
    rates = (f"{p['tasks_per_second']:,}" for p in parts)
    table.add_row("tasks per second", *rates, "14,300", "first submission to last recorded bind")
    waits = (f"{p['submit_to_bound_ms']['p99']:,.0f} ms" for p in parts)
    table.add_row("submit to bound, 99%", *waits)
    table.add_section()
    for role, (budget, meaning) in BUDGET.items():
        costs = (f"{p['cpu_us_per_task'][role]:,.0f} us" for p in parts)
        table.add_row(f"CPU, {role}", *costs, f"{budget} us" if budget else "", meaning)
    totals = (f"{sum(p['cpu_us_per_task'].values()):,.0f} us" for p in parts)
    table.add_row("CPU, all", *totals, "140 us", "per task")
    Console().print(table)
    if seconds:
        typer.echo(seconds)
    show_policy(values, unnamed=unnamed)
    for name, part in values["workloads"].items():
        over = ", ".join(part["over_budget"]) or "none"
        typer.echo(f"Over budget with {name}: {over}")
