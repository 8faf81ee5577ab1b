"""Identity of a ledger and the last position seen: remembered, and compared with the server."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from shared.ledger.errors import LedgerBehind, LedgerIdentity
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.identity import (
    LAG_SECONDS,
    IdentityNotes,
    LedgerIdentityNote,
    expected,
    note,
    path_of,
    recall,
    remembering,
)
from shared.ledger.redis.server import EmbeddedServer
from shared.settings.settings import Settings, load_settings
from tests.conftest import flush


def settings(path: Path, **more: str) -> Settings:
    return load_settings(run_dir=path, **more)


def test_a_written_identity_note_is_read_back(short_dir: Path) -> None:
    path = short_dir / "made" / "ledger.json"
    assert recall(path) == LedgerIdentityNote()
    for identity in (LedgerIdentityNote("a", "17-3"), LedgerIdentityNote("b", "0")):
        note(path, identity)
        assert recall(path) == identity
    assert [p.name for p in path.parent.iterdir()] == ["ledger.json"], "no drafts are left"


@pytest.mark.parametrize("text", ["", "{}", "[]", "{", '{"cluster": "a", "log": "x-y"}'])
def test_a_broken_note_is_told_and_not_taken_for_none(short_dir: Path, text: str) -> None:
    path = short_dir / "ledger.json"
    path.write_text(text)
    with pytest.raises(LedgerIdentity, match=r"cannot be read: .*remove it"):
        recall(path)


def test_the_setting_goes_before_the_note(short_dir: Path) -> None:
    options = settings(short_dir, cluster_id="set")
    assert expected(options.data_dir, options.cluster_id) == LedgerIdentityNote("set")
    note(path_of(options.data_dir), LedgerIdentityNote("noted", "5-0"))
    assert expected(options.data_dir, options.cluster_id) == LedgerIdentityNote("set")
    assert expected(options.data_dir, "") == LedgerIdentityNote("noted", "5-0")
    assert expected(options.data_dir, "noted") == LedgerIdentityNote("noted", "5-0")


class LedgerWithSeen(RedisLedger):
    """One that was told of log ids."""

    def __init__(self, cluster: str) -> None:
        super().__init__("unix:///nowhere", cluster=cluster)

    def saw(self, log_id: str) -> None:
        self._saw(log_id)


@pytest.mark.parametrize(
    ("fsync", "logs"),
    [
        ("always", ["1-0", "2-0", "3-0", "3-0"]),
        ("everysec", ["0", "0", "0", "2-0"]),
        ("no", ["0", "0", "0", "0"]),
    ],
)
def test_a_log_id_is_noted_once_the_server_cannot_lose_it_any_more(
    short_dir: Path, fsync: str, logs: list[str]
) -> None:
    notes, ledger = (
        IdentityNotes(short_dir / "ledger.json", lag=LAG_SECONDS.get(fsync)),
        LedgerWithSeen("c"),
    )
    positions: list[str] = []
    for now, log_id in ((0.0, "1-0"), (1.0, "2-0"), (4.0, "3-0"), (7.0, "3-0")):
        ledger.saw(log_id)
        identity = notes.look(ledger, now=now)
        if identity is not None:
            notes.keep(identity)
        positions.append(recall(short_dir / "ledger.json").log)
    assert positions == logs
    assert notes.look(ledger, now=8.0) is None, "nothing is new"


@pytest.mark.parametrize(("fsync", "log"), [("always", "9-0"), ("everysec", "9-0"), ("no", "0")])
def test_a_short_lived_leader_keeps_the_position_in_the_note(
    short_dir: Path, fsync: str, log: str
) -> None:
    path, ledger = short_dir / "ledger.json", LedgerWithSeen("c")
    note(path, LedgerIdentityNote("c", "9-0"))
    ledger.saw(recall(path).log)
    notes = IdentityNotes(path, lag=LAG_SECONDS.get(fsync))
    if identity := notes.look(ledger, now=0.0):
        notes.keep(identity)
    assert recall(path) == LedgerIdentityNote("c", log)


def test_a_note_of_another_ledger_is_ignored(short_dir: Path) -> None:
    path = short_dir / "ledger.json"
    note(path, LedgerIdentityNote("another", "9-0"))
    assert IdentityNotes(path, lag=LAG_SECONDS["everysec"]).look(
        LedgerWithSeen("c"), now=0.0
    ) == LedgerIdentityNote("c", "0")


def test_nothing_is_noted_of_a_ledger_that_was_not_opened(short_dir: Path) -> None:
    assert (
        IdentityNotes(short_dir / "ledger.json", lag=0.0).look(LedgerWithSeen(""), now=0.0) is None
    )


async def test_where_it_cannot_be_noted_the_work_goes_on_and_it_is_tried_again(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.ledger.redis.identity.NOTE_SECONDS", 0.01)
    options = settings(short_dir)
    options.data_dir.mkdir(parents=True)
    blocked = path_of(options.data_dir).with_name(
        f".{path_of(options.data_dir).name}.{os.getpid()}"
    )
    blocked.mkdir()
    server = EmbeddedServer(short_dir / "s", short_dir / "s" / "data", fsync="no")
    server.start()
    ledger = RedisLedger(server.url)
    try:
        await ledger.open()
        async with remembering(options.data_dir, ledger, fsync=options.fsync):
            await asyncio.sleep(0.1)
            assert recall(path_of(options.data_dir)) == LedgerIdentityNote()
            blocked.rmdir()
            for _ in range(1000):
                if recall(path_of(options.data_dir)).cluster == ledger.cluster:
                    break
                await asyncio.sleep(0.01)
            assert recall(path_of(options.data_dir)).cluster == ledger.cluster
    finally:
        await ledger.close()
        server.stop()


async def test_an_empty_or_another_server_is_refused_where_one_is_remembered(
    embedded_server: EmbeddedServer, short_dir: Path
) -> None:
    flush(embedded_server)
    options = settings(short_dir)
    first = RedisLedger(embedded_server.url)
    async with remembering(options.data_dir, first, fsync=options.fsync):
        cluster = await first.open()
        await first.claim(COORDINATOR)
        tail = await first.log_tail()
        for _ in range(200):
            if recall(path_of(options.data_dir)) == LedgerIdentityNote(cluster, tail):
                break
            await asyncio.sleep(0.05)
    await first.close()
    assert json.loads(path_of(options.data_dir).read_text()) == {"cluster": cluster, "log": tail}
    identity = expected(options.data_dir, options.cluster_id)
    flush(embedded_server)
    later = RedisLedger(embedded_server.url, cluster=identity.cluster, newest=identity.log)
    with pytest.raises(LedgerIdentity, match=f"of {cluster} is missing.*quadrant ledger restore"):
        await later.open()
    await later.close()
    stranger = RedisLedger(embedded_server.url)
    await stranger.open()
    await stranger.close()
    later = RedisLedger(embedded_server.url, cluster=identity.cluster, newest=identity.log)
    with pytest.raises(LedgerIdentity, match=f"not {cluster}.*quadrant ledger restore"):
        await later.open()
    await later.close()


async def test_an_old_copy_is_refused_also_by_a_coordinator_that_begins(
    embedded_server: EmbeddedServer,
) -> None:
    flush(embedded_server)
    ledger = RedisLedger(embedded_server.url)
    cluster = await ledger.open()
    await ledger.close()
    later = RedisLedger(embedded_server.url, cluster=cluster, newest="99999999999999-0")
    epoch = await later.claim(COORDINATOR)
    with pytest.raises(LedgerBehind, match=r"have 99999999999999-0.*quadrant ledger restore"):
        await later.bless(epoch)
    await later.close()


async def test_in_an_emptied_ledger_the_news_is_not_that_nobody_leads(short_dir: Path) -> None:
    server = EmbeddedServer(short_dir, short_dir / "data", fsync="no")
    server.start()
    ledger = RedisLedger(server.url)
    try:
        await ledger.open()
        epoch = await ledger.claim(COORDINATOR, lease=10.0)
        flush(server)
        for ask in (
            ledger.renew(COORDINATOR, epoch, lease=10.0),
            ledger.claim("0", leader=epoch, lease=10.0),
            ledger.bless(epoch),
        ):
            with pytest.raises(LedgerIdentity, match="quadrant ledger restore"):
                await ask
    finally:
        await ledger.close()
        server.stop()
