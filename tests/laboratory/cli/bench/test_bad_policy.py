"""A policy that cannot be used ends a run before anything is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BAD = 'actions: "allocat"\ntiers: []\n'


@pytest.mark.parametrize("command", [["demo"], ["bench", "basic"], ["bench", "reclaim"]])
def test_a_bad_policy_is_told_in_one_line_within_a_second(
    command: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    process = subprocess.Popen(
        [sys.executable, "-m", "laboratory.cli", *command],
        env=os.environ | {"QUADRANT_POLICY": str(file), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    *before, last = error.splitlines()
    assert last.startswith(f"Error: {file}: actions: unknown action 'allocat'; did you mean")
    assert len(before) == (command == ["demo"]), "demo says first that it starts"
    assert list(tmp_path.iterdir()) == [file]  # no run directory: nothing was begun


def test_it_loads_nothing_that_only_a_run_needs(tmp_path: Path) -> None:
    """Its second is for people; a busy machine's is longer, so modules are counted."""
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    program = "import sys; from laboratory.cli.app import run; run(['demo']); print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"QUADRANT_POLICY": str(file)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert {"numpy", "ray", "aiohttp"}.isdisjoint(result.stdout.split())
