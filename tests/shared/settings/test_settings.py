"""Settings come from QUADRANT_* alone, and a mistake is told with variable and remedy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shared.settings.settings import Settings, SettingsError, load_settings


def test_defaults_follow_from_one_another(short_dir: Path) -> None:
    settings = load_settings(run_dir=short_dir, shards=3)
    assert settings.window == 256 * 3
    assert settings.data_dir == short_dir / "data"
    assert settings.history == short_dir / "history.jsonl"
    assert settings.redis_url is None
    assert settings.read_policy() is None


def test_flag_goes_before_environment_before_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUADRANT_SHARDS", "7")
    monkeypatch.setenv("QUADRANT_MODE", "hard")
    settings = load_settings(shards=2, mode=None)
    assert (settings.shards, settings.mode, settings.window) == (2, "hard", 2 * 256)


@pytest.mark.parametrize(
    ("variable", "value", "messages"),
    [
        ("QUADRANT_SHARDS", "0", ["QUADRANT_SHARDS", "greater than or equal to 1"]),
        ("QUADRANT_SHARDS", "four", ["QUADRANT_SHARDS", "valid integer", "shard workers"]),
        ("QUADRANT_MODE", "warm", ["QUADRANT_MODE", "none, soft or hard"]),
        ("QUADRANT_REDIS_URL", "localhost", ["QUADRANT_REDIS_URL", "redis://HOST:PORT"]),
        ("QUADRANT_LISTEN_PORT", "70000", ["QUADRANT_LISTEN_PORT", "65535"]),
        ("QUADRANT_WORKER_CPUS", "-1", ["QUADRANT_WORKER_CPUS", "greater than or equal to 0"]),
        ("QUADRANT_SPEEDUP", "nan", ["QUADRANT_SPEEDUP"]),
        ("QUADRANT_SHRADS", "4", ["QUADRANT_SHRADS", "did you mean QUADRANT_SHARDS?"]),
        ("quadrant_shrads", "4", ["quadrant_shrads", "did you mean QUADRANT_SHARDS?"]),
        ("QUADRANT_ZZZ", "4", ["QUADRANT_ZZZ", "unset it"]),
        ("QUADRANT_BINDER", "kia", ["QUADRANT_BINDER", "'quadrant' or 'kai'"]),
        ("QUADRANT_BINDER", "kai", ["QUADRANT_BINDER", "set QUADRANT_KUBECONFIG"]),
        ("QUADRANT_RAY_TOKEN_FILE", "/nowhere/x", ["QUADRANT_RAY_TOKEN_FILE", "readable file"]),
    ],
)
def test_mistake_names_variable_and_remedy(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, messages: list[str]
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    message = str(caught.value)
    assert len(message.splitlines()) == 1, message
    assert all(part in message for part in messages), message


def test_the_shadow_has_nobody_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUADRANT_BINDER", "kai")
    with pytest.raises(SettingsError, match="QUADRANT_BINDER: the shadow has nothing bound"):
        load_settings(in_cluster=True, shadow=True)
    assert load_settings(in_cluster=True).binder == "kai"


def test_wrong_flag_is_told_like_a_wrong_variable() -> None:
    with pytest.raises(SettingsError, match="QUADRANT_SHRADS: not known; did you mean"):
        load_settings(shrads=4)


def test_every_mistake_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUADRANT_SHARDS", "0")
    monkeypatch.setenv("QUADRANT_MODE", "warm")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert len(str(caught.value).splitlines()) == 2  # window follows from shards: no third line


def test_variables_of_a_kubernetes_service_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUADRANT_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("QUADRANT_PORT", "tcp://10.0.0.1:80")
    monkeypatch.setenv("QUADRANT_PORT_80_TCP_ADDR", "10.0.0.1")
    assert load_settings().shards == 4


def test_secret_comes_from_a_file_and_is_never_shown(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (short_dir / "password").write_text("hidden-word\n")
    monkeypatch.setenv("QUADRANT_REDIS_PASSWORD_FILE", str(short_dir / "password"))
    settings = load_settings()
    assert settings.redis_password is not None
    assert settings.redis_password.get_secret_value() == "hidden-word"
    assert "hidden-word" not in repr(settings)
    assert "hidden-word" not in "".join(settings.environment().values())


def test_child_process_reads_the_same_settings(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(run_dir=short_dir, shards=5, mode="hard", speedup=2.5, window=9)
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert load_settings() == settings


def test_a_changed_copy_is_checked() -> None:
    settings = load_settings()
    assert settings.replace(listen_port=8080).listen_port == 8080
    assert settings.listen_port == 0
    with pytest.raises(SettingsError, match="QUADRANT_LISTEN_PORT"):
        settings.replace(listen_port=-1)


def test_settings_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().shards = 3


def test_policy_is_checked_when_it_is_read(short_dir: Path) -> None:
    file = short_dir / "policy.yaml"
    file.write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: priority\n')
    assert load_settings(policy=file).read_policy() == {
        "actions": "allocate",
        "tiers": [{"plugins": [{"name": "priority"}]}],
    }
    file.write_text('actions: "allocate, sing"\n')
    with pytest.raises(SettingsError, match="sing"):
        load_settings(policy=file).read_policy()
    with pytest.raises(SettingsError, match="QUADRANT_POLICY: cannot read"):
        load_settings(policy=short_dir / "absent").read_policy()


def test_every_setting_says_what_it_is() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_reading_settings_loads_neither_ray_nor_numpy() -> None:
    heavy = "{'ray', 'numpy', 'aiohttp'}"
    code = f"import sys, shared.settings.settings; print(*(set(sys.modules) & {heavy}))"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env=os.environ,
    )
    assert result.stdout.strip() == ""
