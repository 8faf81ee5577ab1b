"""The result of a benchmark: figures of each load against the budget and the goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from coordinator.supervisor import cpu_time
from coordinator.supervisor.supervisor import CLUSTER, COORDINATOR, LEDGER, RAY
from laboratory.checker.report.report import CheckReport
from laboratory.history.figures import Figures
from laboratory.workloads.shapes import SHAPES, BenchShape, Load, Size, TimedUntil
from shared.policy.model import Dialect

BUDGET = {
    COORDINATOR: (70, "HTTP, parse 10; class, order 30; dispatch 10; bind, status 20"),
    cpu_time.WORKERS: (10, "place"),
    LEDGER: (10, "check and write, durably"),
    cpu_time.LOAD: (50, "this process; and the slack, which the next two share"),
    CLUSTER: (0, "simulated nodes, and the history"),
    RAY: (0, "its own processes"),
}
"""Microseconds of CPU per task at the target of 14,300 tasks/s on 2 cores, and their parts."""
SCHEDULER = (COORDINATOR, cpu_time.WORKERS, LEDGER)
IDLE_GOAL_PERCENT = 5.0
"""Maximum share of one core for all processes of the scheduler together while nothing waits."""

Cpu = dict[str, float]
"""CPU seconds by role."""


Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LoadMeasurement:
    """From the first submission of a load until its last task has its place."""

    cpu: Cpu
    statements: Counts = field(default_factory=dict)
    """Statements by the ledger's answer."""
    levels: Counts = field(default_factory=dict)
    """Placed tasks by the gradient's level."""


@dataclass(frozen=True, slots=True)
class BenchMeasurement:
    shape: BenchShape
    size: Size
    dialect: Dialect
    loads: list[LoadMeasurement]
    figures: Figures
    sent: dict[str, float]
    """When each object was sent."""


def bench_result(measured: BenchMeasurement, report: CheckReport) -> dict[str, Any]:
    """The part of ``-o json`` that was measured, with ``faults``."""
    faults = [str(violation) for violation in report.violations[:1]]
    workloads, idle = {}, {}
    for load, part in zip(measured.shape.loads, measured.loads, strict=True):
        if load.seconds:
            idle = _idle(load, part.cpu)
            faults += _missing("before", len(measured.figures.bound), measured.shape, measured.size)
        else:
            workloads[load.name], wrong = _workload(measured, load, part)
            faults += wrong
    return {
        "running_before": measured.shape.running(measured.size),
        "workloads": workloads,
        **idle,
        "budget_us_per_task": {role: budget for role, (budget, _) in BUDGET.items()},
        "statements": report.summary.table()["statements"],
        "faults": faults,
    }


def _missing(name: str, bound: int, shape: BenchShape, size: Size) -> list[str]:
    tasks = shape.running(size)
    return [] if bound == tasks else [f"{name}: {bound:,} of {tasks:,} tasks were bound"]


def _workload(
    measured: BenchMeasurement, load: Load, counts: LoadMeasurement
) -> tuple[dict[str, Any], list[str]]:
    figures, sent, size = measured.figures, measured.sent, measured.size
    part, tasks, displaced = figures.only(load.prefix), load.tasks(size), load.displaced(size)
    placed = part.bound | part.promised if load.until is TimedUntil.PLACE else part.bound
    first = min(part.submitted_at(sent).values(), default=0.0)
    times = figures.stopped if load.until is TimedUntil.EVICTION else placed
    evicted = len(figures.stopped)
    faults = []
    if len(placed) != tasks:
        faults.append(f"{load.name}: {len(placed):,} of {tasks:,} tasks got a place")
    if load.least and evicted != displaced:
        faults.append(f"{load.name}: {evicted:,} tasks were evicted, {displaced:,} are enough")
    per_task = {role: round(1e6 * counts.cpu.get(role, 0.0) / tasks, 1) for role in BUDGET}
    full = measured.shape.most is None or tasks == measured.shape.most(size)
    goals = load.goals or {}
    return {
        "tasks": tasks,
        "tasks_per_second": part.tasks_per_second(sent),
        "submit_to_bound_ms": part.submit_to_bound(sent),
        "until": load.until.value,
        "seconds": round(max(times.values(), default=first) - first, 3),
        "goal_seconds": goals.get((measured.dialect, size.nodes)) if full else None,
        "evicted": evicted,
        "cpu_us_per_task": per_task,
        "over_budget": over_budget(per_task),
        "statements": counts.statements,
        "levels": counts.levels,
        "nodes_in_use": len(set(part.rows.values())),
    }, faults


def _idle(load: Load, cpu: Cpu) -> dict[str, Any]:
    percent = {role: round(100 * cpu.get(role, 0.0) / load.seconds, 2) for role in BUDGET}
    return {
        "percent_of_a_core": percent,
        "scheduler_percent": round(sum(percent[role] for role in SCHEDULER), 2),
        "goal_percent": IDLE_GOAL_PERCENT,
    }


def over_budget(per_task: Cpu) -> list[str]:
    """Roles that cost more than they may; those without a budget of their own share the slack."""
    slack = [role for role, (budget, _) in BUDGET.items() if not budget]
    spent = dict(per_task)
    spent[cpu_time.LOAD] = spent.get(cpu_time.LOAD, 0.0) + sum(
        spent.pop(role, 0.0) for role in slack
    )
    return [role for role, us in spent.items() if us > BUDGET[role][0]]


# --- as a table -----------------------------------------------------------------------------------


def show_bench(values: dict[str, Any]) -> None:
    before = f", {values['running_before']:,} running tasks" if values["running_before"] else ""
    title = f"{values['bench']}: {values['nodes']:,} nodes{before}, {values['shards']} shards"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    if values["workloads"]:
        _add_workloads(table, values["workloads"])
    else:
        _add_idle(table, values)
    Console().print(table)
    policy = values["policy"]
    unnamed = "the default" if SHAPES[values["bench"]].policy is None else "the shape's own"
    typer.echo(f"Policy: {policy['file'] or unnamed} ({', '.join(policy['actions'])})")
    for name, part in values["workloads"].items():
        typer.echo(f"Over budget with {name}: {', '.join(part['over_budget']) or 'none'}")
        goal = part["goal_seconds"]
        if goal is not None and part["seconds"] > goal:
            typer.echo(f"The goal of {goal:.3g} s was missed by {part['seconds'] - goal:.2f} s")
    over = values.get("scheduler_percent", 0.0) - values.get("goal_percent", 0.0)
    if over > 0:
        typer.echo(f"The goal was missed by {over:.2f}% of a core")


def _add_workloads(table: Table, workloads: dict[str, dict[str, Any]]) -> None:
    table.add_column("", no_wrap=True)
    for name in workloads:
        table.add_column(name, justify="right", min_width=len("12,345.6"))
    table.add_column("budget", justify="right", no_wrap=True)
    table.add_column("", style="dim")
    parts = list(workloads.values())
    table.add_row("tasks", *(f"{p['tasks']:,}" for p in parts))
    rates = (f"{p['tasks_per_second']:,}" for p in parts)
    table.add_row("tasks per second", *rates, "14,300", "first submission to last recorded bind")
    waits = (f"{p['submit_to_bound_ms']['p99']:,.0f} ms" for p in parts)
    table.add_row("submit to bound, 99%", *waits)
    table.add_row(
        "time",
        *(f"{p['seconds']:,.2f} s" for p in parts),
        "",
        f"until the last {parts[0]['until']}",
    )
    if any(p["goal_seconds"] is not None for p in parts):
        table.add_row("goal", *(f"{p['goal_seconds'] or 0:.3g} s" for p in parts))
    if any(p["evicted"] for p in parts):
        table.add_row("evicted tasks", *(f"{p['evicted']:,}" for p in parts))
    table.add_section()
    for role, (budget, meaning) in BUDGET.items():
        costs = (f"{p['cpu_us_per_task'][role]:,.0f} us" for p in parts)
        table.add_row(f"CPU, {role}", *costs, f"{budget} us" if budget else "", meaning)
    totals = (f"{sum(p['cpu_us_per_task'].values()):,.0f} us" for p in parts)
    table.add_row("CPU, all", *totals, "140 us", "per task")


def _add_idle(table: Table, values: dict[str, Any]) -> None:
    table.add_column("", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("", style="dim")
    parts = f"of a core: {', '.join(SCHEDULER)}"
    table.add_row("scheduler", f"{values['scheduler_percent']:.2f}%", parts)
    table.add_row("goal", f"{values['goal_percent']:g}%", "")
    table.add_section()
    for role, used in values["percent_of_a_core"].items():
        table.add_row(f"CPU, {role}", f"{used:.2f}%", "")
