"""Tokens that somebody replaces: what is sent while no new one can be had."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coordinator.cluster.kubernetes.api import credentials
from coordinator.cluster.kubernetes.api.client import ApiError, ApiReader
from coordinator.cluster.kubernetes.api.credentials import (
    EARLY_SECONDS,
    ApiServer,
    MountedToken,
    TokenProgram,
)
from coordinator.cluster.kubernetes.api.pool import NotSent, WritePool
from shared.kubeconfig import ConfigError


def program(directory: Path) -> TokenProgram:
    """One that prints what is in the file ``credential``."""
    script = directory / "token"
    script.write_text('#!/bin/sh\nexec cat "$(dirname "$0")/credential"\n')
    script.chmod(0o700)
    version = "client.authentication.k8s.io/v1"
    return TokenProgram(["./token"], dict(os.environ), version, directory)


def prints(directory: Path, token: str, seconds: float) -> None:
    expires = datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()
    status = {"token": token, "expirationTimestamp": expires}
    (directory / "credential").write_text(json.dumps({"status": status}))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Seconds that are added to both clocks."""

    class Later:
        seconds = 0.0

    later, wall, running = Later(), time.time, time.monotonic
    monkeypatch.setattr(time, "time", lambda: wall() + later.seconds)
    monkeypatch.setattr(time, "monotonic", lambda: running() + later.seconds)
    return later


async def test_a_program_that_fails_leaves_its_token_until_that_expires(
    tmp_path: Path, now: Any
) -> None:
    tokens = program(tmp_path)
    prints(tmp_path, "first", 600)
    assert await tokens.token() == "first"
    (tmp_path / "credential").unlink()
    now.seconds = 600 - EARLY_SECONDS + 1
    assert await tokens.token() == "first"
    prints(tmp_path, "second", 1200)
    assert await tokens.token() == "first", "it is not run for every request"
    now.seconds += credentials.AGAIN_SECONDS
    assert await tokens.token() == "second"
    (tmp_path / "credential").unlink()
    now.seconds = 2000
    with pytest.raises(ConfigError, match="ended with 1; run it by hand"):
        await tokens.token()


async def test_a_file_that_is_away_leaves_its_token(tmp_path: Path, now: Any) -> None:
    file = tmp_path / "token"
    with pytest.raises(ConfigError):
        await MountedToken(file).token()
    file.write_text("first\n")
    tokens = MountedToken(file)
    assert await tokens.token() == "first"
    file.unlink()
    now.seconds = credentials.REREAD_SECONDS
    assert await tokens.token() == "first"
    file.write_text("second\n")
    now.seconds += credentials.AGAIN_SECONDS
    assert await tokens.token() == "second"


async def test_without_a_token_nothing_is_asked_and_nothing_sent(tmp_path: Path) -> None:
    """It is an answer that is missing, which everybody who asks survives."""
    server = ApiServer("http://127.0.0.1:9", "test", None, program(tmp_path))
    async with ApiReader(server) as reader:
        with pytest.raises(ApiError, match="ended with 1; run it by hand"):
            await reader.get("/api/v1/pods")
        with pytest.raises(ApiError, match="ended with 1"):
            async for _ in reader.watch("/api/v1/pods", "1"):
                pass
    pool = WritePool(server)
    with pytest.raises(NotSent, match="ended with 1"):
        await pool.send("POST", "/api/v1/namespaces", b"{}", seconds=1.0)
