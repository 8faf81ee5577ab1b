"""A service does not serve a ledger in which something was altered, and says why in one line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
import redis

from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.service import __main__
from coordinator.service.service import Service
from laboratory.workloads.generators import pod_items
from shared.codec.checked import Malformed
from shared.ledger.errors import LedgerAltered, LedgerError
from shared.ledger.keys import key
from shared.ledger.redis.client import RedisLedger
from shared.settings.settings import load_settings
from tests.builders.objects import a_list, node
from tests.end_to_end.one_process.harness import (
    PATIENCE,
    DirectCluster,
    DirectShards,
    Running,
    running,
)
from tests.security.alter import turned

LISTS = "/apis/quadrant.dev/v1alpha1/lists"


async def submit(service: Running) -> None:
    items = a_list(node("n0"), *pod_items(1, duration=600.0))
    url = service.url + LISTS
    async with aiohttp.ClientSession() as session, session.post(url, json=items) as answer:
        assert answer.status == 200, await answer.text()
    await service.until(lambda status: status["statements"]["committed"] > 0)


async def ends(path: Path, url: str) -> BaseException:
    """Exception that ends a service started on this ledger."""
    settings = load_settings(run_dir=path, redis_url=url, shards=1)
    shards, ledger = DirectShards(url), RedisLedger(url)
    cluster = DirectCluster(LocalCluster())
    service = Service(settings, ledger=ledger, cluster=cluster, shards=shards)
    try:
        with pytest.raises(BaseException) as caught:
            async with asyncio.timeout(PATIENCE):
                await service.run(asyncio.Event())
        return caught.value
    finally:
        await shards.close()
        await ledger.close()


async def test_a_service_does_not_start_on_an_altered_ledger(
    redis_url: str, short_dir: Path
) -> None:
    with redis.Redis.from_url(redis_url, protocol=2) as client:
        async with running(redis_url, short_dir / "a") as before:
            await submit(before)
        for kind in ("jobspec", "nodespec", "doc", "task", "node"):
            name = key(kind)
            field, body = next(iter(client.hgetall(name).items()))
            client.hset(name, field, turned(body, 70))
            ended = await ends(short_dir / "b", redis_url)
            assert _holds(ended), (kind, ended)
            client.hset(name, field, body)
    async with running(redis_url, short_dir / "c") as after:
        await after.until(lambda status: status["jobs"]["submitted"] == 1)


def _holds(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_holds, error.exceptions))
    return isinstance(error, LedgerAltered | Malformed)


@pytest.mark.parametrize("error", [LedgerAltered("node 5"), Malformed("job: altered")])
def test_it_says_why_in_a_line(
    error: LedgerError, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(_: object) -> None:
        raise ExceptionGroup("tasks", [error])

    monkeypatch.setattr(__main__, "serve", serve)
    assert __main__.main() == 1
    captured = capsys.readouterr()
    assert str(error) in captured.out + captured.err
    assert "Traceback" not in captured.out + captured.err
