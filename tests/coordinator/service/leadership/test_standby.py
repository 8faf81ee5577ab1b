"""Two coordinators over one ledger: one leads, the other knows all and takes its place."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.service.service import Service
from shared.ledger.errors import Deposed
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.client import RedisLedger
from shared.settings.settings import load_settings
from tests.builders.objects import node, pod
from tests.end_to_end.one_process.harness import PATIENCE, DirectCluster, DirectShards, free_port

LEASE = 8.0
"""Longer than a machine stands still: a leader that lives is not to lose its seat."""


@dataclass
class Seated:
    service: Service
    stop: asyncio.Event
    task: asyncio.Task[None]
    url: str
    ledger: RedisLedger

    @property
    def leads(self) -> bool:
        return self.service.leadership is not None

    async def until(self, done: Callable[[], bool], within: float = PATIENCE) -> None:
        deadline = time.monotonic() + within
        while not done():
            if self.task.done():
                self.task.result()
            assert time.monotonic() < deadline, self.service.status()
            await asyncio.sleep(0.02)

    async def until_up(self) -> None:
        await self.until(lambda: all(s["up"] for s in self.service.status()["shards"]))

    async def until_running(self, tasks: int) -> None:
        await self.until(lambda: self.service.status()["tasks"]["running"] == tasks)

    async def submit(self, *items: dict[str, Any]) -> None:
        writer = self.service._writer
        assert writer is not None
        assert (await writer.submit(list(items))).refused == []

    async def kill(self) -> None:
        """No part of it does anything any more, and it says so to nobody."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


Start = Callable[[], Awaitable[Seated]]


@pytest.fixture
async def start(redis_url: str, short_dir: Path) -> AsyncIterator[Start]:
    """Starts coordinators that share ledger and cluster; all are ended after the test."""
    cluster = DirectCluster(LocalCluster(speedup=1.0, grace=0.05))
    begun: list[tuple[Seated, DirectShards]] = []

    async def begin() -> Seated:
        port = free_port()
        settings = load_settings(
            run_dir=short_dir,
            redis_url=redis_url,
            listen_port=port,
            shards=2,
            coordinator_lease_seconds=LEASE,
        )
        ledger, shards = RedisLedger(redis_url), DirectShards(redis_url)
        service = Service(settings, ledger=ledger, cluster=cluster, shards=shards)
        stop = asyncio.Event()
        task = asyncio.create_task(service.run(stop))
        seated = Seated(service, stop, task, f"http://127.0.0.1:{port}", ledger)
        begun.append((seated, shards))
        return seated

    async with contextlib.AsyncExitStack() as ending:
        yield begin
        for seated, shards in begun:
            ending.push_async_callback(end, seated, shards)


async def end(seated: Seated, shards: DirectShards) -> None:
    seated.stop.set()
    try:
        with contextlib.suppress(ExceptionGroup, asyncio.CancelledError):
            await asyncio.wait_for(seated.task, PATIENCE)
    finally:
        await shards.close()
        await seated.ledger.close()


async def both(start: Start) -> tuple[Seated, Seated]:
    """A leader that is up, and a standby that knows whom it follows."""
    leader = await start()
    await leader.until_up()
    standby = await start()
    await standby.until(lambda: bool(standby.service.standby.leader))
    return leader, standby


async def test_a_standby_takes_the_seat_of_one_that_died_and_knows_all_it_did(start: Start) -> None:
    leader, standby = await both(start)
    await leader.submit(node("a"), *(pod(f"before-{i}") for i in range(3)))
    await leader.until_running(3)
    await leader.kill()
    died = time.monotonic()
    await standby.until(lambda: standby.leads)
    await standby.until_up()
    await standby.submit(pod("after"))
    await standby.until_running(4)
    took = time.monotonic() - died
    sys.stdout.write(f"first work of the successor {took:.2f} s after, lease {LEASE} s\n")
    assert sorted(standby.service.intake.registry.pods) == [
        "ns/after",
        *(f"ns/before-{i}" for i in range(3)),
    ]
    standby.service.core.validate()


async def test_a_standby_says_who_leads_and_takes_nothing(start: Start) -> None:
    leader, standby = await both(start)
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{standby.url}/healthz") as answer:
            assert answer.status == 200
        async with session.get(f"{standby.url}/readyz") as answer:
            assert answer.status == 503
            assert leader.url.removeprefix("http://") in await answer.text()
        for path in ("/api/v1/pods", "/metrics", "/apis/quadrant.dev/v1alpha1/lists"):
            async with session.post(standby.url + path, json={}) as answer:
                assert answer.status == 503
                assert float(answer.headers["Retry-After"]) > 0
                assert "leads" in await answer.text()
        async with session.get(f"{leader.url}/readyz") as answer:
            assert answer.status == 200


async def test_an_orderly_stop_releases_the_leadership(start: Start) -> None:
    leader, standby = await both(start)
    led = leader.service.leadership
    assert led is not None
    leader.stop.set()
    await leader.task
    result = await standby.ledger.leader()
    assert result is not None
    assert result.epoch != led.epoch or not result.seconds_left
    await standby.until(lambda: standby.leads)


async def test_a_leader_whose_seat_was_claimed_ends_as_deposed(start: Start) -> None:
    leader = await start()
    await leader.until_up()
    epoch = leader.service.leadership
    assert epoch is not None
    await leader.ledger.release(COORDINATOR, epoch.epoch)
    await leader.ledger.claim(COORDINATOR)
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(leader.task, PATIENCE)
    assert caught.group_contains(Deposed)
