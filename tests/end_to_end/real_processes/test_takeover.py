"""Two coordinators as processes: the leader is killed, the other goes on with the same workers."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import orjson
import pytest

from coordinator.supervisor.supervisor import COORDINATOR, STANDBY, Supervisor
from laboratory.workloads.bulk_client import BulkClient
from shared.settings.settings import load_settings
from tests.builders.objects import a_list, node, pod

WITHIN = 120.0
LEASE = 8.0
"""Seconds: longer than a machine stands still. A leader that lives is not to lose its seat."""


def listed(*items: dict[str, object]) -> bytes:
    return orjson.dumps(a_list(*items))


async def until_running(api: BulkClient, tasks: int) -> None:
    deadline = time.monotonic() + WITHIN
    while (status := await api.status())["tasks"]["running"] != tasks:
        assert time.monotonic() < deadline, status
        await asyncio.sleep(0.05)


async def until_no_garbage_is_looked_for(api: BulkClient, role: str) -> None:
    deadline = time.monotonic() + WITHIN
    path = f"/apis/quadrant.dev/v1alpha1/debug/{role}/dump"
    while (await api.get(path))["garbageCollection"]["whileBusy"]:
        assert time.monotonic() < deadline, role
        await asyncio.sleep(0.5)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_the_standby_goes_on_with_the_workers_that_are_there(short_dir: Path) -> None:
    settings = load_settings(
        run_dir=short_dir, shards=1, standby=True, coordinator_lease_seconds=LEASE
    )
    async with Supervisor(settings) as parts, BulkClient(*parts.urls) as api:
        await api.submit(listed(*(node(f"n{i}") for i in range(4)), pod("before")))
        await until_running(api, 1)
        workers, pids = set(parts.worker_pids()), parts.pids()
        for role in ("coordinator", "shard-0"):
            await until_no_garbage_is_looked_for(api, role)
        assert await parts.leader() == COORDINATOR
        assert await parts.answers(STANDBY)
        await asyncio.sleep(1.0)  # it has read the ledger by then; else it only takes longer
        killed = time.monotonic()
        os.kill(pids[COORDINATOR], signal.SIGKILL)
        await api.submit(listed(pod("after")))
        await until_running(api, 2)
        sys.stdout.write(f"first work of the successor after {time.monotonic() - killed:.2f} s\n")
        assert await parts.leader() == STANDBY
        assert set(parts.worker_pids()) == workers
        body = await api.get("/api/v1/namespaces/ns/pods/before/explain")
        # The leader that saw it is dead: this is from the history.
        reasons = [entry["reason"] for entry in body["story"]]
        assert reasons[:3] == ["Submitted", "Scheduled", "Started"]
