"""``quadrant lab``: a recorded week under several policies, on virtual time."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli.options.failure import EXIT_USAGE, CommandError, as_command_errors
from coordinator.cli.options.options import ModeChoice, ModeOption, Output, OutputOption
from laboratory.cli.sizes import MOST_NODES, MOST_PER_NODE

if TYPE_CHECKING:
    from laboratory.lab.cluster import Cluster
    from laboratory.lab.experiment import Experiment, SeedRun
    from laboratory.lab.week import WeekSource


def lab(
    *,
    week: Annotated[
        Path,
        typer.Argument(help="Jobs: CSV (.gz too) or Standard Workload Format", metavar="WEEK"),
    ],
    policy: Annotated[
        list[Path] | None,
        typer.Option(
            "--policy", metavar="FILE", help="A policy; the first is the baseline [default: ours]"
        ),
    ] = None,
    shards: Annotated[
        str, typer.Option("--shards", metavar="N,...", help="Numbers of shards")
    ] = "1",
    seeds: Annotated[
        str,
        typer.Option("--seeds", metavar="N,...", help="Seeds; each delays the messages anew"),
    ] = "1,2,3",
    mode: ModeOption = ModeChoice.SOFT,
    nodes: Annotated[
        int, typer.Option("--nodes", min=1, max=MOST_NODES, help="Number of equal nodes")
    ] = 80,
    gpus_per_node: Annotated[
        int,
        typer.Option("--gpus-per-node", min=0, max=MOST_PER_NODE, help="GPUs of every node"),
    ] = 8,
    cores_per_node: Annotated[
        int | None,
        typer.Option(
            "--cores-per-node",
            min=1,
            max=MOST_PER_NODE,
            help="Cores of every node, with 4 GiB each [default: 12 for each GPU, or 32]",
        ),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(
            "--cluster",
            metavar="FILE",
            help="Nodes as CSV with name, gpus, cpu and memory (MiB), or openb's list, in place of "
            "equal ones",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="NAME=COLUMN,...",
            help="Columns of a CSV week: submit, duration, gpus (of a pod), pods, cpu, memory, "
            "queue, user, priority, name; also computed (duration=end-start), with a unit "
            "(submit=ts ms)",
        ),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(
            "--separator", help="comma, tab, semicolon, pipe or space [default: by the header]"
        ),
    ] = None,
    null: Annotated[
        list[str] | None,
        typer.Option("--null", metavar="TEXT", help="A cell with this text has no value"),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Only the first N jobs by submission")
    ] = None,
    allow_dropped: Annotated[
        bool, typer.Option("--allow-dropped", help="Go on with more than 1% of the rows unusable")
    ] = False,
    backlog: Annotated[
        bool, typer.Option("--backlog", help="All jobs are there from the start")
    ] = False,
    speedup: Annotated[
        float,
        typer.Option(
            "--speedup",
            min=1.0,
            help="Seconds of the week in a second of virtual time; the service's timers (retries, "
            "leases) count by it. Lower is closer, and takes longer",
        ),
    ] = 1000.0,
    guard: Annotated[
        list[str] | None,
        typer.Option(
            "--guard",
            metavar="BOUND",
            help="End with 1 if a policy breaks this bound, such as "
            "'wait.p99{queue=prod} <= +5%' against the first, or 'sor >= 80%'",
        ),
    ] = None,
    again: Annotated[
        Path | None,
        typer.Option(
            "--again",
            metavar="SUMMARY",
            help="Repeat the run of a summary.json to the digit; of the other options --guard, "
            "--out, --processes and --output count",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE.html",
            help="Write the report, and jobs.csv and summary.json beside it",
        ),
    ] = None,
    receipts: Annotated[
        bool,
        typer.Option(
            "--receipts",
            help="Also write receipts.jsonl, with what each job waited for: see quadrant receipt",
        ),
    ] = False,
    processes: Annotated[
        int, typer.Option("--processes", min=0, help="Runs side by side; 0 is one per processor")
    ] = 0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Play a recorded week under policies, on virtual time, and compare

    Plays all jobs of a file as they arrived (or --backlog, all at once) through the service's own
    coordinator, workers and ledger, under every --policy with every number of --shards and every
    seed. A row of the file is a job: one pod with its GPUs on one node, several (pods=COLUMN), or
    pods of whole nodes if it has more GPUs than a node. Formats known by their header: Philly,
    openb, Muri. docs/laboratory.md defines the measures.

      quadrant lab week.csv --policy now.yaml --policy new.yaml --out r.html

      quadrant lab week.csv --columns 'submit=ts ms,duration=end-start'

      quadrant lab week.csv --again summary.json
    """
    from laboratory.lab.comparison import compare
    from laboratory.lab.experiment import Experiment
    from laboratory.lab.files import repeat, summary
    from laboratory.lab.guard import MeasureGuard, broken_guards, check_guards
    from laboratory.lab.play import RunSettings, fitted
    from laboratory.lab.policies import NamedPolicy
    from laboratory.lab.week import WeekError, dropped_text
    from shared.codec.packed import replace

    if out is not None:
        _check_out(out, week)
    elif receipts:
        raise CommandError("--receipts is written beside the report; add --out", code=EXIT_USAGE)
    with as_command_errors(WeekError):
        guards = [MeasureGuard.parse(text) for text in guard or ()]
        if again is not None:
            experiment = repeat(again, week)
        else:
            source = _source(columns, separator, null, jobs)
            read = source.read(week)
            chosen = _cluster(cluster, nodes, gpus_per_node, cores_per_node)
            fit = fitted(read, chosen)
            if not allow_dropped:
                fit.check_dropped()
            experiment = Experiment(
                week=fit,
                source=source,
                cluster=chosen,
                policies=tuple(map(NamedPolicy.read, policy or ())) or (NamedPolicy(),),
                shards=_numbers(shards, "--shards", 256),
                seeds=_numbers(seeds, "--seeds", 2**31),
                settings=RunSettings(mode=mode.value, speedup=speedup, backlog=backlog),
            )
        experiment = replace(experiment, settings=replace(experiment.settings, receipts=receipts))
        check_guards(guards, experiment.week, len(experiment.variants))
        if lost := dropped_text(experiment.week.dropped):
            sys.stderr.write(f"{week}: left out {lost}, of {experiment.week.rows:,} rows\n")
        runs = _play(experiment, processes or os.cpu_count() or 1)
    compared = compare(experiment, runs)
    body = summary(experiment, runs, compared)
    if out is not None:
        _write(out, body, experiment, runs)
    match output:
        case Output.JSON:
            sys.stdout.write(json.dumps(body, separators=(",", ":")) + "\n")
        case Output.TABLE:
            from laboratory.cli.lab.lab_table import print_table

            print_table(experiment, compared)
    if broken := broken_guards(guards, compared):
        raise CommandError("\n".join(f"guard broken: {line}" for line in broken))


def _source(
    columns: str | None, separator: str | None, null: list[str] | None, jobs: int | None
) -> WeekSource:
    from laboratory.lab.week import WeekSource, parse_columns
    from laboratory.workloads.columns import SEPARATORS

    if separator is not None and separator not in SEPARATORS:
        raise CommandError(
            f"--separator: {separator!r} is none of {', '.join(SEPARATORS)}", code=EXIT_USAGE
        )
    return WeekSource(
        columns=parse_columns(columns) if columns else {},
        separator=SEPARATORS[separator] if separator else "",
        nulls=tuple(null or ()),
        first=jobs,
    )


def _cluster(file: Path | None, nodes: int, gpus: int, cores: int | None) -> Cluster:
    from laboratory.lab.cluster import Cluster

    if file is not None:
        return Cluster.read(file)
    return Cluster.equal(nodes, gpus=gpus, cpu=None if cores is None else float(cores))


def _numbers(text: str, option: str, most: int) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 0 < int(part) <= most for part in parts):
        raise CommandError(
            f"{option}: {text!r} is not a list of numbers from 1 to {most:,}; write it as 1,4",
            code=EXIT_USAGE,
        )
    return tuple(map(int, parts))


def _check_out(out: Path, week: Path) -> None:
    """Refuse, before hours of work, a report that cannot be written or whose files would replace
    the week."""
    if not out.parent.is_dir():
        raise CommandError(f"--out: there is no folder {out.parent}; make it first")
    for file in _beside(out):
        if file.exists() and week.exists() and file.samefile(week):
            raise CommandError(
                f"--out: {file} is the week itself; write the report to another folder"
            )


def _beside(out: Path) -> tuple[Path, Path, Path, Path]:
    beside = out.with_name
    return out, beside("jobs.csv"), beside("summary.json"), beside("receipts.jsonl")


def _play(experiment: Experiment, processes: int) -> list[SeedRun]:
    """All runs, with a bar where somebody looks."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    from laboratory.lab.experiment import play_all

    console = Console(stderr=True)
    columns = ("Playing", BarColumn(), MofNCompleteColumn(), "runs", TimeElapsedColumn())
    total = len(experiment.variants) * len(experiment.seeds)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task("Playing", total=total)
        return play_all(
            experiment,
            processes=processes,
            progress=lambda count: progress.update(bar, completed=count),
        )


def _write(out: Path, body: dict[str, Any], experiment: Experiment, runs: list[SeedRun]) -> None:
    from laboratory.lab.files import write_jobs, write_receipts, write_summary
    from laboratory.lab.report import report

    page, table, record, receipts = _beside(out)
    try:
        page.write_text(report(body))
        write_jobs(table, runs)
        write_summary(record, body)
        if experiment.settings.receipts:
            write_receipts(receipts, runs)
    except OSError as error:
        raise CommandError(f"{error.filename}: cannot be written: {error.strerror}") from None
    more = f", {receipts}" if experiment.settings.receipts else ""
    sys.stderr.write(f"Wrote {page}, {table}{more} and {record}\n")
