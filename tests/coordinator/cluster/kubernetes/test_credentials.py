"""Tokens that somebody replaces: what is sent while no new one can be had."""

from __future__ import annotations

import json
import os
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.client.client import KubeClient, KubeError
from coordinator.cli.client.kubeconfig import find_access
from coordinator.cluster.kubernetes.api import credentials
from coordinator.cluster.kubernetes.api.client import ApiError, ApiReader
from coordinator.cluster.kubernetes.api.credentials import (
    EARLY_SECONDS,
    ApiServer,
    MountedToken,
    TokenProgram,
    from_kubeconfig,
)
from coordinator.cluster.kubernetes.api.pool import NotSent, WritePool
from laboratory.local_kubernetes.authority import Authority
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


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({}, {}, "its cluster names no server"),
        ({"server": "https://api"}, {"as": "somebody"}, "users.*user.as is not supported"),
        (
            {"server": "https://api", "certificate-authority-data": "UEVN"},
            {},
            "the certificate authority is not PEM",
        ),
        (
            {"server": "https://api"},
            {"client-certificate-data": "UEVN", "client-key-data": "UEVN"},
            "client-certificate and client-key are no pair",
        ),
    ],
)
def test_the_command_and_the_service_refuse_the_same_context(
    tmp_path: Path, cluster: dict[str, str], user: dict[str, str], message: str
) -> None:
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=f"context x: {message}"):
        from_kubeconfig(path)
    with pytest.raises((ConfigError, KubeError), match=f"context x: {message}"):
        KubeClient(find_access(environ={"KUBECONFIG": str(path)}), patience=0.0).get("/version")


def test_the_service_believes_a_servers_own_certificate(tmp_path: Path) -> None:
    """As every client in Go, and as the command does."""
    server = {"server": "https://api", "certificate-authority": "ca.crt"}
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": server}],
    }
    certificate = Authority(tmp_path, "ca").certificate
    (tmp_path / "ca.crt").write_bytes(certificate.read_bytes())
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    tls = from_kubeconfig(path).tls
    assert tls is not None
    assert tls.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
