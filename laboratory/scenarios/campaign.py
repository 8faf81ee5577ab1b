"""Runs many seeds, in parallel processes if there are several, and yields their reports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from laboratory.chaos.report import ChaosReport
from laboratory.scenarios.generate import scenario
from laboratory.scenarios.play import ScenarioResult, play
from laboratory.scenarios.worker_processes import worker_processes

SEEDS_AT_ONCE = 10
"""Seeds per task of a process."""


def report_of(played: ScenarioResult) -> ChaosReport:
    """The report of one run."""
    timeline = played.simulation.timeline
    report = ChaosReport(seeds=1)
    for kind, count in timeline.struck.items():
        report.fault(kind, count)
    for role, seconds in timeline.recoveries:
        report.recovered(role, seconds)
    if played.report is not None:
        report.tasks_bound = played.report.summary.tasks_bound
    for broken in played.broken:
        promise = re.fullmatch(r"promise (\d+)", broken.rule)
        report.violation(
            promise=int(promise[1]) if promise else 0,
            message=broken.message if promise else str(broken),
            seed=played.seed,
        )
    return report


def _run(seed: int) -> ChaosReport:
    return report_of(play(scenario(seed)))


def _run_some(seeds: list[int]) -> list[ChaosReport]:
    return [_run(seed) for seed in seeds]


def run_seeds(seeds: range, *, processes: int = 1) -> Iterator[tuple[int, ChaosReport]]:
    """Each seed with its report, in the order of seeds."""
    if processes == 1:
        for seed in seeds:
            yield seed, _run(seed)
        return
    some = [list(seeds[i : i + SEEDS_AT_ONCE]) for i in range(0, len(seeds), SEEDS_AT_ONCE)]
    with worker_processes(processes) as pool:
        # Not `pool.map`: it cancels what is open when nobody asks any more, see worker_processes.
        for part, future in [(part, pool.submit(_run_some, part)) for part in some]:
            yield from zip(part, future.result(), strict=True)
