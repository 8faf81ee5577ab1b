"""The process takes only the ledger that is remembered, and remembers the one it took."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.service import __main__
from shared.ledger.errors import LedgerIdentity
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.identity import LedgerIdentityNote, note, path_of, recall
from shared.ledger.redis.server import EmbeddedServer
from shared.settings.settings import Settings, load_settings
from tests.conftest import flush
from tests.end_to_end.one_process.harness import DirectCluster, DirectShards, free_port


def settings(server: EmbeddedServer, path: Path) -> Settings:
    return load_settings(run_dir=path, redis_url=server.url, shards=1, listen_port=free_port())


@pytest.fixture
def without_ray(embedded_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shards(DirectShards):
        def __init__(self, **_: Any) -> None:
            super().__init__(embedded_server.url)

        def attach(self, address: str) -> None:
            """There is nobody to attach to."""

    monkeypatch.setattr(__main__, "RayShards", Shards)
    monkeypatch.setattr(__main__, "SocketCluster", lambda _: DirectCluster(LocalCluster()))


async def noted_after(
    identity: LedgerIdentityNote, settings: Settings, running: asyncio.Task[None]
) -> LedgerIdentityNote:
    """Wait for a newer note."""
    for _ in range(1200):
        assert not running.done(), running.exception()
        now = recall(path_of(settings.data_dir))
        if now != identity and now.log != "0":
            return now
        await asyncio.sleep(0.05)
    raise AssertionError("nothing is noted")


@pytest.mark.usefixtures("without_ray")
async def test_a_restart_serves_the_ledger_of_its_identity_note(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    flush(embedded_server)
    options = settings(embedded_server, short_dir)
    identity = LedgerIdentityNote()
    for _ in range(2):
        running = asyncio.create_task(__main__.serve(options))
        try:
            identity = await noted_after(identity, options, running)
            os.kill(os.getpid(), signal.SIGTERM)
            await running
        finally:
            running.cancel()
            await asyncio.wait([running])
    ledger = RedisLedger(embedded_server.url)
    try:
        assert identity.cluster == await ledger.open()
    finally:
        await ledger.close()


@pytest.mark.usefixtures("without_ray")
async def test_another_than_the_remembered_is_refused_before_anything_is_done(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    flush(embedded_server)
    options = settings(embedded_server, short_dir)
    note(path_of(options.data_dir), LedgerIdentityNote("another", "0"))
    with pytest.raises(LedgerIdentity, match="identity record of another is missing"):
        await __main__.serve(options)
    ledger = RedisLedger(embedded_server.url)
    try:
        assert await ledger.cluster_id() == ""
        assert recall(path_of(options.data_dir)) == LedgerIdentityNote("another", "0")
    finally:
        await ledger.close()
