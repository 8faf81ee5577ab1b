"""Where the coordinator listens: beyond this machine only with tokens, and at no taken address."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest
from aiohttp import web

from coordinator.api.auth.tokens import new_token
from coordinator.api.listener.listener import Listener, ListenerOptions
from coordinator.api.listener.policy import open_gate
from coordinator.service.process import exit_code
from shared.settings.settings import SettingsError, load_settings
from shared.telemetry.logging import configure_logging
from tests.coordinator.api.auth.files import entry, write_tokens


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_on_this_machine_none_is_asked_for(tmp_path: Path, host: str) -> None:
    assert open_gate(load_settings(run_dir=tmp_path, listen_host=host)) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "", "example.com", "127.0.0.1.nip"])
def test_beyond_it_the_server_does_not_start_without(tmp_path: Path, host: str) -> None:
    with pytest.raises(SettingsError) as error:
        open_gate(load_settings(run_dir=tmp_path, listen_host=host))
    output = str(error.value)
    assert output.startswith("QUADRANT_LISTEN_HOST: ")
    assert "QUADRANT_TOKENS_FILE" in output
    assert "quadrant token new" in output


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_with_a_file_they_are_asked_for_everywhere(tmp_path: Path, host: str) -> None:
    token = new_token()
    path = write_tokens(tmp_path / "tokens", entry("a", "view", token))
    tokens = open_gate(load_settings(run_dir=tmp_path, listen_host=host, tokens_file=path))
    assert tokens is not None
    assert tokens.find(token) is not None


def test_client_environment_variables_are_not_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """``quadrant up`` may run where QUADRANT_TOKEN is set for the commands beside it."""
    for name in ("QUADRANT_SERVER", "QUADRANT_TOKEN", "QUADRANT_TOKEN_FILE"):
        monkeypatch.setenv(name, "x")
    assert load_settings().tokens_file is None
    monkeypatch.setenv("QUADRANT_TOKENS", "x")
    with pytest.raises(SettingsError, match="did you mean QUADRANT_TOKENS_FILE"):
        load_settings()


def test_a_taken_address_ends_the_coordinator_with_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        async def listen() -> None:
            listener = Listener(web.Application(), ListenerOptions(), shutdown_seconds=0.1)
            async with asyncio.TaskGroup() as group, listener.open("127.0.0.1", port, group):
                pass

        configure_logging("info", "json")
        assert exit_code(lambda: asyncio.run(listen())) == 1
    output = capsys.readouterr()
    (line,) = [json.loads(line) for line in (output.out + output.err).splitlines()]
    assert line["event"] == "Cannot listen"
    assert line["why"] == (
        f"listen_host 127.0.0.1, listen_port {port}: Address already in use; end what listens "
        "there, or set QUADRANT_LISTEN_HOST or QUADRANT_LISTEN_PORT"
    )
