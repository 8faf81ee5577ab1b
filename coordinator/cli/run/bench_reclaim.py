"""The run of ``quadrant bench reclaim``: fill the cluster, submit the gang, see whom it takes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from coordinator.cli.options.failure import EXIT_ERROR, CommandError
from coordinator.cli.options.options import Output
from coordinator.cli.output.progress import RunProgress
from coordinator.cli.run.bench_options import BenchOptions
from coordinator.cli.run.bench_run import BUDGET, cpu_by_role, policy_of
from coordinator.cli.run.stack import (
    STALL_SECONDS,
    Sender,
    Stall,
    Status,
    Workspace,
    poll,
    run_to_exit_code,
    running,
    tell_faults,
    until_nodes_are_shared_out,
    workspace,
)
from coordinator.verification.checker.check import check
from coordinator.verification.checker.report.report import CheckReport
from coordinator.verification.history.figures import Figures, read_figures
from coordinator.verification.workloads.reclaim import (
    GANG,
    POLICY,
    cluster,
    gang,
    gang_width,
    jobs_before,
    rich_jobs,
    victims_wanted,
)
from shared.settings.settings import Settings

GANG_PATH = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/gang"
IN_FLIGHT = 4
"""Lists on their way at a time while the cluster is filled."""


@dataclass(frozen=True, slots=True)
class Reclaim:
    """What was seen, and what it cost."""

    victims: int
    """Tasks that the cluster was told to end."""
    last_eviction: float
    """Seconds from the gang's submission until the cluster was told of the last of them."""
    bound: int
    """Tasks of the gang that run."""
    last_bind: float
    """Seconds from the gang's submission until the last of them was bound."""
    cpu_seconds: dict[str, float]
    """By role, from the gang's submission until it was bound."""


def run_reclaim(options: BenchOptions) -> int:
    """Returns the exit code. Raises :class:`CommandError`."""
    if options.other_pods is not None:
        raise CommandError("--pods: reclaim has one pod for each GPU; give --nodes alone")
    if options.nodes < 2:
        raise CommandError("--nodes: reclaim takes half of the nodes, so that it needs two")
    console = Console(stderr=True, highlight=False)
    with workspace(
        history=options.history,
        shards=options.shards,
        mode=options.mode.value,
        seed=options.seed,
        policy=None if options.policy is None else options.policy.absolute(),
    ) as space:
        if options.policy is None:
            space.settings = _with_own_policy(space)
        policy = policy_of(space.settings)
        if options.policy is None:
            policy["file"] = None
        return run_to_exit_code(lambda: _run(options, space, policy, console))


def _with_own_policy(space: Workspace) -> Settings:
    """The default policy does not reclaim."""
    file = Path(space.settings.run_dir) / "reclaim.yaml"
    file.write_text(POLICY)
    return space.settings.replace(policy=file)


async def _run(
    options: BenchOptions, space: Workspace, policy: dict[str, Any], console: Console
) -> int:
    sent: dict[str, float] = {}
    with RunProgress(console) as progress:
        cpu_seconds = await _drive(options, space, sent, progress)
        progress.phase("Checking the history")
        report = await asyncio.to_thread(check, space.history)
        figures = await asyncio.to_thread(read_figures, space.history)
    reclaim = reclaim_of(figures, sent, cpu_seconds)
    values = reclaim_result(options, reclaim, report) | {"policy": policy}
    if options.output is Output.TABLE:
        _show(values)
    tell_faults(values["faults"], space, console)
    if options.output is Output.JSON:
        typer.echo(orjson.dumps(values).decode())
    return EXIT_ERROR if values["faults"] else 0


async def _drive(
    options: BenchOptions, space: Workspace, sent: dict[str, float], progress: RunProgress
) -> dict[str, float]:
    """Processor seconds by role, from the gang's submission on."""
    nodes = options.nodes
    async with running(space, progress) as api:
        sender = Sender(api, sent)
        full = jobs_before(nodes)
        progress.phase(f"Filling {nodes:,} nodes with {full:,} jobs (not counted)")
        await sender.send(cluster(nodes), in_flight=IN_FLIGHT)
        await until_nodes_are_shared_out(api, nodes=nodes)
        await sender.send(rich_jobs(nodes), in_flight=IN_FLIGHT)
        await _until_full(sender, full)
        progress.phase(f"Measuring a gang of {gang_width(nodes):,} nodes")
        before = cpu_by_role(space)
        await sender.send([gang(nodes)])
        await _until_gang_runs(sender, gang_width(nodes))
        after = cpu_by_role(space)
    return {role: after[role] - before.get(role, 0.0) for role in after}


async def _until_full(sender: Sender, goal: int) -> None:
    stall = Stall(longest=0.0)
    async for status in poll(sender.api):
        if status["tasks"]["running"] >= goal:
            return
        _raise_if_stalled(stall, status)


async def _until_gang_runs(sender: Sender, width: int) -> None:
    stall = Stall(longest=0.0)
    async for status in poll(sender.api):
        job = await sender.api.get(GANG_PATH)
        if job.get("status", {}).get("running", 0) >= width:
            return
        _raise_if_stalled(stall, status)


def _raise_if_stalled(stall: Stall, status: Status) -> None:
    if stall.seconds(status, time.monotonic()) > STALL_SECONDS:
        raise CommandError(
            f"nothing has moved for {STALL_SECONDS:g} s; waiting for: "
            f"{status.get('pending_reasons')}"
        )


# --- result -----------------------------------------------------------------------------------


def reclaim_of(figures: Figures, sent: dict[str, float], cpu_seconds: dict[str, float]) -> Reclaim:
    """The figures of the gang. Raises CommandError where the history does not have it."""
    part = figures.only(GANG)
    if not part.jobs:
        raise CommandError(f"the history has no {GANG}")
    began = min(part.submitted_at(sent).values())
    return Reclaim(
        victims=len(figures.stopped),
        last_eviction=round(max(figures.stopped.values(), default=began) - began, 3),
        bound=len(part.bound),
        last_bind=round(max(part.bound.values(), default=began) - began, 3),
        cpu_seconds=cpu_seconds,
    )


def reclaim_result(options: BenchOptions, reclaim: Reclaim, report: CheckReport) -> dict[str, Any]:
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
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, show_header=False)
    table.add_column("", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("", style="dim")
    table.add_row("tasks of the gang", f"{values['gang']:,}", "a whole node each")
    table.add_row("evicted tasks", f"{values['victims']:,}", "")
    seconds = f"{values['last_eviction_seconds']:,.2f} s"
    table.add_row("last eviction", seconds, "from the submission until the cluster was told")
    table.add_row("last bind", f"{values['last_bind_seconds']:,.2f} s", "the victims end first")
    table.add_section()
    for role, used in values["cpu_seconds"].items():
        table.add_row(f"CPU, {role}", f"{used:,.2f} s", "")
    Console().print(table)
    policy = values["policy"]
    typer.echo(f"Policy: {policy['file'] or 'one that reclaims'} ({', '.join(policy['actions'])})")
