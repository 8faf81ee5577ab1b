"""Workers that die, hang and come back, and a service that is stopped meanwhile.

Real ledger, real HTTP; the workers run in the service's loop, so that each moment can be chosen.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.dispatch.dispatcher import SendTurns
from coordinator.dispatch.worker_client import OtherVersion, WorkerLost
from laboratory.cli.stack import Sender
from laboratory.workloads.bulk_client import BulkClient
from laboratory.workloads.generators import (
    GPU,
    ClusterShape,
    job_items,
    node_items,
    queue_items,
    seeded_workload,
)
from shard_worker.worker.transport import PlaceReply, WorkerConfig
from shared.ledger.entries.log import CommitEntry
from shared.ledger.errors import LedgerUnavailable
from shared.messages.messages import ALLOCATE, Epoch, Turn
from tests.end_to_end.one_process.harness import DirectShards, Running, running

SHAPE = ClusterShape(nodes=8, units=4)
JOBS = 40
DEADLINE = 0.4
PROMPT = 30.0
"""Seconds within which a service ends that waits for nobody: that would take for ever."""


class BrittleShards(DirectShards):
    """Workers that fail and hang on order."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url
        self.stillborn = 0
        """Number of the next starts that fail."""
        self.strange: dict[int, str] = {}
        """Shard -> why the worker that starts is not used: it is of another version."""
        self.swallow = 0
        """Number of the next answers to calls with turns that are lost, after the work was done."""
        self.awake = asyncio.Event()
        """Cleared: calls are not answered, as by a process that is stopped."""
        self.awake.set()
        self.wakes_up = False
        """Whether the next one to start answers at once."""
        self.together = asyncio.Event()
        """Cleared: no call is given up before a second one to the same shard is under way."""
        self.together.set()
        self.begun = asyncio.Event()
        """Cleared: starts take for ever."""
        self.begun.set()
        self.epochs: list[Epoch] = []
        """The epoch of every start."""
        self.calls: dict[int, int] = {}
        """Shard -> calls under way."""
        self.most = 0
        """The most there ever were to one shard."""

    async def start(self, config: WorkerConfig) -> int:
        self.epochs.append(config.epoch)
        await self.begun.wait()
        if self.wakes_up:
            self.awake.set()
        if config.shard in self.strange:
            raise OtherVersion(self.strange[config.shard])
        if self.stillborn:
            self.stillborn -= 1
            raise WorkerLost(f"shard {config.shard} died while it started")
        return await super().start(config)

    async def place(self, shard: int, turns: list[Turn], *, call: int) -> PlaceReply:
        self.calls[shard] = self.calls.get(shard, 0) + 1
        self.most = max(self.most, self.calls[shard])
        if self.calls[shard] > 1:
            self.together.set()
        try:
            await self.together.wait()
            async with asyncio.timeout(DEADLINE):
                await self.awake.wait()
            reply = await super().place(shard, turns, call=call)
        except TimeoutError:
            raise WorkerLost(f"shard {shard}: no answer") from None
        finally:
            self.calls[shard] -= 1
        if self.swallow and reply.outcomes:
            self.swallow -= 1
            raise WorkerLost(f"shard {shard} died after its work")
        return reply


@pytest.fixture
def workers(redis_url: str) -> BrittleShards:
    return BrittleShards(redis_url)


async def load(service: Running, *, jobs: int = JOBS) -> None:
    """Nodes and jobs, over HTTP as everybody does."""
    trace = seeded_workload(jobs=jobs, seed=1, capacity=SHAPE.capacity)
    async with BulkClient(service.url) as api:
        sender = Sender(api)
        await sender.send([*node_items(SHAPE), *queue_items(trace)])
        await sender.send(job_items(trace, resource=GPU))


def finished(status: dict[str, Any]) -> bool:
    return bool(status["jobs"]["finished"] == status["jobs"]["submitted"])


def brittle(
    workers: BrittleShards, path: Path, *, shards: int = 1, **settings: Any
) -> AbstractAsyncContextManager[Running]:
    options: dict[str, Any] = {"shards": shards, "speedup": 1e5, "grace": 0.01} | settings
    return running(workers.url, path, workers=workers, **options)


async def test_a_worker_with_several_calls_under_way_is_lost_once(
    tmp_path: Path, workers: BrittleShards
) -> None:
    async with brittle(workers, tmp_path, turns_per_call=1) as service:
        workers.awake.clear()
        workers.together.clear()
        workers.wakes_up = True
        await load(service)
        await service.until(lambda status: status["workers_lost"] > 0)
        assert workers.most > 1, "never two calls at once: this shows nothing"
        status = await service.until(finished)
        assert status["workers_lost"] == 1
        assert len(workers.epochs) == 2


async def test_work_with_a_lost_answer_is_read_from_the_ledger_and_not_repeated(
    tmp_path: Path, workers: BrittleShards
) -> None:
    async with brittle(workers, tmp_path, shards=2) as service:
        workers.swallow = 5
        await load(service)
        status = await service.until(finished)
        assert workers.swallow == 0
        assert 3 <= status["workers_lost"] <= 5, "at most two lost calls are of the same worker"
        entries = await service.service._ledger.read_log("0", count=100_000)
        statements = [s for e in entries if isinstance(e, CommitEntry) for s in e.accepted]
        placed = [
            (statement.jid, tix)
            for statement in statements
            for run in (*statement.core, *statement.tail)
            if run.kind == ALLOCATE
            for tix in run.tasks
        ]
        assert len(placed) == len(set(placed)) == status["tasks"]["submitted"]
        assert status["statements"]["committed"] < len(statements), "every answer came through"


async def test_silence_of_an_idle_worker_is_noticed_with_one_heartbeat_at_a_time(
    tmp_path: Path, workers: BrittleShards
) -> None:
    async with brittle(workers, tmp_path) as service:
        workers.awake.clear()
        await service.until(lambda status: status["workers_lost"] > 0)
        assert workers.most == 1
        workers.awake.set()
        await load(service)
        await service.until(finished)


async def test_a_worker_dead_at_its_start_is_restarted_under_another_epoch(
    tmp_path: Path, workers: BrittleShards
) -> None:
    async with brittle(workers, tmp_path) as service:
        workers.stillborn = 2
        workers.deaf.add(0)
        await load(service)
        await service.until(finished)
        assert len(workers.epochs) == 4
        counters = [epoch.counter for epoch in workers.epochs]
        assert counters == sorted(set(counters))
        assert service.service.status()["workers_lost"] == 1, "those never served"


async def test_shards_that_are_up_do_the_work_of_one_that_cannot_start(
    tmp_path: Path, workers: BrittleShards
) -> None:
    async with brittle(workers, tmp_path, shards=3) as service:
        workers.begun.clear()
        workers.deaf.add(1)
        await service.until(lambda status: status["workers_lost"] == 1)
        await load(service)
        status = await service.until(finished)
        assert [shard["up"] for shard in status["shards"]] == [True, False, True]
        assert status["shards"][1]["pid"] is None


async def test_a_worker_of_another_version_gets_no_turn_until_replaced(
    tmp_path: Path, workers: BrittleShards
) -> None:
    async with brittle(workers, tmp_path, shards=2) as service, BulkClient(service.url) as api:

        async def health() -> dict[str, Any]:
            checks = (await api.get("/health"))["checks"]
            return {check["name"]: check["message"] for check in checks}

        async def events() -> list[tuple[str, str]]:
            path = "/api/v1/events?fieldSelector=involvedObject.kind=Shard"
            return [(e["reason"], e["message"]) for e in (await api.get(path))["items"]]

        assert (await health())["worker_versions"] == "ok"
        why = workers.strange[1] = "the worker is version 1, and this coordinator is version 2"
        workers.deaf.add(1)
        await service.until(lambda status: status["shards"][1]["refused"] == why)
        await load(service)
        status = await service.until(finished)
        assert [shard["up"] for shard in status["shards"]] == [True, False]
        assert (await health())["worker_versions"] == f"shard 1: {why}"
        assert (await health())["all_workers"] == "no worker is up for 1 shards: 1"
        assert (await events()).count(("ShardRefused", why)) == 1
        shard = await api.get("/apis/quadrant.dev/v1alpha1/shards/shard-1")
        assert shard["status"]["refused"] == why
        assert 'quadrant_shard_refused{shard="1"} 1' in await metrics(service)

        workers.strange.clear()
        status = await service.until(lambda status: status["shards"][1]["up"])
        assert status["shards"][1]["refused"] is None
        assert (await health())["worker_versions"] == "ok"
        assert (await events())[-1] == ("ShardRecovered", "another worker serves it")
        assert 'quadrant_shard_refused{shard="1"} 0' in await metrics(service)


async def metrics(service: Running) -> str:
    async with aiohttp.ClientSession() as client, client.get(f"{service.url}/metrics") as answer:
        return await answer.text()


async def test_turns_of_a_void_epoch_do_not_reach_the_next_worker(
    tmp_path: Path, workers: BrittleShards
) -> None:
    async with brittle(workers, tmp_path) as service:
        old = workers.epochs[0]
        workers.deaf.add(0)
        await service.until(lambda status: len(workers.epochs) == 2 and status["shards"][0]["up"])
        served: list[int] = []
        place = workers.place

        async def watch(shard: int, turns: list[Turn], *, call: int) -> PlaceReply:
            served.append(len(turns))
            return await place(shard, turns, call=call)

        workers.place = watch  # type: ignore[method-assign]  # only listens
        turn = Turn(jid=1, job_version=1, qid=0, priority=0, groups=[], runs=[], total=1)
        await service.service.workers.call(SendTurns(shard=0, epoch=old, call=1, turns=[turn]))
        assert 1 not in served


async def test_a_ledger_that_does_not_answer_for_a_moment_delays_the_replacement(
    tmp_path: Path, workers: BrittleShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brittle(workers, tmp_path) as service:
        ledger = service.service._ledger
        claim, answers = ledger.claim, iter([False, True, False])

        async def falter(writer: str, **how: Any) -> Epoch:
            if not next(answers, True):
                raise LedgerUnavailable("no answer")
            return await claim(writer, **how)

        monkeypatch.setattr(ledger, "claim", falter)
        workers.deaf.add(0)
        await load(service)
        await service.until(finished)
        assert next(answers, None) is None


async def test_stopping_does_not_wait_for_a_worker_that_starts(
    tmp_path: Path, workers: BrittleShards
) -> None:
    async with brittle(workers, tmp_path) as service:
        workers.begun.clear()
        workers.deaf.add(0)
        await service.until(lambda status: not status["shards"][0]["up"])
        stopping = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - stopping < PROMPT


async def test_stopping_does_not_wait_for_a_worker_that_hangs(
    tmp_path: Path, workers: BrittleShards
) -> None:
    async with brittle(workers, tmp_path) as service:
        workers.awake.clear()
        await load(service)
        await service.until(lambda status: status["open_turns"] > 0)
        stopping = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - stopping < PROMPT


async def test_an_event_in_the_moment_of_stopping_does_not_keep_the_service_alive(
    tmp_path: Path, workers: BrittleShards
) -> None:
    async with brittle(workers, tmp_path) as service:
        service.service._kicked.set()  # the loop wakes up in the very tick that cancels it
        stopping = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - stopping < PROMPT
