"""A service with a policy that names every action, all of them at work on one cluster.

Two queues share four nodes; a job of little weight fills them; then come, one after another, a job
of higher priority, a queue that wants its share, tasks that ask for nothing, and a job that has to
stay in one domain of the network.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.objects import a_list, hyper_node, priority_class, queue
from tests.coordinator.cli.conftest import Quadrant
from tests.coordinator.cli.test_service import Command
from tests.end_to_end.one_process.harness import PATIENCE, running
from tests.laboratory.simulation.contending import job, named_node

pytestmark = [pytest.mark.all, pytest.mark.timeout(400)]

NODES = 4

POLICY = """
actions: "enqueue, allocate, backfill, preempt, reclaim, gangpreempt, gangreclaim, shuffle"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: sla
  - name: tdm
  - name: pdb
  - name: cdp
- plugins:
  - name: overcommit
    arguments: {overcommit-factor: 10.0}
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: network-topology-aware
  - name: deviceshare
  - name: nodegroup
    arguments: {strict: false}
  - name: numa-aware
  - name: rescheduling
  - name: resource-strategy-fit
  - name: resourcequota
  - name: task-topology
  - name: usage
"""


class ContendingUsers:
    """Users' writes, and their view of the results."""

    def __init__(self, command: Command) -> None:
        self.command = command

    async def apply(self, *items: dict[str, Any]) -> None:
        await self.command("apply", "-f", "-", stdin=json.dumps(a_list(*items)))

    async def nodes(self, name: str) -> list[str]:
        """The nodes of a job's pods that run."""
        result = await self.command("get", "pods", "-n", "ns", "-o", "json")
        return [
            pod["spec"]["nodeName"]
            for pod in json.loads(result.out)["items"]
            if pod["metadata"]["name"].startswith(f"{name}-")
            and pod["status"]["phase"] == "Running"
        ]

    async def runs(self, name: str, count: int) -> None:
        """Wait until so many of its pods run."""
        end = time.monotonic() + PATIENCE
        while len(await self.nodes(name)) != count:
            if time.monotonic() > end:
                why = await self.command("explain", "job", f"ns/{name}")
                pytest.fail(f"{count} pods of {name} do not run: {why}")
            await asyncio.sleep(0.1)

    async def delete(self, name: str) -> None:
        await self.command("delete", "jobs", name, "-n", "ns")


@pytest.fixture
async def users(
    quadrant: Quadrant, redis_url: str, short_dir: Path
) -> AsyncIterator[ContendingUsers]:
    policy = short_dir / "policy.yaml"
    policy.write_text(POLICY)
    async with running(redis_url, short_dir, policy=policy) as service:
        yield ContendingUsers(Command(quadrant, service))


async def test_every_action_at_work(users: ContendingUsers) -> None:
    await users.apply(
        *map(named_node, range(NODES)),
        hyper_node("rack-0", "n0", "n1"),
        hyper_node("rack-1", "n2", "n3"),
        priority_class("high", 1000),
        queue("red"),
        queue("blue"),
    )
    await users.apply(job("low", 16, minimum=2, seconds=600, queue="red"))
    await users.runs("low", 16)

    # A job of higher priority in the same queue takes the place of some.
    await users.apply(job("high", 3, priority="high", seconds=600, queue="red"))
    await users.runs("high", 3)
    await users.runs("low", 13)
    assert "Evict" in (await users.command("get", "events", "-n", "ns")).out

    # The other queue takes back its share.
    await users.apply(job("late", 6, seconds=600, queue="blue"))
    await users.runs("late", 6)
    await users.runs("low", 7)

    # What asks for nothing finds a place in a full cluster.
    await users.apply(job("idle", 3, cpu="", seconds=600, queue="blue"))
    await users.runs("idle", 3)

    # Room comes; who was evicted is placed again.
    await users.delete("late")
    await users.runs("low", 13)
    await users.delete("low")
    await users.delete("high")

    # Six of sixteen places would do anywhere, but they have to be close to one another.
    near: dict[str, Any] = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    await users.apply(job("near", 6, seconds=600, queue="red", **near))
    await users.runs("near", 6)
    assert {int(node[1:]) // 2 for node in await users.nodes("near")} in ({0}, {1})
