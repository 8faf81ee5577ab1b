"""``quadrant config show``: the settings that count, and where each is from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from coordinator.cli.admin.config import app
from coordinator.cli.admin.effective import effective
from shared.settings.settings import SettingsError, load_settings, origins

POLICY = "actions: allocate\ntiers: [{plugins: [{name: binpack}]}]\n"


def show(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["show", *arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def settings_json(*arguments: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(show("-o", "json", *arguments))
    return body


@pytest.fixture
def settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text("shards: 8\nmode: hard\nseed: 3\n")
    monkeypatch.setenv("QUADRANT_SETTINGS_FILE", str(path))
    return path


def test_every_source_in_its_order(settings_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUADRANT_MODE", "none")
    monkeypatch.setenv("quadrant_shards", "6")
    result = settings_json("--origin", "--shards", "2")["settings"]
    assert result["shards"] == {"value": 2, "origin": "flag"}
    assert result["mode"] == {"value": "none", "origin": "env QUADRANT_MODE"}
    assert result["seed"] == {"value": 3, "origin": f"file {settings_file}"}
    assert result["grace"] == {"value": 0.05, "origin": "default"}
    assert result["window"]["value"] == 2 * 256
    assert settings_json()["settings"]["shards"] == 6
    assert origins()["shards"] == "env quadrant_shards"


def test_an_empty_variable_sets_nothing(
    settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUADRANT_SHARDS", "")
    assert settings_json("--origin")["settings"]["shards"] == {
        "value": 8,
        "origin": f"file {settings_file}",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("shrads: 8", "shrads: not known; did you mean shards?"),
        ("shards: none", "shards: input should be a valid integer"),
        ("- shards", "write lines such as shards: 8"),
        ("shards: 8\nshards: 9", "twice"),
        ("shards: [", "not YAML"),
    ],
)
def test_a_wrong_file_is_named(settings_file: Path, text: str, words: str) -> None:
    settings_file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert str(settings_file) in str(caught.value)
    assert words in str(caught.value)


def test_a_file_that_is_not_there(settings_file: Path) -> None:
    settings_file.unlink()
    with pytest.raises(SettingsError, match=r"QUADRANT_SETTINGS_FILE: .*name a readable file"):
        load_settings()


def test_a_file_is_not_read_twice_into_a_child(
    settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in load_settings(shards=2).environment().items():
        monkeypatch.setenv(name, value)
    assert load_settings().shards == 2


@pytest.mark.parametrize("arguments", [[], ["--origin"], ["-o", "json"], ["-o", "yaml"]])
def test_a_secret_is_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    (tmp_path / "password").write_text("hidden-word")
    monkeypatch.setenv("QUADRANT_REDIS_PASSWORD_FILE", str(tmp_path / "password"))
    monkeypatch.setenv("QUADRANT_RAY_TOKEN", "hidden-word")
    text = show(*arguments)
    assert "hidden-word" not in text
    assert "***" in text
    assert origins()["redis_password"] == f"file {tmp_path / 'password'}"
    assert origins()["ray_token"] == "env QUADRANT_RAY_TOKEN"


def test_the_policy_that_counts(tmp_path: Path) -> None:
    assert settings_json()["policy"]["from"] == "the default"
    file = tmp_path / "p.yaml"
    file.write_text(POLICY)
    policy = settings_json("--policy", str(file))["policy"]
    assert policy["from"] == str(file)
    assert [[p["name"] for p in tier] for tier in policy["tiers"]] == [["binpack"]]
    text = show("--policy", str(file))
    assert f"Policy: {file}" in text.replace("\n", "")
    assert "binpack.weight" in text


def test_yaml_and_json_say_the_same() -> None:
    assert yaml.safe_load(show("-o", "yaml")) == settings_json()


def test_a_wrong_policy_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("actions: sing, dance\n")
    with pytest.raises(SettingsError) as caught:
        effective({"policy": tmp_path / "p.yaml"})
    assert len(str(caught.value).splitlines()) == 3
