"""``quadrant lab``: a recorded week under several policies, on virtual time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli.options.failure import EXIT_USAGE, CommandError, as_command_errors
from coordinator.cli.options.options import ModeChoice, ModeOption, Output, OutputOption
from laboratory.cli.sizes import MOST_NODES, MOST_PER_NODE, MOST_SHARDS, numbers_of

if TYPE_CHECKING:
    from laboratory.lab.cluster import Cluster
    from laboratory.lab.experiment import Experiment, SeedRun
    from laboratory.lab.guard import MeasureGuard
    from laboratory.lab.play import RunSettings
    from laboratory.lab.questions.search import SearchResult
    from laboratory.lab.week import Week, WeekSource


def lab(
    *,
    week: Annotated[
        Path | None,
        typer.Argument(help="Jobs: CSV (.gz too) or Standard Workload Format", metavar="WEEK"),
    ] = None,
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
        str | None,
        typer.Option(
            "--seeds",
            metavar="N,...",
            help="Seeds; each delays the messages anew [default: 1,2,3, or the paper's]",
        ),
    ] = None,
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
    search: Annotated[
        str | None,
        typer.Option(
            "--search",
            metavar="PLUGIN.ARGUMENT=LOW..HIGH",
            help="Choose the value of an argument (binpack.weight=1..10) on the first half of the "
            "jobs, and compare it with the policy as it is on the others",
        ),
    ] = None,
    search_by: Annotated[
        str, typer.Option("--search-by", metavar="VALUE", help="The value that --search improves")
    ] = "jct.mean",
    fewest_nodes: Annotated[
        bool,
        typer.Option(
            "--fewest-nodes",
            help="Find the fewest equal nodes that keep every --guard, by bisection from --nodes",
        ),
    ] = False,
    again: Annotated[
        Path | None,
        typer.Option(
            "--again",
            metavar="SUMMARY",
            help="Repeat the run of a summary.json to the digit; of the other options --guard, "
            "--out, --receipts, --forecast, --processes and --output count",
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
    forecast: Annotated[
        bool,
        typer.Option(
            "--forecast",
            help="Also compare the estimates of the wait that quadrant explain would have shown "
            "with what happened; with --out also in forecasts.csv",
        ),
    ] = False,
    paper: Annotated[
        str | None,
        typer.Option(
            "--paper",
            metavar="NAME",
            help="In place of a week: measure a published table again (fgd, kueue); --data, "
            "--seeds, --processes and --output count",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FOLDER",
            help="Folder with the traces of papers, one folder each [default: ../shared/data]",
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", min=0, help="Runs side by side; 0 is one per processor")
    ] = 0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Play a recorded week under policies, on virtual time, and compare

    Plays all jobs of a file as they arrived (or --backlog, all at once) through the service's own
    coordinator, workers and ledger, under every --policy with every number of --shards and every
    seed. A row of the file is a job: one pod with its GPUs on one node, several (pods=COLUMN), or
    pods of whole nodes if it has more GPUs than a node. Known by their header: Philly, openb,
    Muri, Helios, Acme, PAI, and sacct -P of Slurm. docs/laboratory.md defines the measures.

      quadrant lab week.csv --policy now.yaml --policy new.yaml --out r.html

      quadrant lab week.csv --columns 'submit=ts ms,duration=end-start'

      quadrant lab week.csv --policy now.yaml --search binpack.weight=1..10

      quadrant lab week.csv --guard 'wait.p99 <= 3600' --fewest-nodes

      quadrant lab week.csv --again summary.json

      quadrant lab --paper fgd
    """
    workers = processes or os.cpu_count() or 1
    if paper is not None or week is None:
        _paper(paper, week, data=data, seeds=seeds, processes=workers, output=output)
        return
    from laboratory.lab.guard import MeasureGuard, check_guards
    from laboratory.lab.play import RunSettings
    from laboratory.lab.week import WeekError, dropped_text
    from shared.codec.packed import replace

    if out is not None:
        _check_out(out, week)
    elif receipts:
        raise CommandError("--receipts is written beside the report; add --out", code=EXIT_USAGE)
    if fewest_nodes and forecast:
        raise CommandError(
            "--forecast: does not go with --fewest-nodes; leave one out", code=EXIT_USAGE
        )
    if search is not None or fewest_nodes:
        _check_question(search, fewest_nodes=fewest_nodes, again=again, cluster=cluster, out=out)
    found = None
    with as_command_errors(WeekError):
        guards = [MeasureGuard.parse(text) for text in guard or ()]
        if again is not None:
            experiment, read = _repeated(again, week)
        else:
            experiment, read = _experiment(
                week,
                _source(columns, separator, null, jobs),
                _cluster(cluster, nodes, gpus_per_node, cores_per_node),
                policy or (),
                shards=numbers_of(shards, "--shards", MOST_SHARDS),
                seeds=numbers_of(seeds or "1,2,3", "--seeds", 2**31),
                settings=RunSettings(mode=mode.value, speedup=speedup, backlog=backlog),
                allow_dropped=allow_dropped,
            )
        settings = replace(experiment.settings, receipts=receipts, forecast=forecast)
        experiment = replace(experiment, settings=settings)
        if fewest_nodes:
            from laboratory.cli.lab.lab_questions import answer_fewest_nodes

            answer_fewest_nodes(experiment, read, guard or (), processes=workers, output=output)
            return
        check_guards(guards, experiment.week, 2 if search else len(experiment.variants))
        if lost := dropped_text(experiment.week.dropped):
            sys.stderr.write(f"{week}: left out {lost}, of {experiment.week.rows:,} rows\n")
        if search is not None:
            found = _search(experiment, read, search, by=search_by, processes=workers)
            experiment, runs = found.held_out, found.runs
        else:
            runs = _play(experiment, workers)
    _tell(experiment, runs, found, guards, out=out, output=output)


def _repeated(again: Path, file: Path) -> tuple[Experiment, Week]:
    from laboratory.lab.files import repeat

    experiment = repeat(again, file)
    return experiment, experiment.week


def _experiment(
    file: Path,
    source: WeekSource,
    cluster: Cluster,
    policies: Sequence[Path],
    *,
    shards: tuple[int, ...],
    seeds: tuple[int, ...],
    settings: RunSettings,
    allow_dropped: bool,
) -> tuple[Experiment, Week]:
    """The experiment, and the week as it was read. Raises :class:`WeekError`."""
    from laboratory.lab.experiment import Experiment
    from laboratory.lab.play import fitted
    from laboratory.lab.policies import NamedPolicy

    read = source.read(file)
    chosen = tuple(map(NamedPolicy.read, policies)) or (NamedPolicy(),)
    fit = fitted(read, cluster, *(policy.parse() for policy in chosen))
    if not allow_dropped:
        fit.check_dropped()
    return Experiment(fit, source, cluster, chosen, shards, seeds, settings), read


def _tell(
    experiment: Experiment,
    runs: list[SeedRun],
    found: SearchResult | None,
    guards: Sequence[MeasureGuard],
    *,
    out: Path | None,
    output: Output,
) -> None:
    """Write and print the comparison. Raises CommandError if a guard is broken."""
    from laboratory.lab.comparison import compare
    from laboratory.lab.files import summary
    from laboratory.lab.guard import broken_guards

    compared = compare(experiment, runs)
    body = summary(experiment, runs, compared)
    if found is not None:
        body["search"] = found.as_json()
    if out is not None:
        _write(out, body, experiment, runs)
    match output:
        case Output.JSON:
            sys.stdout.write(json.dumps(body, separators=(",", ":")) + "\n")
        case Output.TABLE:
            from laboratory.cli.lab.lab_questions import print_search
            from laboratory.cli.lab.lab_table import print_forecasts, print_table

            if found is not None:
                print_search(found)
            print_table(experiment, compared)
            print_forecasts(body.get("forecast", ()))
    if broken := broken_guards(guards, compared):
        raise CommandError("\n".join(f"guard broken: {line}" for line in broken))


def _paper(
    name: str | None,
    week: Path | None,
    *,
    data: Path | None,
    seeds: str | None,
    processes: int,
    output: Output,
) -> None:
    from laboratory.cli.lab.paper import print_paper

    if name is None:
        raise CommandError("there is no WEEK; name a file of jobs, or a --paper", code=EXIT_USAGE)
    if week is not None:
        raise CommandError("--paper has its own data; leave WEEK out", code=EXIT_USAGE)
    chosen = None if seeds is None else numbers_of(seeds, "--seeds", 2**31)
    print_paper(name, data, chosen, processes, output)


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


def _beside(out: Path) -> list[Path]:
    names = ("jobs.csv", "summary.json", "receipts.jsonl", "forecasts.csv")
    return [out, *map(out.with_name, names)]


def _check_question(
    search: str | None,
    *,
    fewest_nodes: bool,
    again: Path | None,
    cluster: Path | None,
    out: Path | None,
) -> None:
    """Refuse options that do not go together."""
    option = "--search" if search is not None else "--fewest-nodes"
    if again is not None or (search is not None and fewest_nodes):
        other = "--again" if again is not None else "--fewest-nodes"
        raise CommandError(f"{option}: does not go with {other}; leave one out", code=EXIT_USAGE)
    if fewest_nodes and (cluster is not None or out is not None):
        other = "--cluster" if cluster is not None else "--out"
        remedy = "give the shape of a node by --gpus-per-node and --cores-per-node"
        if cluster is None:
            remedy = "write the report of the number found with --nodes"
        raise CommandError(f"--fewest-nodes: does not go with {other}; {remedy}", code=EXIT_USAGE)


def _search(
    experiment: Experiment, week: Week, argument: str, *, by: str, processes: int
) -> SearchResult:
    from laboratory.cli.lab.lab_questions import check_search
    from laboratory.lab.questions.search import search

    check_search(experiment)
    settings = experiment.settings
    with _bar(1) as progress:
        return search(
            week,
            experiment.cluster,
            argument,
            policy=experiment.policies[0],
            measure=by,
            seeds=experiment.seeds,
            shards=experiment.shards[0],
            source=experiment.source,
            processes=processes,
            progress=progress,
            mode=settings.mode,
            speedup=settings.speedup,
            backlog=settings.backlog,
            receipts=settings.receipts,
            forecast=settings.forecast,
        )


def _play(experiment: Experiment, processes: int) -> list[SeedRun]:
    from laboratory.lab.experiment import play_all

    with _bar(len(experiment.variants) * len(experiment.seeds)) as progress:
        return play_all(experiment, processes=processes, progress=progress)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[float], None]]:
    """A bar where somebody looks; yields what sets how much of ``total`` is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = ("Playing", BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task("Playing", total=total)
        yield lambda count: progress.update(bar, completed=count)


def _write(out: Path, body: dict[str, Any], experiment: Experiment, runs: list[SeedRun]) -> None:
    from laboratory.lab.files import write_forecasts, write_jobs, write_receipts, write_summary
    from laboratory.lab.report import report

    page, table, record, receipts, forecasts = _beside(out)
    more = []
    try:
        page.write_text(report(body))
        write_jobs(table, runs)
        write_summary(record, body)
        if experiment.settings.receipts:
            write_receipts(receipts, runs)
            more.append(receipts)
        if experiment.settings.forecast:
            write_forecasts(forecasts, runs)
            more.append(forecasts)
    except OSError as error:
        raise CommandError(f"{error.filename}: cannot be written: {error.strerror}") from None
    sys.stderr.write(f"Wrote {', '.join(map(str, (page, table, *more)))} and {record}\n")
