"""Addresses with a user and a password are shown without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from aiohttp import ClientSession
from typer.testing import CliRunner

from coordinator.api.auth.roles import RECORD
from laboratory.cli.app import app
from shared.ledger.redis.server import EmbeddedServer
from shared.policy.file import ACCEPTED_FILE
from shared.secrets.credentials import hide_credentials
from tests.end_to_end.one_process.harness import running
from tests.security.raw import empty

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redis://user:hunter2@host:6379/0", "redis://***@host:6379/0"),
        ("rediss://:hunter2@host", "rediss://***@host"),
        ("http://hunter2@host/path@2?a=b", "http://***@host/path@2?a=b"),
        ("http://a:hun@ter:hunter2@host", "http://***@host"),
        ("http://a:hunter2/x@host:80/p", "http://***@host:80/p"),
        ("https://u:hunter2@[::1]:9/", "https://***@[::1]:9/"),
        ("http:/u:hunter2@host", "http:/***@host"),
        ("at http://u:hunter2@a and 'http://v:hunter2@b'", "at http://***@a and 'http://***@b'"),
        ("http://host/?token=hunter2&x=1#f", "http://host/?token=***&x=1#f"),
        ("http://host?x=1&API_KEY=hunter2", "http://host?x=1&API_KEY=***"),
        ("http://host:80/users/@me", "http://host:80/users/@me"),
        ("http://host/users/@me", "http://host/users/@me"),
        ("/var/lib/a@b:c", "/var/lib/a@b:c"),
        ("redis://host:6379", "redis://host:6379"),
        ("me@example.com", "me@example.com"),
    ],
)
def test_credentials_in_an_address_are_hidden(text: str, expected: str) -> None:
    assert hide_credentials(text) == expected


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy whose addresses have passwords, in every place that takes one."""
    path = tmp_path / "policy.yaml"
    address = f"http://user:{SECRET}@127.0.0.1:9"
    extender = {"name": "extender", "arguments": {"extender.urlPrefix": address}}
    document = {
        "actions": "allocate",
        "tiers": [{"plugins": [{"name": "gang"}, extender, {"name": "usage"}]}],
        "metrics": {"type": "prometheus", "address": address},
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def test_the_record_has_none(
    embedded_server: EmbeddedServer,
    short_dir: Path,
    policy: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with (
        running(empty(embedded_server), short_dir, policy=policy) as service,
        ClientSession(service.url) as session,
    ):
        async with session.get(RECORD) as answer:
            record = await answer.text()
        async with session.get("/health") as answer:
            health = await answer.text()
    assert "http://***@127.0.0.1:9" in record
    assert (short_dir / ACCEPTED_FILE).stat().st_mode & 0o077 == 0
    out, err = capfd.readouterr()
    assert SECRET not in record + health + out + err


@pytest.mark.parametrize("form", ["table", "json"])
def test_config_show_has_none(
    form: str, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUADRANT_RAY_ADDRESS", f"ray://user:{SECRET}@head:6379")
    monkeypatch.setenv("QUADRANT_CLUSTER_SOCKET", f"unix://user:{SECRET}@socket")
    settings = tmp_path / "settings.yaml"
    settings.write_text(json.dumps({"history": f"http://user:{SECRET}@host/history"}))
    monkeypatch.setenv("QUADRANT_SETTINGS_FILE", str(settings))
    arguments = ["config", "show", "--origin", "--policy", str(policy), "-o", form]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "***@head:6379" in result.output
    assert SECRET not in result.output


def test_no_error_shows_one(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    address = f"ftp://user:{SECRET}@host"
    policy.write_text(
        yaml.safe_dump(
            {
                "actions": "allocate",
                "tiers": [{"plugins": [{"name": "gang"}]}],
                "metrics": {"address": address},
            }
        )
    )
    for command in (["config", "check", str(policy)], ["config", "show", "--policy", str(policy)]):
        result = CliRunner().invoke(app, command)
        assert SECRET not in result.output, command
    url = f"redis://user:{SECRET}@host"
    result = CliRunner().invoke(app, ["config", "show"], env={"QUADRANT_REDIS_URL": url})
    assert result.exit_code != 0
    assert SECRET not in result.output
