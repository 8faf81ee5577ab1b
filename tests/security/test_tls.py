"""TLS to the ledger's server: believed is who is named, and nobody else; we show who we are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from laboratory.local_kubernetes.authority import Authority
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.redis.access import Access
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.renewal import RedisRenewal
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import Verdict
from shared.settings.settings import SettingsError, load_settings
from tests.conftest import flush
from tests.security.tls import tls_before
from tests.shared.ledger.support import Desk, cluster

pytestmark = pytest.mark.skipif(which("openssl") is None, reason="no openssl here")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "ours")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "theirs")


@pytest.fixture
def server(embedded_server: EmbeddedServer) -> EmbeddedServer:
    flush(embedded_server)
    return embedded_server


async def refused(access: Access, why: str) -> None:
    ledger = RedisLedger(access)
    try:
        with pytest.raises(LedgerUnavailable, match=why):
            await ledger.open()
    finally:
        await ledger.close()


async def test_the_ledger_over_tls_with_certificates_on_both_sides(
    ours: Authority, theirs: Authority, server: EmbeddedServer
) -> None:
    ca = str(ours.certificate)
    certificate, key = map(str, ours.issue("scheduler"))
    other, other_key = map(str, theirs.issue("stranger"))
    async with tls_before(server, ours.issue("server"), clients=ours.certificate) as port:
        url = f"rediss://localhost:{port}"
        settings = load_settings(
            redis_url=url, redis_ca_file=ca, redis_cert_file=certificate, redis_key_file=key
        )
        ledger = RedisLedger(settings.access())
        desk = await Desk(ledger).open()
        assert (await desk.store(*cluster())).verdict is Verdict.COMMITTED
        assert await ledger.read_log("0")
        # the thread that keeps the lease has a connection of its own, by the same rules
        epoch = desk.epochs["0"]
        renewal = RedisRenewal(settings.access(), timeout=5.0)
        assert await asyncio.to_thread(renewal.renew, "0", epoch, lease=1.0)
        renewal.close()
        stranger = RedisRenewal(Access(url, ca=str(theirs.certificate)), timeout=5.0)
        with pytest.raises(LedgerUnavailable, match="certificate verify failed"):
            await asyncio.to_thread(stranger.renew, "0", epoch, lease=1.0)
        stranger.close()
        await ledger.close()
        await refused(Access(url, ca=ca), "no answer")  # shows nothing
        await refused(Access(url, ca=ca, certificate=other, key=other_key), "no answer")


async def test_an_untrusted_tls_server_is_refused(
    ours: Authority, theirs: Authority, server: EmbeddedServer
) -> None:
    ca = str(ours.certificate)
    async with tls_before(server, theirs.issue("server")) as port:
        await refused(Access(f"rediss://localhost:{port}", ca=ca), "certificate verify failed")
        await refused(Access(f"rediss://localhost:{port}"), "certificate verify failed")
    async with tls_before(server, ours.issue("server2", host="elsewhere")) as port:
        await refused(Access(f"rediss://localhost:{port}", ca=ca), "certificate")
    async with tls_before(server, ours.issue("server3")) as port:
        await refused(Access(f"redis://localhost:{port}"), "no answer")  # no way without


def test_settings_that_do_not_belong_together(ours: Authority, tmp_path: Path) -> None:
    url = "rediss://localhost:1"
    certificate, key = ours.issue("a")
    _, other_key = ours.issue("b")
    (tmp_path / "noise").write_text("noise")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"redis_url": "redis://h:1", "redis_ca_file": certificate}, "not rediss://"),
        ({"redis_url": url, "redis_cert_file": certificate}, "belong together"),
        ({"redis_url": url, "redis_key_file": key}, "belong together"),
        ({"redis_url": url, "redis_ca_file": tmp_path / "none"}, "name a readable file"),
        ({"redis_url": url, "redis_ca_file": tmp_path / "noise"}, "name PEM files"),
        (
            {"redis_url": url, "redis_cert_file": certificate, "redis_key_file": other_key},
            "name PEM files",
        ),
        ({"redis_url": "redis://:canary@h:1"}, "QUADRANT_REDIS_PASSWORD_FILE"),
        ({"redis_url": "redis://h:1?password=canary"}, "QUADRANT_REDIS_PASSWORD_FILE"),
        ({"redis_url": "rediss://h:1?ssl_cert_reqs=none"}, "leave the rest out"),
    ]
    for wrong, words in cases:
        with pytest.raises(SettingsError, match=words) as caught:
            load_settings(**wrong)
        assert "canary" not in str(caught.value)
    assert load_settings(redis_url="redis://h:1?db=3").redis_url == "redis://h:1?db=3"
