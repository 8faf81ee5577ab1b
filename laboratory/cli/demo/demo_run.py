"""The run of ``quadrant demo``: start, submit, watch, stop, check, tell."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import orjson
import typer
from rich.console import Console

from coordinator.cli.options.failure import EXIT_ERROR, as_command_errors
from coordinator.cli.options.options import Output
from coordinator.cli.output.progress import Rate, RunProgress, moment_of
from coordinator.cli.output.terminal import hint_to_path
from laboratory.checker.check import check
from laboratory.cli.demo.demo_options import DemoOptions
from laboratory.cli.demo.run_summary import Result, faults, result, result_table
from laboratory.cli.stack import (
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
from laboratory.history.figures import read_figures
from laboratory.history.utilisation import Busy
from laboratory.lab.trace import read_trace
from laboratory.lab.week import WeekError
from laboratory.workloads.bulk_client import BulkClient
from laboratory.workloads.generators import (
    CPU,
    GPU,
    ClusterShape,
    job_items,
    node_items,
    queue_items,
    seeded_workload,
)
from laboratory.workloads.trace import Trace

DEFAULT_JOBS = 2000
HOPELESS_SECONDS = 5.0
"""After this long without change the run ends, if only jobs wider than the cluster are left."""

ARRIVAL_STEP = 0.01
"""Seconds: arrivals closer than this share a List."""


@dataclass(slots=True)
class DemoRun:
    """The state of a run while it goes on."""

    options: DemoOptions
    trace: Trace
    shape: ClusterShape
    hopeless: int
    """Jobs wider than the whole cluster."""
    sent: dict[str, float] = field(default_factory=dict)
    status: Status = field(default_factory=dict)
    submitted: bool = False
    stalled: bool = False


def run_demo(options: DemoOptions) -> int:
    """Returns the exit code. Raises :class:`CommandError` for what the user can mend."""
    console = Console(stderr=True, highlight=False)
    trace = load_trace(options)
    shape = ClusterShape(options.nodes, options.units, CPU if options.cpus else GPU)
    hopeless = int((trace.width > shape.capacity).sum())
    run = DemoRun(options, trace, shape, hopeless)
    with workspace(
        history=options.history,
        shards=options.shards,
        mode=options.mode.value,
        seed=options.seed,
        speedup=options.speedup,
        grace=options.grace,
    ) as space:
        return run_to_exit_code(lambda: _run(run, space, console))


def load_trace(options: DemoOptions) -> Trace:
    """The jobs to run. Raises :class:`CommandError`."""
    if options.trace is None:
        capacity = options.nodes * options.units
        jobs = options.jobs or DEFAULT_JOBS
        return seeded_workload(jobs=jobs, seed=options.seed, capacity=capacity)
    with as_command_errors(WeekError):
        return read_trace(options.trace, columns=options.columns, limit=options.jobs)


async def _run(run: DemoRun, space: Workspace, console: Console) -> int:
    word = "CPUs" if run.options.cpus else "GPUs"
    with RunProgress(console, unit=word) as progress:
        _announce(run, progress, word)
        await _drive(run, space, progress)
        progress.phase("Checking the history")
        report = await asyncio.to_thread(check, space.history, closed=not run.stalled)
        figures = await asyncio.to_thread(read_figures, space.history)
    reasons = run.status.get("pending_reasons", {})
    values = result(report, figures, sent=run.sent, reasons=reasons)
    _tell(run, console, values, figures.busy(run.sent, capacity=run.shape.capacity))
    complaints = faults(values, report, jobs=run.trace.jobs)
    _advise(run, space, console, complaints)
    if run.options.output is Output.JSON:
        typer.echo(orjson.dumps(values).decode())
    return EXIT_ERROR if complaints else 0


def _announce(run: DemoRun, progress: RunProgress, word: str) -> None:
    trace, shape = run.trace, run.shape
    progress.phase(
        f"{trace.jobs:,} jobs of {trace.tasks:,} tasks in all, in {len(trace.queues)} queues"
    )
    progress.phase(
        f"{shape.nodes:,} nodes with {shape.units} {word} each, "
        f"in {run.options.shards} shards, mode {run.options.mode.value}"
    )
    for reason, count in trace.unusable.items():
        progress.warn(f"{count:,} rows of the trace were left out: {reason}")
    if run.hopeless:
        progress.warn(
            f"{run.hopeless:,} jobs are wider than the {shape.capacity:,} {word} there are and "
            f"can never run; give more --nodes"
        )


async def _drive(run: DemoRun, space: Workspace, progress: RunProgress) -> None:
    """Everything that happens while the processes live."""
    async with running(space, progress) as api:
        sender = Sender(api, run.sent)
        progress.phase(f"Loading {run.shape.nodes:,} nodes")
        await sender.send(node_items(run.shape))
        await sender.send(queue_items(run.trace))
        await until_nodes_are_shared_out(api, nodes=run.shape.nodes)
        progress.phase("Submitting the jobs" + ("" if run.options.backlog else " as they come"))
        async with asyncio.TaskGroup() as group:
            submitting = group.create_task(_submit(run, sender))
            await _watch(run, api, progress)
            submitting.cancel()


async def _submit(run: DemoRun, sender: Sender) -> None:
    items = list(job_items(run.trace, resource=run.shape.resource))
    if run.options.backlog:
        await sender.send(items)
    else:
        arrivals = (run.trace.submit / run.options.speedup).tolist()
        start = time.monotonic()
        sent = 0
        while sent < len(items):
            now = time.monotonic() - start
            due = sent
            while due < len(items) and arrivals[due] <= now:
                due += 1
            await sender.send(items[sent:due])
            sent = due
            if sent < len(items):
                wait = arrivals[sent] - (time.monotonic() - start)
                await asyncio.sleep(max(wait, ARRIVAL_STEP))
    run.submitted = True


async def _watch(run: DemoRun, api: BulkClient, progress: RunProgress) -> None:
    """Show the state until every job is finished, or nothing moves any more."""
    rate = Rate()
    stall = Stall(longest=float(run.trace.duration.max()) / run.options.speedup)
    async for status in poll(api):
        now = time.monotonic()
        run.status = status
        bound = status.get("tasks", {}).get("bound", 0)
        moment = moment_of(
            status,
            seconds=progress.seconds,
            expected=run.trace.jobs,
            capacity=run.shape.capacity,
            rate=rate.add(now, bound),
        )
        progress.show(moment)
        if moment.finished >= run.trace.jobs:
            return
        remaining = run.trace.jobs - moment.finished
        limit = HOPELESS_SECONDS if remaining <= run.hopeless else STALL_SECONDS
        if run.submitted and stall.seconds(status, now) > limit:
            run.stalled = True
            return


def _tell(run: DemoRun, console: Console, values: Result, busy: Busy) -> None:
    word = "CPUs" if run.options.cpus else "GPUs"
    if run.options.output is Output.TABLE:
        Console().print(result_table(values, word=word, busy=busy))
        return
    seconds = f"{busy.seconds:,.1f} s"
    console.print(f"{word} {busy.share:.1%} busy for the {seconds} until the last bind")


def _advise(run: DemoRun, space: Workspace, console: Console, complaints: list[str]) -> None:
    """Print the next steps: after a fault where to look, otherwise what else there is to see."""
    tell_faults(complaints, space, console)
    if run.stalled:
        counts = run.status.get("pending_reasons", {}).items()
        reasons = ", ".join(f"{why} ({count:,})" for why, count in counts)
        console.print(
            f"Nothing moved any more while jobs waited: {reasons or 'no reason is known'}",
            markup=False,
        )
    if run.options.output is Output.TABLE:
        where = f" ({hint})" if (hint := hint_to_path()) else ""
        console.print(f"\nTry next{where}:", style="bold", markup=False)
        for command, why in _next_steps(run):
            console.print(f"  {command:<39} {why}", markup=False, soft_wrap=True)


def _next_steps(run: DemoRun) -> list[tuple[str, str]]:
    if run.options.history:
        history = (f"quadrant chaos check {run.options.history}", "check the history again")
    else:
        history = ("quadrant demo --history h.jsonl", "keep the history to look into it")
    return [
        ("quadrant up", "one that goes on, with page and API"),
        ("quadrant demo --backlog --mode hard", "what walls between the shards cost"),
        ("quadrant demo --backlog --shards 1", "one worker: nothing in parallel"),
        ("quadrant demo --trace jobs.swf", "a trace of your own; CSV too: demo -h"),
        history,
        ("quadrant bench basic", "tasks per second, and what each costs"),
    ]
