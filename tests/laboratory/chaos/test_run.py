"""Half a minute of faults on real processes, as a user starts it; every promise is checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(330)]

COMMAND = ["chaos", "run", "--seed", "4", "--duration", "30", "-o", "json"]
COMMAND += ["--post-limit", "0"]  # how long others wait on a busy machine is no part of the test


def test_no_kill_loses_or_repeats_anything(empty_dir: Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "laboratory.cli", *COMMAND],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    print(completed.stderr)  # noqa: T201 - the timeline, shown where it fails
    assert completed.stdout, "it came to no verdict"
    result = json.loads(completed.stdout.splitlines()[-1])
    print(json.dumps(result, indent=1))  # noqa: T201 - figures, shown by pytest -s
    assert result["violations"] == []
    assert completed.returncode == 0
    assert result["seeds"] == 1
    assert result["tasks_bound"] > 20  # fewer where others use the machine
    killed = {kind.split()[1] for kind in result["faults"] if kind.startswith("kill")}
    assert len(killed) >= 3, "too few were there to be struck"
    assert result["faults"]["drain node"] == 2
    assert set(result["recovery_s"]) & {"worker", "coordinator", "ledger", "ray", "cluster"}
    assert all(0 < entry["median"] <= entry["max"] for entry in result["recovery_s"].values())
