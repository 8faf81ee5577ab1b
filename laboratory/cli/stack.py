"""Everything a run needs around it: the processes, the objects to load, waiting for the end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from coordinator.cli.options.failure import CommandError
from coordinator.cli.options.policy_file import check_policy
from coordinator.cli.output.progress import RunProgress
from coordinator.cli.run import exit_code
from coordinator.supervisor.supervisor import Supervisor
from laboratory.chaos.report import RunFailed
from laboratory.checker.report.report import HistoryError
from laboratory.own_directory import create_own_directory, delete_own, own_settings
from laboratory.workloads.bulk_client import BulkClient, BulkError, Submitted, describe
from laboratory.workloads.generators import Item, lists
from shared.settings.settings import Settings, SettingsError

POLL_SECONDS = 0.2
"""Time between two looks at the status; longer where answering takes the coordinator long."""

STALL_SECONDS = 120.0
"""This long without any change, with nothing running that could end, is the end of a run."""

READY_SECONDS = 60.0
"""How long the shards may take to come up and to be given the nodes."""

Status = dict[str, Any]


@dataclass(slots=True)
class Sender:
    """Sends objects as Lists and remembers when each was sent."""

    api: BulkClient
    sent: dict[str, float] = field(default_factory=dict)
    """namespace/name -> seconds since 1970, of objects that have a namespace."""

    async def send(self, items: Iterable[Item], *, in_flight: int = 1) -> int:
        """Send everything, ``in_flight`` Lists at a time, in order where that is 1.

        Returns how many objects were accepted. Raises :class:`CommandError` at the first refusal.
        """
        bodies = lists(iter(items))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._drain(bodies)) for _ in range(in_flight)]
        return sum(task.result() for task in tasks)

    async def _drain(self, bodies: Iterator[Item]) -> int:
        accepted = 0
        for body in bodies:
            data = orjson.dumps(body)
            self._note(body["items"])
            accepted += _accepted(await self.api.submit(data))
        return accepted

    def _note(self, items: list[Item]) -> None:
        now = time.time()
        for item in items:
            metadata = item["metadata"]
            if "namespace" in metadata:
                self.sent[f"{metadata['namespace']}/{metadata['name']}"] = now


def _accepted(reply: Submitted) -> int:
    if reply.refused:
        first = describe(reply.refused[0])
        raise CommandError(f"{len(reply.refused)} objects were refused; the first: {first}")
    return reply.accepted


@dataclass(slots=True)
class Workspace:
    """A private run directory, so that a run starts from nothing and leaves nothing."""

    settings: Settings
    supervisor: Supervisor | None = None
    """While the processes live, and then as it was left."""
    keep: bool = False
    """Set where the logs or the history are still of use after the run."""

    @property
    def history(self) -> Path:
        return self.settings.history


@contextlib.asynccontextmanager
async def running(space: Workspace, progress: RunProgress) -> AsyncIterator[BulkClient]:
    """All processes, and a client of the coordinator; stops everything at the end.

    If a process dies meanwhile, the body is cancelled and ChildDied is raised.
    """
    async with Supervisor(space.settings, on_phase=lambda text: _phase(progress, text)) as parts:
        space.supervisor = parts
        try:
            async with asyncio.TaskGroup() as group, BulkClient(parts.url) as api:
                watching = group.create_task(parts.wait())
                yield api
                watching.cancel()
        finally:
            progress.phase("Stopping all processes")


def _phase(progress: RunProgress, text: str) -> None:
    progress.phase(text[:1].upper() + text[1:])


async def until_nodes_are_shared_out(api: BulkClient, *, nodes: int) -> None:
    """Wait until every shard has a live worker and every node belongs to a shard."""
    give_up = time.monotonic() + READY_SECONDS
    while True:
        shards = (await api.status()).get("shards", [])
        up = sum(bool(shard.get("up")) for shard in shards)
        owned = sum(int(shard.get("nodes", 0)) for shard in shards)
        if shards and up == len(shards) and owned >= nodes:
            return
        if time.monotonic() > give_up:
            raise CommandError(
                f"after {READY_SECONDS:g} s {up} of {len(shards)} shards are up "
                f"and own {owned:,} of {nodes:,} nodes"
            )
        await asyncio.sleep(0.1)


async def poll(api: BulkClient) -> AsyncIterator[Status]:
    """The status again and again, at most a tenth of the coordinator's time being spent on it."""
    while True:
        began = time.monotonic()
        status = await api.status()
        took = time.monotonic() - began
        yield status
        await asyncio.sleep(max(POLL_SECONDS, 9 * took) - took)


def tell_faults(faults: list[str], space: Workspace, console: Console) -> None:
    """Say what was wrong with a run, and keep its history."""
    for fault in faults:
        console.print(f"Fault: {fault}", style="red", markup=False)
    if faults:
        space.keep = True
        console.print(f"The history is kept: {space.history}", markup=False)


@dataclass(slots=True)
class Stall:
    """Notices that nothing moves any more. ``longest``: seconds a task may run at most."""

    longest: float
    _last: tuple[int, ...] = ()
    _since: float = 0.0

    def seconds(self, status: Status, now: float) -> float:
        """How long nothing has moved that could have; below 0 while tasks may still be running."""
        jobs, tasks = status.get("jobs", {}), status.get("tasks", {})
        state = (
            jobs.get("submitted", 0),
            jobs.get("finished", 0),
            tasks.get("bound", 0),
            tasks.get("running", 0),
            tasks.get("finished", 0),
        )
        if state != self._last:
            self._last, self._since = state, now
        running = tasks.get("running", 0) > 0
        return now - self._since - (self.longest if running else 0.0)


def run_to_exit_code(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run until done or stopped; also what a run of the laboratory ends with is one sentence.

    Raises :class:`CommandError`.
    """
    return exit_code.run_to_exit_code(main, mistakes=(BulkError, HistoryError, RunFailed))


@contextlib.contextmanager
def workspace(*, history: Path | None, **flags: Any) -> Iterator[Workspace]:
    """Settings of a fresh run; ``history`` None keeps it only as long as the run directory.

    Raises :class:`CommandError` where a setting is wrong or the history file is there already. One
    that the run itself raises is told where the logs are, and they are kept.
    """
    if history is not None and history.exists() and history.stat().st_size:
        raise CommandError(f"--history: {history} exists; remove it or give another name")
    directory = create_own_directory()
    space: Workspace | None = None
    try:
        settings = own_settings(directory, history=history, **flags)
        check_policy(settings)
        space = Workspace(settings)
        yield space
    except SettingsError as error:
        raise CommandError(str(error)) from None
    except CommandError as error:
        assert space is not None
        space.keep = True
        raise CommandError(
            f"{error}\nLogs of all processes: {directory}", code=error.code
        ) from None
    finally:
        if space is None or not space.keep:
            delete_own(directory)
