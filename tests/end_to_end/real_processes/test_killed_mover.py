"""A pod moves so that another one fits, and whoever moves it is killed before it is back."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from coordinator.supervisor.supervisor import COORDINATOR, Supervisor
from laboratory.checker.check import check
from laboratory.workloads.bulk_client import BulkClient, BulkError
from shared.settings.settings import Settings, load_settings
from tests.builders.objects import a_list
from tests.end_to_end.one_process.test_kai_evictions import MOVING, at, pinned
from tests.end_to_end.one_process.test_kai_order import leaf, single

pytestmark = pytest.mark.all

WITHIN = 120.0
GRACES = 4.0, 15.0, 45.0
"""Seconds until a pod that is evicted has left: a worker or a coordinator dies meanwhile. Where the
machine stood still for so long, the pod was back before; then the next one is tried."""
LEASES = 2
"""A leadership lasts for so many graces: the pod has left when the next coordinator leads."""
PODS = "/api/v1/namespaces/ns/pods"


class WatchedPods:
    """The pods, as a client sees them while servers die."""

    def __init__(self, api: BulkClient) -> None:
        self._api = api

    async def submit(self, *items: dict[str, Any]) -> None:
        assert not (await self._api.submit(orjson.dumps(a_list(*items)))).refused

    async def delete(self, name: str) -> None:
        await self._api.delete(f"{PODS}/{name}")

    async def running(self) -> dict[str, str]:
        """Pod -> its node."""
        items = (await self._api.get(PODS))["items"]
        return {
            item["metadata"]["name"]: item["spec"]["nodeName"]
            for item in items
            if item["status"]["phase"] == "Running"
        }

    async def until_running(self, *names: str) -> dict[str, str]:
        deadline = time.monotonic() + WITHIN
        while True:
            try:
                running = await self.running()
            except BulkError:  # nobody leads for a moment
                running = {}
            if running.keys() >= set(names):
                return running
            assert time.monotonic() < deadline, (names, running)
            await asyncio.sleep(0.05)

    async def until_evicted(self, name: str, *, preemptor: str) -> None:
        by = f"evicted for ns/{preemptor} by consolidation"
        deadline = time.monotonic() + WITHIN
        query = f"involvedObject.kind=Pod,involvedObject.name={name}"
        path = f"/api/v1/namespaces/ns/events?fieldSelector={query}"
        while True:
            messages = [item["message"] for item in (await self._api.get(path))["items"]]
            if any(by in message for message in messages):
                return
            if time.monotonic() > deadline:
                why = f"/apis/quadrant.dev/v1alpha1/namespaces/ns/pods/{preemptor}/explain"
                raise AssertionError(messages, await self._api.get(why))
            await asyncio.sleep(0.02)


async def in_pieces(pods: WatchedPods) -> tuple[str, str]:
    """Two GPUs are free on each of two nodes, and ``x``, which has two, could move from one to the
    other: (where it is, where it may go)."""
    fixed = [pinned("a", 0, 2), pinned("b", 1, 2), pinned("z", 2, 4)]
    await pods.submit(*(at(number) for number in range(3)), leaf("red", -1, parent=""), *fixed)
    await pods.until_running("a", "b", "z")
    await pods.submit(single("x", "red", 2))
    here = (await pods.until_running("x"))["x"]
    gone, there = ("a", "n1") if here == "n0" else ("b", "n0")
    await pods.delete(gone)
    deadline = time.monotonic() + WITHIN
    while gone in await pods.running():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    return here, there


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("killed", ["the coordinator", "every worker"])
async def test_a_moving_pod_keeps_its_promised_place(
    short_dir: Path, tmp_path: Path, killed: str
) -> None:
    policy = tmp_path / "kai.yaml"
    policy.write_text(MOVING)
    for number, grace in enumerate(GRACES):
        settings = load_settings(
            run_dir=short_dir / str(number),
            shards=2,
            policy=str(policy),
            grace=grace,
            standby=killed == "the coordinator",
            coordinator_lease_seconds=LEASES * grace,
        )
        killed_at = await kill_the_mover(settings, killed)
        report = check(settings.history)
        assert not report.violations, report.violations
        if min(binds_after_the_eviction(settings.history)) > killed_at:
            return
    raise AssertionError("it was killed too late")


async def kill_the_mover(settings: Settings, killed: str) -> float:
    """When it was killed. The pods run where they are expected then."""
    async with Supervisor(settings) as parts, BulkClient(*parts.urls) as api:
        pods = WatchedPods(api)
        here, there = await in_pieces(pods)
        await pods.submit(single("whole", "red", 4))
        await pods.until_evicted("x", preemptor="whole")
        pids = [parts.pids()[COORDINATOR]] if killed == "the coordinator" else parts.worker_pids()
        killed_at = time.time()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        # It would fit where x was promised to go, and where it was.
        await pods.submit(single("rival", "red", 2))
        after = await pods.until_running("x", "whole")
        assert (after["whole"], after["x"]) == (here, there)
        assert "rival" not in after
    return killed_at


def binds_after_the_eviction(history: Path) -> list[float]:
    """When pods were bound since somebody was evicted."""
    events = [orjson.loads(line) for line in history.read_bytes().splitlines()]
    evicted = next(at for at, e in enumerate(events) if any("evict" in s for s in statements(e)))
    return [event["t"] for event in events[evicted:] if event["ev"] == "bind"]


def statements(event: dict[str, Any]) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = event.get("statements", [])
    return result
