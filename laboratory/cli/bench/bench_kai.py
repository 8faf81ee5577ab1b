"""The runs of ``quadrant bench reclaim-many``, ``consolidate`` and ``topology``: jobs under a KAI
policy, and how long their way to their places takes through a service."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.console import Console

from coordinator.cli.options.failure import CommandError
from coordinator.cli.output.progress import RunProgress
from laboratory.checker.report.report import CheckReport
from laboratory.cli.bench.bench_frame import (
    IN_FLIGHT,
    Bench,
    Cpu,
    add_cpu,
    cpu_of,
    goal_text,
    run_framed,
    show_policy,
    table_of_figures,
    tell_missed,
    until,
)
from laboratory.cli.bench.bench_options import BenchOptions
from laboratory.cli.bench.bench_run import BUDGET
from laboratory.cli.stack import Sender, Status, Workspace, until_nodes_are_shared_out
from laboratory.history.figures import Figures
from laboratory.workloads.fill import POLICY
from laboratory.workloads.generators import GPU
from laboratory.workloads.kai_service import PREFIX, SERVICE_SHAPES, ServiceShape
from laboratory.workloads.reclaim import POOR, cluster
from shared.policy.model import Dialect

QUEUE_PATH = f"/apis/scheduling.run.ai/v2/queues/{POOR}"


@dataclass(frozen=True, slots=True)
class MeasuredShape:
    shape: ServiceShape
    cpu_seconds: Cpu
    """By role, from the first submission until the last task runs."""


def run_kai_shape(options: BenchOptions) -> int:
    """Returns the exit code. Raises :class:`CommandError`."""
    name = options.size.value
    if options.other_pods is not None:
        raise CommandError(f"--pods: of {name} they follow from the nodes; give --nodes alone")
    shape = SERVICE_SHAPES[name]
    if shape.placed(options.nodes) < 1:
        raise CommandError(f"--nodes: none of {name}'s jobs fits on {options.nodes}; give more")
    return run_framed(Bench(partial(_drive, shape), shape_result, _show, POLICY), options)


async def _drive(
    shape: ServiceShape,
    options: BenchOptions,
    sender: Sender,
    space: Workspace,
    progress: RunProgress,
) -> MeasuredShape:
    nodes = options.nodes
    before = shape.running(nodes)

    async def runs(status: Status) -> bool:
        return bool(status["tasks"]["running"] >= before)

    progress.phase(f"Loading {nodes:,} nodes and {before:,} running tasks (not counted)")
    await sender.send(shape.before(nodes), in_flight=IN_FLIGHT)
    await until_nodes_are_shared_out(sender.api, nodes=nodes)
    await until(sender, runs)
    if shape.grown:
        await sender.send(cluster(nodes, Dialect.KAI), in_flight=IN_FLIGHT)
    progress.phase(f"Measuring {shape.placed(nodes):,} tasks: {shape.title}")
    return MeasuredShape(shape, await cpu_of(_place(shape, nodes, sender), space))


async def _place(shape: ServiceShape, nodes: int, sender: Sender) -> None:
    """Send what is measured, and wait until it runs; so does then what moved for it."""
    goal = shape.placed(nodes) * shape.gpus

    async def placed(status: Status) -> bool:
        queue = await sender.api.get(QUEUE_PATH)
        held = int(queue.get("status", {}).get("allocated", {}).get(GPU, 0))
        return held >= goal and bool(status["tasks"]["running"] >= shape.running_after(nodes))

    await sender.send(shape.jobs(nodes), in_flight=IN_FLIGHT)
    await until(sender, placed)


# --- result ---------------------------------------------------------------------------------------


def shape_result(
    options: BenchOptions,
    measured: MeasuredShape,
    figures: Figures,
    report: CheckReport,
    sent: dict[str, float],
) -> dict[str, Any]:
    """What ``-o json`` prints."""
    shape, part, nodes = measured.shape, figures.only(PREFIX), options.nodes
    times = {**part.bound, **part.promised} if shape.promised else part.bound
    first = min(part.submitted_at(sent).values(), default=0.0)
    faults = [str(violation) for violation in report.violations[:1]]
    if len(times) < shape.placed(nodes):
        faults.append(f"{len(times):,} of {shape.placed(nodes):,} tasks got a place")
    return {
        "bench": options.size.value,
        "shape": shape.title,
        "nodes": nodes,
        "shards": options.shards,
        "running_before": shape.running(nodes),
        "placed": len(times),
        "counts": "a promise" if shape.promised else "a bind",
        "evicted": len(figures.stopped),
        "seconds": round(max(times.values(), default=first) - first, 3),
        "goal_seconds": shape.goals.get(nodes),
        "cpu_seconds": {role: round(measured.cpu_seconds.get(role, 0.0), 2) for role in BUDGET},
        "statements": report.summary.table()["statements"],
        "faults": faults,
    }


def _show(values: dict[str, Any]) -> None:
    title = f"{values['bench']}: {values['nodes']:,} nodes, {values['shards']} shards"
    table = table_of_figures(title)
    table.add_row("ran before", f"{values['running_before']:,}", "tasks of one GPU")
    table.add_row("got a place", f"{values['placed']:,}", values["shape"])
    table.add_row("evicted tasks", f"{values['evicted']:,}", "")
    table.add_row("last place", f"{values['seconds']:,.2f} s", f"{values['counts']} counts")
    table.add_row("goal", goal_text(values["goal_seconds"]), "")
    add_cpu(table, values["cpu_seconds"])
    Console().print(table)
    show_policy(values, unnamed="KAI's default")
    tell_missed(values["seconds"], values["goal_seconds"])
