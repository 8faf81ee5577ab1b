"""The runs of ``quadrant bench fill`` and ``fractions``: an empty cluster, and jobs of one GPU, or
of half of one, that fill it."""

from __future__ import annotations

from typing import Any

from coordinator.cli.options.failure import CommandError
from coordinator.cli.output.progress import RunProgress
from laboratory.checker.report.report import CheckReport
from laboratory.cli.bench.bench_frame import (
    IN_FLIGHT,
    Bench,
    cpu_of,
    goal_text,
    run_framed,
    tell_missed,
)
from laboratory.cli.bench.bench_options import BenchOptions, BenchSize
from laboratory.cli.bench.bench_run import BenchPhase, bench_result, load, show_bench
from laboratory.cli.stack import Sender, Workspace, until_nodes_are_shared_out
from laboratory.history.figures import Figures
from laboratory.workloads.fill import (
    GPUS_PER_NODE,
    POLICY,
    PREFIX,
    cluster,
    jobs,
    jobs_that_fill,
)

GOALS = {BenchSize.FILL: {500: 3.0}, BenchSize.FRACTIONS: {1_000: 16_000 / 3_000}}
"""Nodes -> seconds until all is bound: of the fractions 3,000 a second."""
NAMES = {BenchSize.FILL: "one-GPU jobs", BenchSize.FRACTIONS: "half-GPU jobs"}


def run_fill(options: BenchOptions) -> int:
    """Returns the exit code. Raises :class:`CommandError`."""
    if options.pods > jobs_that_fill(options.nodes, halves=_shares(options)):
        raise CommandError(
            f"--pods: {options.nodes:,} nodes have {GPUS_PER_NODE} GPUs each, which is not enough "
            f"for {options.pods:,} pods; give fewer, or more --nodes"
        )
    return run_framed(Bench(_drive, fill_result, _show, POLICY), options)


async def _drive(
    options: BenchOptions, sender: Sender, space: Workspace, progress: RunProgress
) -> list[BenchPhase]:
    progress.phase(f"Loading {options.nodes:,} nodes (not counted)")
    await sender.send(cluster(options.nodes), in_flight=IN_FLIGHT)
    await until_nodes_are_shared_out(sender.api, nodes=options.nodes)
    name = NAMES[options.size]
    progress.phase(f"Measuring {options.pods:,} {name}")
    phase = BenchPhase(name, PREFIX, options.pods)
    items = jobs(options.pods, halves=_shares(options))
    phase.cpu_seconds = await cpu_of(load(phase, items, sender), space)
    return [phase]


def _shares(options: BenchOptions) -> bool:
    return options.size is BenchSize.FRACTIONS


def fill_result(
    options: BenchOptions,
    phases: list[BenchPhase],
    figures: Figures,
    report: CheckReport,
    sent: dict[str, float],
) -> dict[str, Any]:
    """What ``-o json`` prints: as of the other benchmarks, with the seconds until all is bound."""
    part = figures.only(PREFIX)
    first = min(part.submitted_at(sent).values(), default=0.0)
    seconds = max(part.bound.values(), default=first) - first
    values = bench_result(options, phases, figures, report, sent)
    full = options.pods == jobs_that_fill(options.nodes, halves=_shares(options))
    goal = GOALS[options.size].get(options.nodes) if full else None
    return values | {"last_bind_seconds": round(seconds, 3), "goal_seconds": goal}


def _show(values: dict[str, Any]) -> None:
    seconds, goal = values["last_bind_seconds"], values["goal_seconds"]
    told = f"All bound after {seconds:,.2f} s; goal: {goal_text(goal)}"
    show_bench(values, unnamed="KAI's default", seconds=told)
    tell_missed(seconds, goal)
