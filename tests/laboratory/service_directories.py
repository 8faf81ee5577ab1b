"""Directories of a user's own service, which runs that judge the service leave alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

LEDGER = b"the ledger of a service"
HISTORY = b"its history\n"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data directory that the environment names, and a history beside it: as it was at the
    end of the test."""
    folder = tmp_path / "service"
    data, history = folder / "data", folder / "history.jsonl"
    folder.mkdir()
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


@pytest.fixture
def empty_dir(service: Path, monkeypatch: pytest.MonkeyPatch, short_dir: Path) -> Iterator[Path]:
    """Where a run puts its directory; empty again after it, or the run left something behind."""
    monkeypatch.setenv("TMPDIR", str(short_dir))
    yield short_dir
    assert list(short_dir.iterdir()) == []
