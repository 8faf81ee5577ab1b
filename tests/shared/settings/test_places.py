"""Where files are kept if no setting says it: what has to survive is not in a cleared directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.settings.settings import load_settings


@pytest.fixture
def home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without settings, and a run directory of the session below it."""
    for name in ("QUADRANT_RUN_DIR", "QUADRANT_DATA_DIR", "QUADRANT_HISTORY", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    (home / "runtime").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "runtime"))
    return home


def test_the_ledger_outlives_the_session(home: Path) -> None:
    settings = load_settings()
    assert settings.run_dir == home / "runtime" / "quadrant"
    assert settings.data_dir == home / ".local" / "state" / "quadrant" / "data"
    assert settings.history == home / ".local" / "state" / "quadrant" / "history.jsonl"


@pytest.mark.parametrize(("state", "below"), [("state", "state"), ("", ".local/state")])
def test_the_user_may_have_the_state_elsewhere(
    home: Path, monkeypatch: pytest.MonkeyPatch, state: str, below: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(home / state) if state else "not/absolute")
    assert load_settings().data_dir == home / below / "quadrant" / "data"


def test_a_ledger_of_before_stays_where_it_is(home: Path) -> None:
    (home / "runtime" / "quadrant" / "data").mkdir(parents=True)
    settings = load_settings()
    assert settings.data_dir == settings.run_dir / "data"
    assert settings.history == settings.run_dir / "history.jsonl"


def test_a_run_directory_that_was_chosen_keeps_all(home: Path) -> None:
    settings = load_settings(run_dir=home / "mine")
    assert settings.data_dir == home / "mine" / "data"
    assert settings.history == home / "mine" / "history.jsonl"


def test_a_ledger_elsewhere_has_a_history_of_its_own(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUADRANT_DATA_DIR", str(home / "ledger"))
    assert load_settings().history == home / "ledger" / "history.jsonl"
    monkeypatch.setenv("QUADRANT_HISTORY", str(home / "elsewhere.jsonl"))
    assert load_settings().history == home / "elsewhere.jsonl"


def test_a_user_without_a_home_has_all_in_the_run_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    settings = load_settings()
    assert settings.data_dir == settings.run_dir / "data"
