"""Each process of a run, by name, is ended or stopped alone: pods are placed again, in time."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from coordinator.supervisor.child_process import command_line, descendants, last_lines, send_signal
from coordinator.supervisor.restarts import Keeper
from coordinator.supervisor.supervisor import COORDINATORS, RAY, Supervisor
from laboratory.workloads.bulk_client import BulkClient
from laboratory.workloads.generators import ClusterShape, node_items
from shared.settings.settings import load_settings
from tests.builders.objects import DURATION, a_list, container, pod

pytestmark = [
    pytest.mark.all,  # `test_chaos_kill` kills one of each role
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

PLACED_SECONDS = 15.0
"""As docs/failures.md says of a lost Ray head."""
SLOW_MACHINE = 8.0
"""Factor of all times where others compete for the processors."""
PROGRAMS = {
    "the control store of Ray": "/gcs_server",
    "the raylet": "/raylet/raylet",
    "the agent of the raylet": "ray::DashboardAgent",
    "the agent of environments": "ray::RuntimeEnvAgent",
    "the dashboard of Ray": "/dashboard/dashboard.py",
    "a worker": "ray::ShardActor",
}
"""Name -> part of the command line."""


class ProcessTree:
    """A run with a standby, looked after by its keeper."""

    def __init__(self, parts: Supervisor, messages: list[str], killed: list[int]) -> None:
        """``killed``: what was killed before the standby was up."""
        self.parts = parts
        self.killed = killed
        self.told = messages
        self._number = 0

    def pids(self) -> dict[str, int]:
        """Name -> process, of all roles and of what runs below the Ray head."""
        pids = dict(self.parts.pids())
        below = {pid: command_line(pid) for pid in sorted(descendants(pids.get(RAY, 0)))}
        for name, part in PROGRAMS.items():
            if matching := [pid for pid, line in below.items() if part in line.split(" --")[0]]:
                pids[name] = matching[0]
        return pids

    async def until_whole(self) -> dict[str, int]:
        """Wait until every process is there and answers."""
        names = {*self.parts.roles(), *PROGRAMS} - {"the dashboard of Ray"}
        deadline = time.monotonic() + PLACED_SECONDS * SLOW_MACHINE
        while not names <= self.pids().keys() or not await self._are_up():
            missing = names - self.pids().keys()
            assert time.monotonic() < deadline, (missing, self.told)
            await asyncio.sleep(0.1)
        return self.pids()

    async def _are_up(self) -> bool:
        return all([await self.parts.answers(role) for role in COORDINATORS])

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
                self.told.append(repr(error))
            await asyncio.sleep(0.1)
        log = last_lines(self.parts.log(RAY))
        raise AssertionError(f"nothing is placed: {self.told}; the Ray head says: {log}")

    async def _leader(self) -> str:
        role = await self.parts.leader()
        return self.parts.urls[1] if role == "standby" else self.parts.url


def _list(*items: dict[str, Any]) -> bytes:
    return orjson.dumps(a_list(*items))


def _pod(name: str) -> dict[str, Any]:
    item = pod(name, namespace="", containers=[container(memory="")])
    item["metadata"]["annotations"] = {DURATION: "0.01"}
    return item


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tree() -> AsyncIterator[ProcessTree]:
    """A tree for a few blows: to start one takes longer than most blows, and the supervisor gives
    up a process that dies five times in a minute."""
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


RAYLET, AGENT, STORE = "the raylet", "the agent of the raylet", "the control store of Ray"
KILL, END, STOP = signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP
STOPPED_SECONDS = 10.0
BLOWS_OF_A_TREE = 3
SHORT = [(RAYLET, END)]
BLOWS = [
    *SHORT,
    (AGENT, KILL),
    *((name, KILL) for name in (RAYLET, "the dashboard of Ray", "standby", "cluster", STORE)),
    *((name, END) for name in ("the agent of environments", STORE, "a worker", "ray", "ledger")),
    *((name, END) for name in ("cluster", "coordinator", "standby")),
    *((name, KILL) for name in ("ray", "ledger", "coordinator", "a worker")),
    *(("the agent of environments", KILL), (AGENT, END)),
    *((name, STOP) for name in (RAYLET, STORE, "a worker", "ledger", "coordinator")),
]


@pytest.mark.parametrize("tree", [0], indirect=True)
async def test_a_death_before_the_standby_is_up_is_repaired_like_any_other(
    tree: ProcessTree,
) -> None:
    [killed] = tree.killed
    assert (await tree.until_whole())["cluster"] != killed
    await tree.until_placed()


@pytest.mark.parametrize(
    ("tree", "blow"),
    [
        pytest.param(
            index // BLOWS_OF_A_TREE,
            (name, number),
            marks=[] if (name, number) in SHORT else [pytest.mark.thorough],
            id=f"{name.replace(' ', '-')}-{number.name}",
        )
        for index, (name, number) in enumerate(BLOWS)
    ],
    indirect=["tree"],
    scope="module",
)
async def test_pods_are_placed_again_after(
    tree: ProcessTree, blow: tuple[str, signal.Signals]
) -> None:
    name, number = blow
    pids = await tree.until_whole()
    os.kill(pids[name], number)
    if number is STOP:
        await asyncio.sleep(STOPPED_SECONDS)
        send_signal(signal.SIGCONT, {pids[name]})  # unless it was given up and ended
    await tree.until_placed()
    await tree.until_whole()  # what was placed may have been placed before others ended with it
    await tree.until_placed()
