"""When objects are walked: tests in a process that holds few."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT


def test_objects_are_walked_at_rest_and_sampled_while_busy() -> None:
    result = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider"),
            *("-c", "/dev/null", f"--rootdir={ROOT}", "--import-mode=importlib"),
            str(ROOT / "tests/shared/resting_collector.py"),
        ],
        env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "12 passed" in result.stdout, result.stdout
