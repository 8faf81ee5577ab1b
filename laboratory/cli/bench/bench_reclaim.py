"""The run of ``quadrant bench reclaim``: fill the cluster, submit the gang, see whom it takes."""

from __future__ import annotations

from dataclasses import dataclass
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
    in_force,
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
from laboratory.workloads.reclaim import (
    GANG,
    POLICY,
    cluster,
    gang,
    gang_width,
    jobs_before,
    rich_jobs,
    victims_wanted,
)
from shared.policy.model import Dialect

GOALS = {Dialect.VOLCANO: {1_000: 2.0}, Dialect.KAI: {500: 1.0, 1_000: 3.0}}
"""Nodes -> seconds until the last eviction."""
GANG_PATH = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/gang"


@dataclass(frozen=True, slots=True)
class ReclaimFigures:
    """What was seen, and what it cost."""

    victims: int
    """Tasks that the cluster was told to end."""
    last_eviction: float
    """Seconds from the gang's submission until the cluster was told of the last of them."""
    bound: int
    """Tasks of the gang that run."""
    last_bind: float
    """Seconds from the gang's submission until the last of them was bound."""
    cpu_seconds: Cpu
    """By role, from the gang's submission until it was bound."""


def run_reclaim(options: BenchOptions) -> int:
    """Returns the exit code. Raises :class:`CommandError`."""
    if options.other_pods is not None:
        raise CommandError("--pods: reclaim has one pod for each GPU; give --nodes alone")
    if options.nodes < 2:
        raise CommandError("--nodes: reclaim takes half of the nodes, so that it needs two")
    return run_framed(Bench(_drive, _result, _show, POLICY), options)


async def _drive(
    options: BenchOptions, sender: Sender, space: Workspace, progress: RunProgress
) -> tuple[Dialect, Cpu]:
    """The policy's dialect, and CPU from the gang's submission until it runs."""
    nodes = options.nodes
    full = jobs_before(nodes)

    async def is_full(status: Status) -> bool:
        return bool(status["tasks"]["running"] >= full)

    progress.phase(f"Filling {nodes:,} nodes with {full:,} jobs (not counted)")
    dialect = in_force(space.settings).dialect
    await sender.send(cluster(nodes, dialect), in_flight=IN_FLIGHT)
    await until_nodes_are_shared_out(sender.api, nodes=nodes)
    await sender.send(rich_jobs(nodes), in_flight=IN_FLIGHT)
    await until(sender, is_full)
    progress.phase(f"Measuring a gang of {gang_width(nodes):,} nodes")
    return dialect, await cpu_of(_reclaim(sender, nodes), space)


async def _reclaim(sender: Sender, nodes: int) -> None:
    async def gang_runs(_: Status) -> bool:
        job = await sender.api.get(GANG_PATH)
        return bool(job.get("status", {}).get("running", 0) >= gang_width(nodes))

    await sender.send([gang(nodes)])
    await until(sender, gang_runs)


# --- result -----------------------------------------------------------------------------------


def _result(
    options: BenchOptions,
    measured: tuple[Dialect, Cpu],
    figures: Figures,
    report: CheckReport,
    sent: dict[str, float],
) -> dict[str, Any]:
    dialect, cpu = measured
    values = reclaim_result(options, reclaim_of(figures, sent, cpu), report)
    return values | {"goal_seconds": GOALS[dialect].get(options.nodes)}


def reclaim_of(figures: Figures, sent: dict[str, float], cpu_seconds: Cpu) -> ReclaimFigures:
    """The figures of the gang. Raises CommandError where the history does not have it."""
    part = figures.only(GANG)
    if not part.jobs:
        raise CommandError(f"the history has no {GANG}")
    began = min(part.submitted_at(sent).values())
    return ReclaimFigures(
        victims=len(figures.stopped),
        last_eviction=round(max(figures.stopped.values(), default=began) - began, 3),
        bound=len(part.bound),
        last_bind=round(max(part.bound.values(), default=began) - began, 3),
        cpu_seconds=cpu_seconds,
    )


def reclaim_result(
    options: BenchOptions, reclaim: ReclaimFigures, report: CheckReport
) -> dict[str, Any]:
    """What ``-o json`` prints."""
    nodes, faults = options.nodes, [str(violation) for violation in report.violations[:1]]
    if reclaim.bound != gang_width(nodes):
        faults.append(f"{reclaim.bound:,} of {gang_width(nodes):,} tasks of the gang were bound")
    if reclaim.victims != victims_wanted(nodes):
        faults.append(f"{reclaim.victims:,} tasks were evicted, {victims_wanted(nodes):,} enough")
    return {
        "bench": options.size.value,
        "nodes": nodes,
        "shards": options.shards,
        "jobs_before": jobs_before(nodes),
        "gang": reclaim.bound,
        "victims": reclaim.victims,
        "last_eviction_seconds": reclaim.last_eviction,
        "last_bind_seconds": reclaim.last_bind,
        "cpu_seconds": {role: round(reclaim.cpu_seconds.get(role, 0.0), 2) for role in BUDGET},
        "statements": report.summary.table()["statements"],
        "faults": faults,
    }


def _show(values: dict[str, Any]) -> None:
    title = (
        f"reclaim: {values['nodes']:,} nodes full of {values['jobs_before']:,} jobs, "
        f"{values['shards']} shards"
    )
    table = table_of_figures(title)
    table.add_row("tasks of the gang", f"{values['gang']:,}", "a whole node each")
    table.add_row("evicted tasks", f"{values['victims']:,}", "")
    seconds = f"{values['last_eviction_seconds']:,.2f} s"
    table.add_row("last eviction", seconds, "from the submission until the cluster was told")
    table.add_row("goal", goal_text(values["goal_seconds"]), "for the last eviction")
    table.add_row("last bind", f"{values['last_bind_seconds']:,.2f} s", "the victims end first")
    add_cpu(table, values["cpu_seconds"])
    Console().print(table)
    show_policy(values, unnamed="one that reclaims")
    tell_missed(values["last_eviction_seconds"], values["goal_seconds"])
