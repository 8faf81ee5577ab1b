"""Two tenants and a real service: the one floods, the other one does not notice."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from coordinator.api.write.bulk import BulkLimits
from coordinator.intake.writer import QUEUE_REQUESTS
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeReply
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import Item, a_list, queue
from tests.conftest import flush
from tests.coordinator.api.auth.objects import group, job, pod
from tests.end_to_end.one_process.harness import PATIENCE, Running, running

LISTS = "/apis/quadrant.dev/v1alpha1/lists"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"

Answer = tuple[int, dict[str, str], Item]


async def post(session: ClientSession, url: str, body: Item) -> Answer:
    async with session.post(url, json=body) as answer:
        return answer.status, dict(answer.headers), await answer.json()


async def ready(service: Running, session: ClientSession) -> None:
    status, _, body = await post(session, service.url + LISTS, a_list(queue("a"), queue("b")))
    assert (status, body["refused"]) == (200, [])


def emptied(server: EmbeddedServer) -> str:
    flush(server)
    return server.url


async def test_a_flood_hits_its_own_tenant_alone(
    embedded_server: EmbeddedServer, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one's requests are all taken, each within the two next stores: the one that was
    under way when it came, and one that takes its turn."""
    store = RedisLedger.store
    stores = 0

    async def slow(self: RedisLedger, batch: IntakeBatch) -> IntakeReply:
        nonlocal stores
        stores += 1
        await asyncio.sleep(0.01)  # so that requests come faster than they are stored
        return await store(self, batch)

    monkeypatch.setattr("coordinator.intake.writer.BATCH_OPS", 25)
    # A flood is told 503 where its turn does not come in time, as it should be. What is asked here
    # is counted in stores: how long they take on a busy machine is of no account.
    monkeypatch.setattr("coordinator.api.app.BulkLimits", partial(BulkLimits, store_seconds=600.0))
    async with running(emptied(embedded_server), short_dir) as service, ClientSession() as session:
        await ready(service, session)
        monkeypatch.setattr(RedisLedger, "store", slow)
        url, flooded = service.url + LISTS, asyncio.Event()
        codes: list[int] = []
        stop = False

        async def flood(who: int) -> None:
            number = 0
            while not stop:
                number += 1
                jobs = [job(f"a-{who}-{number}-{i}", "a") for i in range(5)]
                status, headers, _ = await post(session, url, a_list(*jobs))
                codes.append(status)
                if status == 429:
                    flooded.set()
                    assert float(headers["Retry-After"]) > 0
                    await asyncio.sleep(0.02)

        async with asyncio.TaskGroup() as group:
            for who in range(QUEUE_REQUESTS + 16):
                group.create_task(flood(who))
            await flooded.wait()
            waits = []
            for number in range(15):
                before = stores
                status, _, body = await post(session, url, a_list(job(f"b-{number}", "b")))
                waits.append(stores - before)
                assert (status, body["accepted"]) == (200, 1), body
            stop = True
        assert 429 in codes
        assert set(codes) == {200, 429}
        assert max(waits) <= 3, waits


async def test_jobs_beyond_the_bound_are_refused_until_some_start(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    """Nothing can start here: there is no node."""
    url = emptied(embedded_server)
    async with running(url, short_dir, max_pending_jobs=3) as service, ClientSession() as session:
        await ready(service, session)
        lists = service.url + LISTS

        async def sent(*items: Any, query: str = "") -> Answer:
            return await post(session, lists + query, a_list(*items))

        status, _, body = await sent(*(job(f"j{i}", "a") for i in range(5)))
        assert (status, body["accepted"]) == (200, 3)
        assert [r["name"] for r in body["refused"]] == ["default/j3", "default/j4"]
        assert "3 jobs wait in queue 'a'" in body["refused"][0]["message"]
        # a list of nothing but such, or one that wants all or nothing
        status, headers, body = await sent(job("j5", "a"), pod("p", queue="a"))
        assert (status, body["reason"]) == (429, "TooManyRequests"), body
        assert int(headers["Retry-After"]) >= 1
        assert [r["reason"] for r in body["details"]["refused"]] == ["TooManyPending"] * 2
        assert (await sent(job("j6", "b"), job("j7", "a"), query="?atomic=true"))[0] == 429
        # one object
        status, headers, body = await post(session, service.url + JOBS, job("j8", "a"))
        assert (status, body["details"]["retryAfterSeconds"]) == (429, 5), body
        assert headers["Retry-After"] == "5"
        # what is there already, and what others submit, is not touched by it
        assert (await sent(job("j0", "a"), job("j6", "b")))[2]["unchanged"] == 1
        assert (await post(session, service.url + GROUPS, group("g", "b")))[0] == 201
        # and there is room again as soon as one is gone
        async with session.delete(f"{service.url}{JOBS}/j0") as answer:
            assert answer.status == 200
        async with asyncio.timeout(PATIENCE):
            while True:
                status, _, body = await post(session, service.url + JOBS, job("j9", "a"))
                if status != 429:
                    break
                await asyncio.sleep(0.05)
        assert status == 201, body
