"""Runs that judge the service leave the directories of the user's own service alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
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

LEDGER = b"the ledger of a service"
HISTORY = b"its history\n"
COMMANDS = {
    "demo": "demo --jobs 5 --nodes 2 --shards 1",
    "bench": "bench basic --nodes 2 --pods 5 --shards 1",
    "chaos run": "chaos run --duration 5 --shards 1 --no-faults --no-hostile --post-limit 0",
    "chaos measure": "chaos measure --tasks 0 --times 1 --shards 1",
    "scaling": "scaling {trace} --nodes 1 --shards 1 --seeds 1",
}


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data directory that the environment names, and a history beside it: as it was at the
    end of the test."""
    data, history = tmp_path / "data", tmp_path / "history.jsonl"
    data.mkdir(mode=0o700)
    (data / "ledger.aof").write_bytes(LEDGER)
    history.write_bytes(HISTORY)
    monkeypatch.setenv("QUADRANT_DATA_DIR", str(data))
    monkeypatch.setenv("QUADRANT_HISTORY", str(history))
    monkeypatch.setenv("QUADRANT_REDIS_URL", f"unix://{tmp_path}/no-such-server")
    yield data
    assert [path.name for path in data.iterdir()] == ["ledger.aof"]
    assert (data / "ledger.aof").read_bytes() == LEDGER
    assert history.read_bytes() == HISTORY


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "name",
    [
        "demo",
        "bench",
        "scaling",
        pytest.param("chaos run", marks=pytest.mark.thorough),
        pytest.param("chaos measure", marks=pytest.mark.thorough),
    ],
)
def test_a_run_uses_a_directory_of_its_own_and_removes_it(
    name: str, service: Path, tmp_path: Path, short_dir: Path
) -> None:
    trace = tmp_path / "jobs.csv"
    rows = [f"{number},{100 + number},8" for number in range(4)]
    trace.write_text("\n".join(["submit,duration,gpus", *rows]))
    result = subprocess.run(
        [sys.executable, "-m", "laboratory.cli", *COMMANDS[name].format(trace=trace).split()],
        env=os.environ | {"TMPDIR": str(short_dir)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    # Other work on the machine may make a recovery take longer than its bound.
    ends_with = (0, 1) if name == "chaos measure" else (0,)
    assert result.returncode in ends_with, result.stdout + result.stderr
    assert "Error" not in result.stderr
    assert list(short_dir.iterdir()) == []


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
