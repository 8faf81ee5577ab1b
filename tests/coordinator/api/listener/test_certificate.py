"""TLS of the listener: files that are followed, and clients that never finish a handshake."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from coordinator.api.listener import certificate, connections, listener
from coordinator.api.listener.certificate import ServingCertificate
from coordinator.api.listener.listener import Listener, ListenerOptions, listener_options
from coordinator.supervisor.readiness import answers_well
from laboratory.local_kubernetes.authority import Authority, openssl
from shared.settings.settings import SettingsError, load_settings
from tests.end_to_end.one_process.harness import free_port

SECONDS = 60.0


@dataclass
class Files:
    """The pair that the listener has, and who issues it."""

    folder: Path
    authority: Authority

    @property
    def certificate(self) -> Path:
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        return self.folder / "tls.key"

    def put(self, name: str, *, of_key: str = "") -> None:
        """Issue a certificate of this name; ``of_key``: with the key of another."""
        certificate, key = self.authority.issue(name, address="127.0.0.1")
        if of_key:
            _, key = self.authority.issue(of_key, address="127.0.0.1")
        shutil.copy(certificate, self.certificate)
        shutil.copy(key, self.key)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    files = Files(tmp_path, Authority(tmp_path, "authority"))
    files.put("first")
    return files


@contextlib.asynccontextmanager
async def listening(pair: ServingCertificate) -> AsyncIterator[int]:
    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/livez", alive)
    port = free_port()
    listener = Listener(app, ListenerOptions(tls=pair), shutdown_seconds=0.1)
    async with asyncio.TaskGroup() as group, listener.open("127.0.0.1", port, group):
        yield port


def trusting(files: Files) -> aiohttp.TCPConnector:
    return aiohttp.TCPConnector(
        ssl=ssl.create_default_context(cafile=str(files.authority.certificate))
    )


async def shown_to(files: Files, port: int) -> str:
    """The name on the certificate that a new connection is shown."""
    trust = ssl.create_default_context(cafile=str(files.authority.certificate))
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    try:
        subject = writer.get_extra_info("peercert")["subject"]
        return str(dict(part for parts in subject for part in parts)["commonName"])
    finally:
        writer.close()


async def test_a_renewed_certificate_is_shown_to_new_connections_and_old_ones_go_on(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate, "LOOK_SECONDS", 0.05)
    pair = ServingCertificate(files.certificate, files.key)
    async with listening(pair) as port, aiohttp.ClientSession(connector=trusting(files)) as old:
        url = f"https://127.0.0.1:{port}/livez"
        assert await (await old.get(url)).text() == "ok"
        assert await shown_to(files, port) == "first"
        files.put("second")
        async with asyncio.timeout(SECONDS):
            while await shown_to(files, port) != "second":  # noqa: ASYNC110  (the files are looked at)
                await asyncio.sleep(0.02)
        answer = await old.get(url)
        assert await answer.text() == "ok"
    assert pair.error == ""


def test_a_pair_that_does_not_belong_together_changes_nothing(files: Files) -> None:
    pair = ServingCertificate(files.certificate, files.key)
    before = pair.context
    files.put("second", of_key="third")
    assert not pair.look()  # seen once: it may be half written
    assert not pair.look()
    assert pair.context is before
    assert "KEY_VALUES_MISMATCH" in pair.error
    assert "an older certificate is shown" in pair.check().look()
    files.put("second")
    assert not pair.look()
    assert pair.look()
    assert pair.context is not before
    assert pair.check().look() == ""


def test_deleted_files_leave_the_last_content(files: Files) -> None:
    pair = ServingCertificate(files.certificate, files.key)
    files.key.unlink()
    assert not pair.look()
    assert not pair.look()
    assert f"cannot read {files.key}" in pair.error


def test_an_encrypted_key_is_an_error_and_no_question(files: Files) -> None:
    locked = files.folder / "locked.key"
    openssl("pkey", "-in", files.key, "-aes256", "-passout", "pass:secret", "-out", locked)
    with pytest.raises(SettingsError, match="not encrypted") as error:
        ServingCertificate(files.certificate, locked)
    assert str(error.value).startswith("QUADRANT_TLS_CERT_FILE, QUADRANT_TLS_KEY_FILE: ")


def test_the_settings_name_both_or_none(files: Files) -> None:
    settings = load_settings(tls_cert_file=files.certificate, tls_key_file=files.key)
    assert settings.scheme == "https"
    assert listener_options(settings).tls is not None
    with pytest.raises(SettingsError, match="set both"):
        load_settings(tls_cert_file=files.certificate)
    missing = load_settings(tls_cert_file=files.certificate, tls_key_file=files.folder / "no")
    with pytest.raises(SettingsError, match="cannot read"):
        listener_options(missing)


async def test_probes_speak_tls_too(files: Files) -> None:
    async with listening(ServingCertificate(files.certificate, files.key)) as port:
        settings = load_settings(tls_cert_file=files.certificate, tls_key_file=files.key)
        assert await answers_well(settings, port, "/livez")
        assert not await answers_well(load_settings(), port, "/livez")


async def test_handshakes_that_do_not_end_give_way(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "most_connections", lambda _: 8)
    monkeypatch.setattr(connections, "GRACE_SECONDS", 0.0)
    async with listening(ServingCertificate(files.certificate, files.key)) as port:
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
        try:
            async with asyncio.timeout(SECONDS):
                assert await shown_to(files, port) == "first"
            silent[0].settimeout(SECONDS)
            assert await asyncio.to_thread(silent[0].recv, 1) == b"", "the one that waited longest"
        finally:
            for one in silent:
                one.close()


async def test_a_handshake_that_does_not_end_is_ended(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.2)
    async with listening(ServingCertificate(files.certificate, files.key)) as port:
        with socket.create_connection(("127.0.0.1", port)) as silent:
            silent.settimeout(SECONDS)
            assert await asyncio.to_thread(silent.recv, 1) == b""
