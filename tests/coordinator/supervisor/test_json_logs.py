"""A whole run: what its processes write to their logs is JSON, Ray's and Redis' lines too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest


@pytest.mark.slow
@pytest.mark.all
def test_every_line_of_every_log_is_json(short_dir: Path) -> None:
    run_dir = short_dir / "run"
    up = subprocess.Popen(
        [sys.executable, "-m", "laboratory.cli", "up", "--listen", "127.0.0.1:0", "--shards", "1"],
        env=os.environ | {"QUADRANT_RUN_DIR": str(run_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert up.stdout is not None
    printed = []
    for line in up.stdout:
        printed.append(line)
        if line.startswith("Running"):
            break
    up.send_signal(signal.SIGINT)
    up.communicate(timeout=120)
    logs = [*(run_dir / "log").glob("*.log"), *run_dir.glob("*.log")]
    assert {log.name for log in logs} >= {"coordinator.log", "ray.log", "ledger.log"}, printed
    for log in logs:
        lines = log.read_bytes().splitlines()
        assert [line for line in lines if not line.startswith(b'{"ts":')] == []
        parsed = [orjson.loads(line) for line in lines]
        assert all({"level", "event", "logger"} <= fields.keys() for fields in parsed), log
    coordinator = (run_dir / "log" / "coordinator.log").read_text()
    assert "SIGTERM received" not in coordinator, "Ray reports a stop that was asked for"
