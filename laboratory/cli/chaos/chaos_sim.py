"""``quadrant chaos sim``: seeds of the simulated whole; a failing one is made small and kept."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator.cli.options.failure import EXIT_ERROR, EXIT_USAGE, CommandError
from coordinator.cli.options.options import Output, OutputOption

if TYPE_CHECKING:
    from laboratory.chaos.report import ChaosReport
    from laboratory.scenarios.play import ScenarioResult
    from laboratory.simulation.scenario import Scenario

DEFAULT_SEEDS = "1..100"
SHRUNK = 3
"""Maximum number of failing seeds to shrink."""
LAST_LINES = 5
"""Lines of a failing history that are shown."""


def sim_command(
    *,
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="A..B", help="Run these seeds, both ends included")
    ] = DEFAULT_SEEDS,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Run this seed alone", show_default=False)
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option("--scenario", metavar="FILE", help="Run the file of a failing seed"),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", help="Of one run: write its history here"),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", min=0, metavar="N", help="Processes side by side; 0 is one per processor"
        ),
    ] = 1,
    keep: Annotated[
        Path, typer.Option("--keep", metavar="DIR", help="Directory for failing scenarios")
    ] = Path(),
    seconds: Annotated[
        float,
        typer.Option(
            "--shrink", min=0.0, metavar="SECONDS", help="Maximum time to reduce a failing seed"
        ),
    ] = 60.0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run the whole service on virtual time, by seed, under every kind of fault

    Messages are late, lost and repeated; workers, leader, standby, ledger and cluster die, stop and
    come back. A failing seed is reduced to the smallest scenario that still fails, which is written
    to a file and runs again exactly with --scenario.
    """
    if scenario is not None:
        report = _run_one(_read(scenario), history)
    elif seed is not None:
        from laboratory.scenarios.generate import scenario as of_seed

        report = _run_one(of_seed(seed), history)
    elif history is not None:
        raise CommandError(
            "--history: it is of one run; give --seed or --scenario with it", code=EXIT_USAGE
        )
    else:
        processes = jobs or os.cpu_count() or 1
        report = _run_many(_range(seeds), processes=processes, keep=keep, seconds=seconds)
    _show(report, output)
    raise typer.Exit(0 if report.ok else EXIT_ERROR)


def _range(text: str) -> range:
    match = re.fullmatch(r"(\d+)\.\.(\d+)", text)
    if match is None or int(match[2]) < int(match[1]):
        raise CommandError(f"--seeds: {text!r} is not a range; write it as 1..500", code=EXIT_USAGE)
    return range(int(match[1]), int(match[2]) + 1)


def _read(file: Path) -> Scenario:
    from laboratory.simulation.scenario import Scenario

    try:
        return Scenario.from_json(file.read_text())
    except OSError as error:
        raise CommandError(f"{file}: cannot read it: {error.strerror}") from None
    except ValueError as error:
        reason = f"{type(error).__name__}: {error}"
        raise CommandError(
            f"{file}: not a scenario ({reason}); give a file that a failing seed has left behind"
        ) from None


def _run_one(chosen: Scenario, history: Path | None) -> ChaosReport:
    """The report of a run, whose history is written where that is asked for."""
    from laboratory.scenarios.campaign import report_of
    from laboratory.scenarios.play import play

    played = play(chosen)
    if history is not None:
        try:
            played.notes.write(history)
        except OSError as error:
            raise CommandError(f"--history: cannot write {history}: {error.strerror}") from None
    return report_of(played)


def _run_many(seeds: range, *, processes: int, keep: Path, seconds: float) -> ChaosReport:
    """``keep`` and ``seconds``: where failing scenarios are left, and how long one is made small
    at most."""
    from laboratory.chaos.report import ChaosReport
    from laboratory.cli.replay.replay_text import progress
    from laboratory.scenarios.campaign import run_seeds

    total, finished, failing = ChaosReport(), 0, list[int]()
    try:
        with progress("seeds", len(seeds)) as step:
            for seed, of_seed in run_seeds(seeds, processes=processes):
                total.add(of_seed)
                finished += 1
                if not of_seed.ok:
                    failing.append(seed)
                    if len(failing) <= SHRUNK:
                        _make_small(seed, keep, seconds)
                step()
    except KeyboardInterrupt:
        _say(_interrupted(seeds[:finished], failing))
        raise
    return total


def _interrupted(finished: range, failing: list[int]) -> str:
    """Summarize the seeds that ran before the interruption."""
    if not finished:
        return "interrupted before the first seed was finished"
    seeds = f"interrupted: seeds {finished[0]}..{finished[-1]} are finished"
    if not failing:
        return f"{seeds}, all clean"
    return f"{seeds}, {len(failing)} of them fail: {', '.join(map(str, failing))}"


def _make_small(seed: int, keep: Path, seconds: float) -> None:
    from laboratory.scenarios.generate import scenario
    from laboratory.scenarios.play import play
    from laboratory.scenarios.shrink import shrink

    failed = play(scenario(seed))
    _say(f"seed {seed} fails: {failed.broken[0]}")
    small = shrink(failed, seconds=seconds)
    file = keep / f"sim-{seed}.json"
    try:
        keep.mkdir(parents=True, exist_ok=True)
        file.write_text(small.scenario.to_json())
    except OSError as error:
        raise CommandError(f"--keep: cannot write {file}: {error.strerror}") from None
    for line in told(small, failed.scenario):
        _say(f"  {line}")
    _say(f"  again: quadrant chaos sim --scenario {file} --history sim-{seed}.jsonl")


def told(small: ScenarioResult, whole: Scenario) -> list[str]:
    """Describe a small failing run: what it needs to fail, and how its history ends."""
    shrunk = small.scenario
    lines = [f"{small.broken[0]}"]
    lines.append(f"stories, {len(shrunk.stories())} of {len(whole.stories())}:")
    lines += [f"  {story}" for story in shrunk.stories()]
    lines.append(f"faults, {len(shrunk.faults)} of {len(whole.faults)}:")
    for fault in shrunk.faults:
        lasting = f" for {fault.seconds:.3f} s" if fault.seconds else ""
        lines.append(f"  {fault.at:.3f} s: {fault.kind}{lasting}")
    lines.append(f"history, {len(small.notes.lines)} lines, which end with:")
    lines += [f"  {line.decode().strip()[:200]}" for line in small.notes.lines[-LAST_LINES:]]
    return lines


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _show(report: ChaosReport, output: Output) -> None:
    match output:
        case Output.JSON:
            sys.stdout.write(report.line() + "\n")
        case Output.TABLE:
            from rich.console import Console

            Console(soft_wrap=True).print(report.table())
