"""Two coordinators as processes: the leader is killed, the other goes on with the same worker, asks
it what users ask, and what all of them wrote to their logs is JSON."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
import pytest_asyncio

from coordinator.supervisor.supervisor import COORDINATOR, STANDBY, Supervisor
from laboratory.cli.stack import until_nodes_are_shared_out
from laboratory.workloads.bulk_client import BulkClient
from shared.settings.settings import load_settings
from tests.builders.objects import a_list, node, pod
from tests.coordinator.explain.cluster import job
from tests.coordinator.explain.test_plan import PLANS

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.timeout(400),
]

WITHIN = 120.0
LEASE = 8.0
"""Seconds: longer than a machine stands still. A leader that lives is not to lose its seat."""
EXPLAIN = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/waits/explain"


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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def parts() -> AsyncIterator[Supervisor]:
    """Two coordinators with a worker that has four nodes, of which one has GPUs."""
    with tempfile.TemporaryDirectory(prefix="qt-", ignore_cleanup_errors=True) as path:
        settings = load_settings(
            run_dir=Path(path), shards=1, standby=True, coordinator_lease_seconds=LEASE
        )
        async with Supervisor(settings) as running, BulkClient(*running.urls) as api:
            await api.submit(listed(node("gpus", gpus=8), *(node(f"n{i}") for i in range(3))))
            await until_nodes_are_shared_out(api, nodes=4)
            yield running
        check_logs(Path(path))


def check_logs(run_dir: Path) -> None:
    """All lines are JSON, Ray's and Redis' too."""
    logs = [*(run_dir / "log").glob("*.log"), *run_dir.glob("*.log")]
    assert {log.name for log in logs} >= {"coordinator.log", "ray.log", "ledger.log"}
    for log in logs:
        lines = log.read_bytes().splitlines()
        assert [line for line in lines if not line.startswith(b'{"ts":')] == []
        parsed = [orjson.loads(line) for line in lines]
        assert all({"level", "event", "logger"} <= fields.keys() for fields in parsed), log
    successor = (run_dir / "log" / "standby.log").read_text()
    assert "SIGTERM received" not in successor, "Ray reports a stop that was asked for"


async def test_the_standby_goes_on_with_the_workers_that_are_there(parts: Supervisor) -> None:
    async with BulkClient(*parts.urls) as api:
        await api.submit(listed(pod("before")))
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


@pytest.mark.all
async def test_a_worker_answers_questions_and_a_missing_one_is_reported(parts: Supervisor) -> None:
    async with BulkClient(*parts.urls) as api:
        await api.submit(listed(job("waits", 9, gpus=1)))
        report = await api.post(EXPLAIN, b"{}")
        assert report["nodes"]["total"] == 4
        assert report["reason"] == "NotEnoughResources"
        plan = await api.post(PLANS, listed(job("new", 2, gpus=4)))
        assert plan["jobs"][0]["nodes"] == [{"node": "gpus", "tasks": 2}]
        (worker,) = parts.worker_pids()
        os.kill(worker, signal.SIGKILL)
        report = await api.post(EXPLAIN, b"{}")
        assert report["reason"] == "NotEnoughResources"
        assert "nodes" in report or "remembers" in report["incomplete"]
