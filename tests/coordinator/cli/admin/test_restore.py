"""``quadrant ledger``: what is told of a server that is not what it was; what accepting does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from typer.testing import CliRunner, Result

from coordinator.cli.admin.ledger import app
from coordinator.cli.options.failure import CommandError
from shared.ledger.errors import LedgerBehind
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.identity import FILE, LedgerIdentityNote, expected, note, path_of, recall
from shared.ledger.redis.server import EmbeddedServer
from shared.settings.settings import Settings, load_settings
from tests.conftest import flush
from tests.shared.ledger.support import Desk, cluster, job


@pytest.fixture
def settings(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("QUADRANT_RUN_DIR", str(short_dir))
    return load_settings()


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments: str) -> str:
    """Error text of a command that must fail."""
    result = invoke(*arguments)
    assert isinstance(result.exception, CommandError), (result.output, result.exception)
    return f"{result.stderr}{result.exception}"


def ledger_status() -> dict[str, Any]:
    body: dict[str, Any] = json.loads(invoke("show", "-o", "json").stdout)
    return body


@contextlib.contextmanager
def embedded(settings: Settings) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(settings.run_dir, settings.data_dir)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextlib.asynccontextmanager
async def opened(url: str, identity: LedgerIdentityNote) -> AsyncIterator[tuple[RedisLedger, Desk]]:
    ledger = RedisLedger(url, cluster=identity.cluster, newest=identity.log)
    try:
        yield ledger, await Desk(ledger).open()
    finally:
        await ledger.close()


def written(settings: Settings, *jobs: int) -> LedgerIdentityNote:
    """Some jobs in the embedded server's ledger, which is stopped then; what is known of it."""
    identity_note = expected(settings.data_dir, settings.cluster_id)

    async def write(url: str) -> LedgerIdentityNote:
        async with opened(url, identity_note) as (ledger, desk):
            if not (await ledger.snapshot()).nodes.rows:
                await desk.store(*cluster())
            await desk.store(*(job(jid) for jid in jobs))
            return LedgerIdentityNote(ledger.cluster, ledger.newest)

    with embedded(settings) as server:
        now = asyncio.run(write(server.url))
    note(path_of(settings.data_dir), now)
    return now


def wiped(settings: Settings) -> None:
    """The disk is new; our note of it was elsewhere."""
    shutil.rmtree(settings.data_dir / "appendonlydir")


def test_an_empty_server_is_accepted_only_on_demand(settings: Settings) -> None:
    identity_note = written(settings, 1, 2)
    shown_object = ledger_status()
    assert (shown_object["condition"], shown_object["cluster"]) == ("ours", identity_note.cluster)
    assert shown_object["counts"] == {"nodes": 4, "queues": 3, "jobs": 2, "tasks": 0, "objects": 0}
    assert "nothing to restore" in invoke("restore").stdout
    wiped(settings)
    assert invoke("show").exit_code == 1
    assert ledger_status()["condition"] == "empty"
    text = refused("restore")
    assert f"ledger {identity_note.cluster} was expected" in text
    assert "Lost: every object" in text
    assert "add --yes" in text
    assert expected(settings.data_dir, settings.cluster_id) == identity_note, "nothing was done"
    result = invoke("restore", "--yes")
    assert result.exit_code == 0, result.output
    assert recall(path_of(settings.data_dir)) == LedgerIdentityNote(identity_note.cluster, "0-0")
    assert ledger_status()["condition"] == "ours"
    assert written(settings, 3).cluster == identity_note.cluster


def test_an_old_copy_is_told_by_what_its_log_lacks(settings: Settings) -> None:
    old = written(settings, 1)
    copy = settings.run_dir / "copy"
    shutil.copytree(settings.data_dir / "appendonlydir", copy)
    new = written(settings, 2)
    wiped(settings)
    copy.rename(settings.data_dir / "appendonlydir")
    assert ledger_status()["condition"] == "old copy"
    with pytest.raises(LedgerBehind, match=new.log):
        written(settings, 2)  # who tries it changes nothing of what its log has, or lacks
    assert ledger_status()["condition"] == "old copy"
    text = refused("restore")
    assert f"({old.log})" in text
    assert f"({new.log})" in text
    assert "also those acknowledged" in text
    assert invoke("restore", "--yes").exit_code == 0
    assert recall(path_of(settings.data_dir)).log == ledger_status()["log"]
    assert ledger_status()["condition"] == "ours"
    written(settings, 3)


def test_a_ledger_without_its_identity_is_restored_with_its_data(
    settings: Settings, embedded_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUADRANT_REDIS_URL", embedded_server.url)
    flush(embedded_server)
    assert ledger_status()["condition"] == "new"

    async def fill() -> str:
        async with opened(embedded_server.url, LedgerIdentityNote()) as (ledger, desk):
            await desk.store(*cluster())
            return ledger.cluster

    result = asyncio.run(fill())
    note(path_of(settings.data_dir), LedgerIdentityNote("other", "0"))
    assert ledger_status()["condition"] == "another"
    assert f"This is ledger {result}" in refused("restore")
    with monkeypatch.context() as patch:
        patch.setenv("QUADRANT_CLUSTER_ID", "wanted")
        assert f"set it to {result}" in refused("restore", "--yes")
        assert recall(path_of(settings.data_dir)) == LedgerIdentityNote("other", "0")
    with redis.Redis.from_url(embedded_server.url, protocol=2) as client:
        assert client.hdel("{quadrant}:meta", "cluster")
        assert ledger_status()["condition"] == "unnamed"
        assert "Nothing on the server is lost" in refused("restore")
        assert invoke("restore", "--yes").exit_code == 0
        assert ledger_status()["cluster"] == "other"
        assert not client.hexists("{quadrant}:meta", "run"), "nothing before the next blessing"


def test_nothing_is_restored_under_a_coordinator(
    settings: Settings, embedded_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUADRANT_REDIS_URL", embedded_server.url)
    flush(embedded_server)
    note(path_of(settings.data_dir), LedgerIdentityNote("other", "0"))

    async def lead() -> None:
        ledger = RedisLedger(embedded_server.url)
        await ledger.open()
        await ledger.claim(COORDINATOR, lease=60.0, holder="host-1")
        await ledger.close()

    asyncio.run(lead())
    assert "a coordinator (host-1) leads on this ledger; stop it" in refused("restore", "--yes")
    assert ledger_status()["leader"]["holder"] == "host-1"
    assert recall(path_of(settings.data_dir)) == LedgerIdentityNote("other", "0")
    flush(embedded_server)


@pytest.mark.parametrize("schema", [1, 99])
def test_a_ledger_of_another_schema_is_reported_and_not_changed(
    settings: Settings, schema: int
) -> None:
    written(settings)
    with embedded(settings) as server:
        with redis.Redis.from_url(server.url, protocol=2) as client:
            client.hset("{quadrant}:meta", "schema", schema)
        assert "stop it first" in refused("restore", "--yes"), "somebody may use it"
        assert ledger_status()["condition"] == "other schema", "to look at it is free"
    assert f"schema {schema}, this version knows" in refused("restore", "--yes")


def test_where_no_ledger_ever_was(settings: Settings) -> None:
    assert "no ledger was ever kept in it" in refused("show")
    settings.data_dir.mkdir(parents=True)
    (settings.data_dir / FILE).write_text("{")
    assert "cannot be read" in refused("show")
