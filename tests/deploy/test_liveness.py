"""The coordinator's liveness probe, run here: it asks the API, and notices another Ray head."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from coordinator.api.app import make_app
from coordinator.api.listener.certificate import ServingCertificate
from coordinator.api.listener.listener import Listener, ListenerOptions
from laboratory.local_kubernetes.authority import Authority
from tests.deploy.rendered import one, render
from tests.end_to_end.one_process.harness import free_port


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Port of an API without a service behind it."""

    def nothing(*_: Any, **__: Any) -> Awaitable[Any]:
        raise AssertionError("not called")

    runner = web.AppRunner(make_app(submit=nothing, status=dict, ready=lambda: False))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield int(runner.addresses[0][1])
    await runner.cleanup()


@pytest.fixture
async def tls_port(tmp_path: Path) -> AsyncIterator[int]:
    """Port of a listener that speaks TLS."""

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/livez", alive)
    pair = Authority(tmp_path, "authority").issue("quadrant")
    port = free_port()
    listener = Listener(app, ListenerOptions(tls=ServingCertificate(*pair)), shutdown_seconds=0.1)
    async with asyncio.TaskGroup() as group, listener.open("127.0.0.1", port, group):
        yield port


async def run(part: str, directory: Path, port: int, *, overlay: str = "shadow") -> int:
    """Exit code of the coordinator's start (without its last line) or of its liveness probe."""
    spec = one(render(overlay), "Deployment", "quadrant-coordinator")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    probe = container["livenessProbe"]["exec"]["command"]
    *shell, script = container["command"] if part == "start" else probe
    script = script.replace("/tmp/", f"{directory}/").replace("127.0.0.1/8080", f"127.0.0.1/{port}")
    script = script.replace('"127.0.0.1", 8080', f'"127.0.0.1", {port}')
    script = script.replace("exec python -m coordinator.service", "")
    process = await asyncio.create_subprocess_exec(*shell, script)
    async with asyncio.timeout(60):
        return await process.wait()


async def test_it_lives_as_long_as_the_head_it_joined(port: int, tmp_path: Path) -> None:
    latest = tmp_path / "ray/session_latest"
    latest.parent.mkdir()
    latest.symlink_to(tmp_path / "session_1")
    assert await run("start", tmp_path, port) == 0
    assert await run("probe", tmp_path, port) == 0

    latest.unlink()
    latest.symlink_to(tmp_path / "session_2")
    assert await run("probe", tmp_path, port) != 0
    assert await run("start", tmp_path, port) == 0
    assert await run("probe", tmp_path, port) == 0


async def test_it_lives_behind_tls_too(tls_port: int, port: int, tmp_path: Path) -> None:
    latest = tmp_path / "ray/session_latest"
    latest.parent.mkdir()
    latest.symlink_to(tmp_path / "session_1")
    assert await run("start", tmp_path, tls_port, overlay="kubernetes") == 0
    assert await run("probe", tmp_path, tls_port, overlay="kubernetes") == 0
    assert await run("probe", tmp_path, port, overlay="kubernetes") != 0, "it speaks no TLS"
    latest.unlink()
    latest.symlink_to(tmp_path / "session_2")
    assert await run("probe", tmp_path, tls_port, overlay="kubernetes") != 0


async def test_it_is_dead_without_an_api(tmp_path: Path, unused_tcp_port: int) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/session_latest").symlink_to(tmp_path / "session_1")
    assert await run("start", tmp_path, unused_tcp_port) == 0
    assert await run("probe", tmp_path, unused_tcp_port) != 0
