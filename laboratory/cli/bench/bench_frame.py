"""What every benchmark does around its own load: start, drive, stop, check the history, tell."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson
import typer
from rich.console import Console
from rich.table import Table

from coordinator.cli.options.failure import EXIT_ERROR, CommandError
from coordinator.cli.options.options import Output
from coordinator.cli.output.progress import RunProgress
from coordinator.supervisor import cpu_time
from laboratory.checker.check import check
from laboratory.checker.report.report import CheckReport
from laboratory.cli.bench.bench_options import BenchOptions
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
    workspace,
)
from laboratory.history.figures import Figures, read_figures
from shared.policy.dialect import parse_policy
from shared.policy.model import Policy
from shared.policy.volcano import DEFAULT_POLICY
from shared.settings.settings import Settings

IN_FLIGHT = 4
"""Lists on their way at a time."""

Cpu = dict[str, float]
"""CPU seconds by role."""

M = TypeVar("M")
"""What a benchmark measures while the processes live."""


@dataclass(frozen=True, slots=True)
class Bench(Generic[M]):
    """One benchmark. ``policy``: the text of the one that it runs under unless the user names one;
    None: the service's default."""

    drive: Callable[[BenchOptions, Sender, Workspace, RunProgress], Awaitable[M]]
    result: Callable[[BenchOptions, M, Figures, CheckReport, dict[str, float]], dict[str, Any]]
    """The last one: when each object was sent. Returns what ``-o json`` prints, with ``faults``."""
    show: Callable[[dict[str, Any]], None]
    policy: str | None = None


def run_framed(bench: Bench[M], options: BenchOptions) -> int:
    """Returns the exit code. Raises :class:`CommandError`."""
    console = Console(stderr=True, highlight=False)
    with workspace(
        history=options.history,
        shards=options.shards,
        mode=options.mode.value,
        seed=options.seed,
        policy=None if options.policy is None else options.policy.absolute(),
    ) as space:
        own = options.policy is None and bench.policy is not None
        if own:
            space.settings = _with_policy(space.settings, bench.policy or "")
        policy = policy_of(space.settings) | ({"file": None} if own else {})
        return run_to_exit_code(lambda: _run(bench, options, space, policy, console))


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


async def _run(
    bench: Bench[M],
    options: BenchOptions,
    space: Workspace,
    policy: dict[str, Any],
    console: Console,
) -> int:
    sent: dict[str, float] = {}
    with RunProgress(console) as progress:
        async with running(space, progress) as api:
            measured = await bench.drive(options, Sender(api, sent), space, progress)
        progress.phase("Checking the history")
        report = await asyncio.to_thread(check, space.history)
        figures = await asyncio.to_thread(read_figures, space.history)
    values = bench.result(options, measured, figures, report, sent) | {"policy": policy}
    if options.output is Output.TABLE:
        bench.show(values)
    tell_faults(values["faults"], space, console)
    if options.output is Output.JSON:
        typer.echo(orjson.dumps(values).decode())
    return EXIT_ERROR if values["faults"] else 0


def show_policy(values: dict[str, Any], *, unnamed: str) -> None:
    policy = values["policy"]
    typer.echo(f"Policy: {policy['file'] or unnamed} ({', '.join(policy['actions'])})")


def table_of_figures(title: str) -> Table:
    """Rows of a name, a figure and a remark."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, show_header=False)
    table.add_column("", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("", style="dim")
    return table


def add_cpu(table: Table, seconds: Cpu) -> None:
    """A section of what each role took."""
    table.add_section()
    for role, used in seconds.items():
        table.add_row(f"CPU, {role}", f"{used:,.2f} s", "")


def goal_text(goal: float | None) -> str:
    """``goal``: seconds; None where this size has none."""
    return "none" if goal is None else f"{goal:.3g} s"


def tell_missed(seconds: float, goal: float | None) -> None:
    if goal is not None and seconds > goal:
        typer.echo(f"The goal of {goal:.3g} s was missed by {seconds - goal:.2f} s")


# --- while it runs --------------------------------------------------------------------------------


async def until(sender: Sender, reached: Callable[[Status], Awaitable[bool]]) -> None:
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


async def cpu_of(work: Awaitable[object], space: Workspace) -> Cpu:
    """What all processes take while this is done."""
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
