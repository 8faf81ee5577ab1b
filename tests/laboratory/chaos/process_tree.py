"""A whole run whose processes are struck by name, and how long a pod waits meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from coordinator.supervisor.child_process import command_line, descendants, last_lines, send_signal
from coordinator.supervisor.restarts import Keeper
from coordinator.supervisor.supervisor import COORDINATORS, RAY, Supervisor
from laboratory.checker.check import check
from laboratory.workloads.bulk_client import BulkClient
from laboratory.workloads.generators import ClusterShape, node_items
from shared.settings.settings import load_settings
from tests.builders.objects import DURATION, a_list, container, pod

PLACED_SECONDS = 15.0
"""As docs/failures.md says of a lost Ray head."""
SLOW_MACHINE = 8.0
"""Factor of all times where others compete for the processors."""
STOPPED_SECONDS = 10.0
KILL, END, STOP = signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP

RAYLET, STORE, DASHBOARD = "the raylet", "the control store of Ray", "the dashboard of Ray"
AGENT, ENVIRONMENTS = "the agent of the raylet", "the agent of environments"
WORKER, OTHER_WORKER = "a worker", "the other worker"
_PROGRAMS = {
    STORE: "/gcs_server",
    RAYLET: "/raylet/raylet",
    AGENT: "ray::DashboardAgent",
    ENVIRONMENTS: "ray::RuntimeEnvAgent",
    DASHBOARD: "/dashboard/dashboard.py",
    WORKER: "ray::ShardActor",
}
"""Name -> part of the command line."""

Strike = tuple[str, signal.Signals]
"""(name of a process, signal to it)"""


class ProcessTree:
    """A run with two shards and a standby, looked after by its keeper."""

    def __init__(self, parts: Supervisor, messages: list[str], killed: list[int]) -> None:
        """``killed``: what was killed before the standby was up."""
        self.parts = parts
        self.killed = killed
        self.messages = messages
        self._number = 0

    def pids(self) -> dict[str, int]:
        """Name -> process, of all roles and of what runs below the Ray head."""
        pids = dict(self.parts.pids())
        below = {pid: command_line(pid) for pid in sorted(descendants(pids.get(RAY, 0)))}
        for name, part in _PROGRAMS.items():
            matching = [pid for pid, line in below.items() if part in line.split(" --")[0]]
            names = (name, OTHER_WORKER) if name == WORKER else (name,)
            pids |= dict(zip(names, matching, strict=False))
        return pids

    async def until_whole(self) -> dict[str, int]:
        """Wait until every process is there and answers."""
        deadline = time.monotonic() + PLACED_SECONDS * SLOW_MACHINE
        while not await self._is_whole():
            assert time.monotonic() < deadline, (self._missing(), self.messages)
            await asyncio.sleep(0.1)
        return self.pids()

    async def _is_whole(self) -> bool:
        return not self._missing() and all([await self.parts.answers(r) for r in COORDINATORS])

    def _missing(self) -> set[str]:
        """A dashboard that ended stays away."""
        names = {*self.parts.roles(), *_PROGRAMS, OTHER_WORKER} - {DASHBOARD}
        return names - self.pids().keys()

    async def strike(self, *strikes: Strike) -> float:
        """Send signals at the same moment, and have one pod after the other placed until every
        process is there again. Returns the seconds that a pod waited at most."""
        pids = await self.until_whole()
        longest = 0.0
        for name, number in strikes:
            send_signal(number, {pids[name]})
        async with asyncio.TaskGroup() as group:
            stopped = {pids[name] for name, number in strikes if number is STOP}
            resumed = group.create_task(_resume(stopped))
            while not (resumed.done() and await self._is_whole()):
                longest = max(longest, await self.until_placed())
        # What was placed last may have been placed before others ended with the struck process.
        return max(longest, await self.until_placed())

    async def until_placed(self) -> float:
        """Seconds until a pod that is sent now is placed."""
        began, self._number = time.monotonic(), self._number + 1
        name = f"after-{self._number}"
        while time.monotonic() < began + PLACED_SECONDS * SLOW_MACHINE:
            try:
                async with asyncio.timeout(5.0), BulkClient(await self._leader()) as api:
                    await api.submit(_list(_pod(name)))
                    status = await api.status()
                    if status["jobs"]["finished"] == status["jobs"]["submitted"]:
                        return time.monotonic() - began
            except Exception as error:  # there may be nobody who answers yet
                self.messages.append(repr(error))
            await asyncio.sleep(0.1)
        log = last_lines(self.parts.log(RAY))
        raise AssertionError(f"nothing is placed: {self.messages}; the Ray head says: {log}")

    async def _leader(self) -> str:
        role = await self.parts.leader()
        return self.parts.urls[1] if role == "standby" else self.parts.url


async def _resume(stopped: Iterable[int]) -> None:
    if stopped:
        await asyncio.sleep(STOPPED_SECONDS)
        send_signal(signal.SIGCONT, stopped)  # unless it was given up and ended


@asynccontextmanager
async def running_tree() -> AsyncIterator[ProcessTree]:
    """Start everything; the cluster process is killed before the standby is up. At the end no
    promise may be broken."""
    messages: list[str] = []
    with tempfile.TemporaryDirectory(prefix="qt-", ignore_cleanup_errors=True) as path:
        settings = load_settings(run_dir=Path(path), shards=2, mode="soft", standby=True)
        killed: list[int] = []

        def on_phase(phase: str) -> None:
            if phase == "waiting for the standby":
                killed.append(starting.pids()["cluster"])
                os.kill(killed[0], signal.SIGKILL)

        starting = Supervisor(settings, on_phase=on_phase)
        async with starting as parts, asyncio.TaskGroup() as group:
            keeper = Keeper(parts, report=lambda report: messages.append(str(report)))
            keeping = group.create_task(keeper.run())
            async with BulkClient(parts.url) as api:
                await api.submit(_list(*node_items(ClusterShape(nodes=4, units=8))))
            yield ProcessTree(parts, messages, killed)
            keeping.cancel()
        report = check(parts.settings.history, closed=True)
        assert report.ok, report.violations


def _list(*items: dict[str, Any]) -> bytes:
    return orjson.dumps(a_list(*items))


def _pod(name: str) -> dict[str, Any]:
    item = pod(name, namespace="", containers=[container(memory="")])
    item["metadata"]["annotations"] = {DURATION: "0.01"}
    return item
