"""Nobody beyond this machine comes in without a token."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.api.auth.tokens import new_token
from coordinator.api.listener.policy import open_gate
from shared.settings.settings import SettingsError, load_settings
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
