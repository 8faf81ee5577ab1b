"""Commands that follow a service or wait for it end at Ctrl-C: 130, no traceback, the terminal as
before.

About 10 s: a service in this process, and each command as a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import pty
import select
import signal
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from coordinator.supervisor.child_process import descendants
from shared.ledger.redis.server import EmbeddedServer
from tests.builders.objects import container, node, pod
from tests.conftest import flush
from tests.end_to_end.one_process.harness import Running, running, submit

PATIENCE = 60.0
"""Seconds, on a machine that does much else: nothing ends a command that follows but Ctrl-C."""


async def _served(service: Running) -> None:
    """A pod that runs, and one that waits for ever."""
    items = [node("n0"), pod("runs"), pod("waits", containers=[container(cpu="999")])]
    await submit(service, *items)
    await service.until(lambda status: status["tasks"]["running"] == 1)


def _environment(home: Path, url: str) -> dict[str, str]:
    environ = {k: v for k, v in os.environ.items() if k not in ("KUBECONFIG", "NO_COLOR")}
    return environ | {"HOME": str(home), "QUADRANT_SERVER": url, "TERM": "xterm"}


async def _interrupt(
    words: Sequence[str], home: Path, url: str, *, begun: bytes, screen: bool = False
) -> None:
    """Ctrl-C once the output holds ``begun``. ``screen``: the command has a terminal."""
    end, terminal = pty.openpty() if screen else os.pipe()
    before = termios.tcgetattr(end) if screen else None
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "laboratory.cli", *words),
        stdin=terminal if screen else asyncio.subprocess.DEVNULL,
        stdout=terminal,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(home, url),
        start_new_session=True,
    )
    if not screen:
        os.close(terminal)
    try:
        assert begun in await asyncio.to_thread(_read_until, end, begun)
        children = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            _, error = await process.communicate()
        assert (process.returncode, children) == (130, set()), error
        assert b"Traceback" not in error
        assert before is None or termios.tcgetattr(end) == before
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(end)
        if screen:
            os.close(terminal)


def _read_until(end: int, begun: bytes) -> bytes:
    """Read from the other end until it holds ``begun``, or nothing more comes."""
    observed, deadline = b"", time.monotonic() + PATIENCE
    while begun not in observed and time.monotonic() < deadline:
        if select.select([end], [], [], 0.2)[0]:
            if not (more := os.read(end, 65536)):
                break
            observed += more
    return observed


FOLLOWING = {
    "get": ("get pods -n ns -w", b"waits", False),
    "get on a terminal": ("get pods -n ns -w", b"waits", True),
    "events": ("events -n ns -w", b"waits", False),
    "trace": ("trace pod waits -n ns --seconds 600", b"job order", False),
    "top": ("top --interval 100ms", b"shard", True),
}
"""Command, what its output holds when it follows, and whether it has a terminal."""


@pytest.mark.parametrize("name", FOLLOWING)
async def test_a_following_command_ends_at_ctrl_c(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path, name: str
) -> None:
    command, begun, screen = FOLLOWING[name]
    flush(embedded_server)
    async with running(embedded_server.url, short_dir) as service:
        await _served(service)
        await _interrupt(command.split(), tmp_path, service.url, begun=begun, screen=screen)


async def test_a_waiting_command_ends_at_ctrl_c(
    embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    """One of the two is there at once, and is told; the other never comes."""
    flush(embedded_server)
    goal = "--for=condition=PodScheduled"
    words = ["wait", goal, "pod/runs", "pod/waits", "-n", "ns", "--timeout=600s"]
    async with running(embedded_server.url, short_dir) as service:
        await _served(service)
        await _interrupt(words, tmp_path, service.url, begun=b"runs")
