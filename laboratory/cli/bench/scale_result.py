"""What a number of shards costs and brings: measured, and projected onto enough cores.

On fewer cores than processes the measured rate says how much work there is, not how far it could be
spread. The projection is by processor time alone: each process has a core, and the one with most
to do for a task is the limit. The coordinator's threads count as one there, so that it is a lower
bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from coordinator.supervisor import cpu_time
from coordinator.supervisor.supervisor import COORDINATOR, LEDGER

Values = Mapping[str, Any]

OF_A_TASK = (COORDINATOR, LEDGER, cpu_time.WORKERS)
"""Roles whose processes a task passes through; the workers' time is shared by as many as there are
shards."""


def scale_result(runs: Sequence[Values], *, cores: int) -> dict[str, Any]:
    """``runs``: the values of each bench, with its mode."""
    first = runs[0]
    return {
        "bench": "scale",
        "nodes": first["nodes"],
        "cores": cores,
        "policy": first["policy"],
        "runs": [_run(values) for values in runs],
    }


def _run(values: Values) -> dict[str, Any]:
    shards = values["shards"]
    loads = {name: _load(part, shards) for name, part in values["workloads"].items()}
    return {"mode": values["mode"], "shards": shards, "loads": loads}


def _load(part: Values, shards: int) -> dict[str, Any]:
    costs = part["cpu_us_per_task"]
    busy = {role: costs[role] / (shards if role == cpu_time.WORKERS else 1) for role in OF_A_TASK}
    limit = max(busy, key=lambda role: busy[role])
    statements, levels = part["statements"], part["levels"]
    judged = statements["committed"] + statements["conflicts_true"] + statements["conflicts_read"]
    placed = sum(levels.values())
    return {
        "tasks": part["tasks"],
        "tasks_per_second": part["tasks_per_second"],
        "submit_to_bound_ms": part["submit_to_bound_ms"],
        "cpu_us_per_task": costs,
        "projected_per_second": round(1e6 / busy[limit]) if busy[limit] else None,
        "limit": limit,
        "statements": statements,
        "wasted_share": 1 - statements["committed"] / judged if judged else 0.0,
        "on_other_shards_share": (levels["L2"] + levels["L4"]) / placed if placed else 0.0,
        "nodes_in_use": part["nodes_in_use"],
    }


# --- as a table -----------------------------------------------------------------------------------

HEAD = (
    *("MODE", "SHARDS", "TASKS/S", "P99 MS", "COORDINATOR", "LEDGER", "WORKERS", "ALL"),
    *("CONFLICTS", "WASTED", "ELSEWHERE", "NODES", "PROJECTED", "LIMIT"),
)
"""Times of processes are microseconds of processor time a task."""


def rows_of(values: Values, load: str) -> list[list[str]]:
    """The cells of a load's table, as :data:`HEAD` names them."""
    return [_cells(run, run["loads"][load]) for run in values["runs"]]


def _cells(run: Values, part: Values) -> list[str]:
    costs, statements = part["cpu_us_per_task"], part["statements"]
    projected = part["projected_per_second"]
    return [
        run["mode"],
        str(run["shards"]),
        f"{part['tasks_per_second']:,.0f}",
        f"{part['submit_to_bound_ms']['p99']:,.0f}",
        *(f"{costs[role]:.0f}" for role in OF_A_TASK),
        f"{sum(costs[role] for role in OF_A_TASK):.0f}",
        f"{statements['conflicts_true']:,} + {statements['conflicts_read']:,}",
        f"{part['wasted_share']:.1%}",
        f"{part['on_other_shards_share']:.0%}",
        f"{part['nodes_in_use']:,}",
        "" if projected is None else f"{projected:,}",
        part["limit"],
    ]


def limits_of(values: Values, load: str) -> list[str]:
    """For each mode a sentence: from how many shards on another process than a worker is the
    limit."""
    sentences = []
    for mode in dict.fromkeys(run["mode"] for run in values["runs"]):
        runs = [run for run in values["runs"] if run["mode"] == mode]
        first = next((run for run in runs if run["loads"][load]["limit"] != cpu_time.WORKERS), None)
        if first is None:
            sentences.append(f"{mode}: the workers are the limit with each of these numbers")
        else:
            limit, shards = first["loads"][load]["limit"], first["shards"]
            number = f"{shards} shard{'s' if shards > 1 else ''}"
            sentences.append(f"{mode}: the {limit} is the limit from {number} on")
    return sentences


def loads_of(values: Values) -> list[str]:
    return list(values["runs"][0]["loads"])


EXPLAINED = (
    "Processor time in microseconds a task. CONFLICTS: statements that lost a node to another "
    "shard + that had read a row since changed. WASTED: statements that were not committed. "
    "ELSEWHERE: tasks on nodes of other shards. PROJECTED: tasks a second if each process had a "
    "core, by the busiest one, which is the LIMIT."
)


def show_scale(values: Values) -> None:
    """Print a table of each load and mode: a column for each number of shards."""
    console = Console()
    for load in loads_of(values):
        rows = rows_of(values, load)
        for mode in dict.fromkeys(row[0] for row in rows):
            title = (
                f"scale, {load}, mode {mode}: {values['nodes']:,} nodes, {values['cores']} cores"
            )
            table = Table(title=title, title_justify="left", box=None, pad_edge=False)
            runs = [row for row in rows if row[0] == mode]
            table.add_column(HEAD[1], no_wrap=True)
            for run in runs:
                table.add_column(run[1], justify="right", no_wrap=True)
            for at, head in list(enumerate(HEAD))[2:]:
                table.add_row(head, *(run[at] for run in runs))
            console.print(table)
        for sentence in limits_of(values, load):
            typer.echo(f"With {load}, mode {sentence}")
    typer.echo(EXPLAINED)
