"""A lost ledger of a Kubernetes cluster: begun anew by whoever starts on it, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import redis

from coordinator.service.observed.refilling import refilled
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.access import Access
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.identity import LedgerIdentityNote, expected, note, path_of
from shared.ledger.redis.server import EmbeddedServer
from tests.conftest import flush
from tests.shared.ledger.support import Desk, cluster


@pytest_asyncio.fixture
async def url(embedded_server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[str]:
    """A ledger with something in it, which this data directory knows."""
    flush(embedded_server.url)
    ledger = RedisLedger(embedded_server.url)
    await (await Desk(ledger).open()).store(*cluster())
    note(path_of(tmp_path), LedgerIdentityNote(ledger.cluster, ledger.newest))
    await ledger.close()
    yield embedded_server.url


async def begun(url: str, data_dir: Path, cluster_id: str = "") -> LedgerIdentityNote:
    return await refilled(Access(url), data_dir, cluster_id)


def foresee(data_dir: Path) -> None:
    """Have seen an entry that the ledger does not have: it is an old copy."""
    identity = expected(data_dir, "")
    note(path_of(data_dir), LedgerIdentityNote(identity.cluster, "9999999999999-0"))


async def test_an_unchanged_ledger_is_not_refilled(url: str, tmp_path: Path) -> None:
    identity = expected(tmp_path, "")
    assert await begun(url, tmp_path) == identity


async def test_an_empty_server_becomes_another_ledger(url: str, tmp_path: Path) -> None:
    identity = expected(tmp_path, "")
    flush(url)
    founded = await begun(url, tmp_path)
    assert founded.cluster not in ("", identity.cluster)
    assert expected(tmp_path, "") == founded
    ledger = RedisLedger(url, cluster=founded.cluster)
    assert await ledger.open() == founded.cluster
    await ledger.close()


async def test_an_old_copy_is_emptied_and_leaves_what_others_keep_there(
    url: str, tmp_path: Path
) -> None:
    foresee(tmp_path)
    with redis.Redis.from_url(url, protocol=2) as server:
        server.set("somebody-else", "1")
        founded = await begun(url, tmp_path)
        keys = set(server.keys())
    assert keys == {b"somebody-else", b"{quadrant}:meta"}
    assert founded == expected(tmp_path, "")


async def test_concurrent_starts_take_the_same_new_ledger(url: str, tmp_path: Path) -> None:
    foresee(tmp_path)
    first, second = await asyncio.gather(begun(url, tmp_path), begun(url, tmp_path))
    assert first.cluster == second.cluster == expected(tmp_path, "").cluster


async def test_a_copy_that_is_led_is_not_touched(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.service.observed.refilling.PATIENCE_SECONDS", 0.5)
    foresee(tmp_path)
    ledger = RedisLedger(url)
    await ledger.claim(COORDINATOR, lease=60.0)
    before = await ledger.cluster_id()
    await begun(url, tmp_path)
    assert await ledger.cluster_id() == before
    await ledger.close()


async def test_a_ledger_that_the_settings_name_is_never_replaced(url: str, tmp_path: Path) -> None:
    flush(url)
    assert (await begun(url, tmp_path, "pinned")).cluster == "pinned"
    with redis.Redis.from_url(url, protocol=2) as server:
        assert server.keys() == []
