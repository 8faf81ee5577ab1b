"""Runs that judge the service leave the directories of the user's own service alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from laboratory.own_directory import (
    MARKER,
    OF_A_SERVICE,
    NotOwnDirectory,
    create_own_directory,
    delete_own,
    own_settings,
)
from shared.settings.settings import Settings

COMMANDS = {
    "chaos measure": "chaos measure --tasks 0 --times 1 --shards 1",
    "scaling": "scaling {trace} --nodes 1 --shards 1 --seeds 1",
}
"""`demo`, `bench` and `chaos run` have the fixture `empty_dir` in tests of their own."""


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "name", ["scaling", pytest.param("chaos measure", marks=pytest.mark.thorough)]
)
def test_a_run_uses_a_directory_of_its_own_and_removes_it(
    name: str, empty_dir: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "jobs.csv"
    rows = [f"{number},{100 + number},8" for number in range(4)]
    trace.write_text("\n".join(["submit,duration,gpus", *rows]))
    result = subprocess.run(
        [sys.executable, "-m", "laboratory.cli", *COMMANDS[name].format(trace=trace).split()],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    # Other work on the machine may make a recovery take longer than its bound.
    ends_with = (0, 1) if name == "chaos measure" else (0,)
    assert result.returncode in ends_with, result.stdout + result.stderr
    assert "Error" not in result.stderr


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, short_dir: Path) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(short_dir))
    return create_own_directory()


def test_files_are_in_the_run_directory_in_any_environment(service: Path, own: Path) -> None:
    settings = own_settings(own, shards=3)
    assert settings.shards == 3
    assert {settings.data_dir.parent, settings.history.parent, settings.run_dir} == {own}
    assert {name: getattr(settings, name) for name in OF_A_SERVICE} == {
        name: Settings.model_fields[name].default for name in OF_A_SERVICE
    }


def test_a_history_kept_elsewhere_is_the_only_file_outside(service: Path, own: Path) -> None:
    settings = own_settings(own, history=Path("kept.jsonl"))
    assert settings.history == Path.cwd() / "kept.jsonl"
    assert settings.data_dir.parent == own


def test_only_a_directory_with_the_marker_is_deleted(own: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotOwnDirectory, match="no run created it"):
        delete_own(tmp_path)
    assert (tmp_path / "file").exists()
    (own / "copy").mkdir()
    delete_own(own / "copy")
    assert [path.name for path in own.iterdir()] == [MARKER]
    delete_own(own)
    assert not own.exists()
