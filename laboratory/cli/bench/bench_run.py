"""The run of ``quadrant bench``: start, load the cluster, measure each load, stop, check, tell."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import typer
from rich.console import Console

from coordinator.cli.options.failure import EXIT_ERROR, EXIT_USAGE, CommandError
from coordinator.cli.options.options import ModeChoice
from coordinator.cli.output.progress import RunProgress
from coordinator.supervisor import cpu_time
from laboratory.checker.check import check
from laboratory.cli.bench.bench_options import BenchOptions, BenchOutput
from laboratory.cli.bench.bench_result import (
    BenchMeasurement,
    Cpu,
    LoadMeasurement,
    bench_result,
    show_bench,
)
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
from laboratory.workloads.generators import GPU
from laboratory.workloads.shapes import POOR, SHAPES, BenchShape, Load, Size, two_queues
from shared.policy.dialect import parse_policy
from shared.policy.model import Dialect, Policy
from shared.policy.volcano import DEFAULT_POLICY
from shared.settings.settings import Settings

IN_FLIGHT = 4
"""Lists on their way at a time."""
SETTLED_SECONDS = 10.0
"""Before idleness is measured: what came of the last start is still written."""
QUEUES = {
    Dialect.VOLCANO: "/apis/scheduling.volcano.sh/v1beta1/queues",
    Dialect.KAI: "/apis/scheduling.run.ai/v2/queues",
}


def run_bench(options: BenchOptions) -> int:
    """Returns the exit code. Raises :class:`CommandError`."""
    if options.output is BenchOutput.HTML:
        raise CommandError("-o html: it is for scale; use table or json", code=EXIT_USAGE)
    bench = bench_of(options, options.size.value, shards=options.shards, mode=options.mode)
    console = Console(stderr=True, highlight=False)
    with bench_workspace(bench, history=options.history) as space:
        return run_to_exit_code(lambda: _run(bench, space, options.output, console))


def bench_of(options: BenchOptions, name: str, *, shards: int, mode: ModeChoice) -> Bench:
    """One run of a shape. Raises CommandError where it has no such size."""
    shape = SHAPES[name]
    return Bench(name, shape, size_of(options, shape, name), shards, mode, options)


@contextlib.contextmanager
def bench_workspace(bench: Bench, *, history: Path | None) -> Iterator[Workspace]:
    """The settings of a run. Raises CommandError."""
    options, shape = bench.options, bench.shape
    with workspace(
        history=history,
        shards=bench.shards,
        mode=bench.mode.value,
        seed=options.seed,
        policy=None if options.policy is None else options.policy.absolute(),
    ) as space:
        if options.policy is None and shape.policy is not None:
            space.settings = _with_policy(space.settings, shape.policy)
        yield space


def size_of(options: BenchOptions, shape: BenchShape, name: str) -> Size:
    """Raises CommandError where the shape has no such size."""
    nodes = options.other_nodes or shape.size.nodes
    size = Size(nodes, options.other_pods or shape.size.pods)
    if shape.most is None:
        if options.other_pods is not None:
            raise CommandError(f"--pods: of {name} they follow from the nodes; give --nodes alone")
        if any(load.tasks(size) < 1 and not load.seconds for load in shape.loads):
            raise CommandError(f"--nodes: none of {name}'s jobs fits on {nodes:,}; give more")
    elif size.pods > (most := shape.most(size)):
        raise CommandError(
            f"--pods: {nodes:,} nodes have room for {most:,}, not for {size.pods:,}; give fewer, "
            "or more --nodes"
        )
    return size


def _with_policy(settings: Settings, text: str) -> Settings:
    file = Path(settings.run_dir) / "bench.yaml"
    file.write_text(text)
    return settings.replace(policy=file)


def in_force(settings: Settings) -> Policy:
    content = settings.read_policy()
    return DEFAULT_POLICY if content is None else parse_policy(content)


def policy_of(settings: Settings) -> dict[str, Any]:
    """The policy that a run is under, as its result tells it: figures under another one cannot be
    compared with these. Raises SettingsError for a file that cannot be used."""
    content = settings.read_policy()
    policy = in_force(settings)
    return {
        "file": None if content is None else str(settings.policy),
        "actions": list(policy.actions),
        "plugins": [option.name for tier in policy.tiers for option in tier],
    }


@dataclass(frozen=True, slots=True)
class Bench:
    """One run of a shape."""

    name: str
    shape: BenchShape
    size: Size
    shards: int
    mode: ModeChoice
    options: BenchOptions


async def _run(bench: Bench, space: Workspace, output: BenchOutput, console: Console) -> int:
    with RunProgress(console) as progress:
        values = await measure(bench, space, progress)
    if output is BenchOutput.TABLE:
        show_bench(values)
    tell_faults(values["faults"], space, console)
    if output is BenchOutput.JSON:
        typer.echo(orjson.dumps(values).decode())
    return EXIT_ERROR if values["faults"] else 0


async def measure(bench: Bench, space: Workspace, progress: RunProgress) -> dict[str, Any]:
    """Start everything, place the loads, stop, and check: the values of ``-o json``."""
    sent: dict[str, float] = {}
    policy, dialect = policy_of(space.settings), in_force(space.settings).dialect
    if bench.options.policy is None:
        policy["file"] = None  # the default, or the shape's own
    async with running(space, progress) as api:
        run = _BenchRun(bench, dialect, Sender(api, sent), space, progress)
        await _prepare(run)
        loads = [await _measure(run, load) for load in bench.shape.loads]
    progress.phase("Checking the history")
    report = await asyncio.to_thread(check, space.history)
    figures = await asyncio.to_thread(read_figures, space.history)
    measured = BenchMeasurement(bench.shape, bench.size, dialect, loads, figures, sent)
    head = {"bench": bench.name, "nodes": bench.size.nodes, "shards": bench.shards}
    return head | bench_result(measured, report) | {"policy": policy}


@dataclass(frozen=True, slots=True)
class _BenchRun:
    """A bench while its processes live."""

    bench: Bench
    dialect: Dialect
    sender: Sender
    space: Workspace
    progress: RunProgress


async def _prepare(run: _BenchRun) -> None:
    """Load the cluster, and wait until what is there before runs."""
    shape, size, sender = run.bench.shape, run.bench.size, run.sender
    before = shape.running(size)
    run.progress.phase(f"Loading {size.nodes:,} nodes and {before:,} running tasks (not counted)")
    await sender.send(shape.cluster(size, run.dialect), in_flight=IN_FLIGHT)
    await until_nodes_are_shared_out(sender.api, nodes=size.nodes)
    await sender.send(shape.before(size), in_flight=IN_FLIGHT)
    await _until(sender, _runs(before))
    if shape.grows:
        await sender.send(two_queues(size, run.dialect), in_flight=IN_FLIGHT)


async def _measure(run: _BenchRun, load: Load) -> LoadMeasurement:
    if load.seconds:
        run.progress.phase("Letting it settle")
        await asyncio.sleep(SETTLED_SECONDS)
        run.progress.phase(f"Measuring {load.seconds:g} s in which {load.name}")
        return LoadMeasurement(await _cpu_of(asyncio.sleep(load.seconds), run.space))
    run.progress.phase(f"Measuring {load.tasks(run.bench.size):,} tasks: {load.name}")
    before = await run.sender.api.status()
    cpu = await _cpu_of(_place(run, load), run.space)
    after = await run.sender.api.status()
    statements, levels = (
        {name: count - before[kind].get(name, 0) for name, count in after[kind].items()}
        for kind in ("statements", "levels")
    )
    return LoadMeasurement(cpu, statements, levels)


async def _place(run: _BenchRun, load: Load) -> None:
    bench, sender = run.bench, run.sender
    size, status = bench.size, await sender.api.status()
    placed = load.tasks(size)
    if load.gpus:
        after = bench.shape.running(size) + placed - load.displaced(size)
        path = f"{QUEUES[run.dialect]}/{POOR}"
        reached = _holds(sender, path, placed * load.gpus, _runs(after))
    else:
        reached = _is_bound(status["tasks"]["bound"] + placed)
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.send(load.jobs(size), in_flight=IN_FLIGHT))
        await _until(sender, reached)


# --- while it runs --------------------------------------------------------------------------------

Reached = Callable[[Status], Awaitable[bool]]


def _runs(tasks: int) -> Reached:
    async def reached(status: Status) -> bool:
        return bool(status["tasks"]["running"] >= tasks)

    return reached


def _is_bound(tasks: int) -> Reached:
    async def reached(status: Status) -> bool:
        return bool(status["tasks"]["bound"] >= tasks)

    return reached


def _holds(sender: Sender, path: str, gpus: int, runs: Reached) -> Reached:
    """The queue has its GPUs, and the tasks that moved for it run again."""

    async def reached(status: Status) -> bool:
        queue = await sender.api.get(path)
        held = float(queue.get("status", {}).get("allocated", {}).get(GPU, 0))
        return held >= gpus and await runs(status)

    return reached


async def _until(sender: Sender, reached: Reached) -> None:
    """Wait for it. Raises :class:`CommandError` where nothing moves any more."""
    stall = Stall(longest=0.0)
    async for status in poll(sender.api):
        if await reached(status):
            return
        if stall.seconds(status, time.monotonic()) > STALL_SECONDS:
            raise CommandError(
                f"nothing has moved for {STALL_SECONDS:g} s; waiting for: "
                f"{status.get('pending_reasons')}"
            )


async def _cpu_of(work: Awaitable[object], space: Workspace) -> Cpu:
    """CPU of all processes while this is done."""
    before = _cpu_by_role(space)
    await work
    after = _cpu_by_role(space)
    return {role: after[role] - before.get(role, 0.0) for role in after}


def _cpu_by_role(space: Workspace) -> Cpu:
    roots = {os.getpid(): cpu_time.LOAD}
    if space.supervisor is not None:
        roots |= {pid: role for role, pid in space.supervisor.pids().items()}
        roots |= dict.fromkeys(space.supervisor.worker_pids(), cpu_time.WORKERS)
    return cpu_time.by_role(cpu_time.processes(), roots)
