"""Where something behind is slow, what waits for it stays bounded, up to whoever asks the API."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from coordinator.cluster.protocol import BindAnswers, BindRequests, ClusterTimeout
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.intake.writer import BATCH_REQUESTS, QUEUE_REQUESTS
from coordinator.service.bind_loop import CALLS, ENTRIES
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeReply
from shared.ledger.redis.client import RedisLedger
from tests.builders.objects import a_list
from tests.coordinator.controllers.support import submit
from tests.end_to_end.one_process.harness import PATIENCE, running
from tests.end_to_end.one_process.test_deletion import job, tasks
from tests.end_to_end.one_process.test_reconcile import node

FLOOD = 4 * QUEUE_REQUESTS
KEPT = BATCH_REQUESTS + QUEUE_REQUESTS
"""Requests of one queue that are kept at most: a store's batch under way, and those that wait."""


class SilentCluster(LocalCluster):
    """It does not answer binds until it is told to."""

    def __init__(self) -> None:
        super().__init__(grace=0.01)
        self.silent = True
        self.asked: set[str] = set()

    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        self.asked.update(requests.tasks)
        if self.silent:
            raise ClusterTimeout("no answer")
        return super().bind(requests, now)


async def test_binds_that_get_no_answer_wait_in_the_ledger_and_not_in_memory(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One entry a call here, so that a few jobs are more than the calls that may be under way."""
    monkeypatch.setattr("coordinator.service.bind_loop.ENTRIES", 1)
    kubelets = SilentCluster()
    async with running(redis_url, tmp_path, kubelets=kubelets, turns_per_call=1) as service:
        await submit(service, node("n0", cpu=64))
        for number in range(1, 31):  # a commit, and so an entry of the stream, each
            await submit(service, job(f"j{number}", 1))
            await service.until(partial(placed, number))
        await service.until(lambda _: len(kubelets.asked) >= CALLS)
        await asyncio.sleep(0.5)  # no more come
        assert len(kubelets.asked) == CALLS
        assert ENTRIES * CALLS <= 256
        kubelets.silent = False
        await service.until(tasks(running=30))
        service.service.core.validate()


def placed(count: int, status: dict[str, Any]) -> bool:
    """Whether so many tasks have a place, bound or not."""
    return bool(status["tasks"]["submitted"] - status["tasks"]["pending"] == count)


async def test_requests_beyond_the_bound_get_429_while_the_ledger_stalls(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request is kept beyond the bound, and what was acknowledged is in the ledger."""
    store, gate = RedisLedger.store, asyncio.Event()

    async def stands_still(self: RedisLedger, batch: IntakeBatch) -> IntakeReply:
        await gate.wait()
        return await store(self, batch)

    turned_away = asyncio.Semaphore(0)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        running(redis_url, tmp_path) as service,
        aiohttp.ClientSession(connector=connector) as http,
    ):
        monkeypatch.setattr(RedisLedger, "store", stands_still)
        lists = f"{service.url}/apis/quadrant.dev/v1alpha1/lists"

        async def ask(number: int) -> tuple[int, str]:
            body = a_list(job(f"j{number}", 1))
            async with http.post(lists, json=body) as answer:
                if answer.status == 429:
                    assert float(answer.headers["Retry-After"]) > 0
                    turned_away.release()
                return answer.status, f"ns/j{number}"

        async with asyncio.TaskGroup() as group:
            requests = [group.create_task(ask(number)) for number in range(FLOOD)]
            async with asyncio.timeout(PATIENCE):
                for _ in range(FLOOD - KEPT):
                    await turned_away.acquire()
            gate.set()
        answers = [one.result() for one in requests]
        codes = Counter(status for status, _ in answers)
        assert set(codes) == {200, 429}
        assert codes[429] >= FLOOD - KEPT
        accepted = {key for status, key in answers if status == 200}
        job_keys = {state.job.key for state in service.service.core.order.jobs.values()}
        assert job_keys == accepted
        assert len((await service.service._ledger.snapshot()).jobs) == len(accepted)
