"""``.ci/run`` over commands that do nothing: its verdict, and what it leaves running."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT

PARTS = {
    *("install", "check", "wheel", "fast", "seeds"),
    *("slow", "kubernetes", "thorough", "alone"),
}
COMMAND = """\
#!/usr/bin/env bash
case "$(basename "$0") $*" in
  *"$BREAKS"*) eval "$HOW" ;;
esac
"""
PROGRAMS = (
    *("basename", "bash", "cat", "dirname", "env", "mkdir", "mktemp", "nice", "rm", "rmdir"),
    *("sleep", "tail", "touch"),
)
"""All that the script finds on its PATH, so no Go."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script, and commands in the place of those that it calls."""
    for name in (".ci/wheel", "bin/make", ".venv/bin/python", ".venv/bin/quadrant"):
        command = tmp_path / name
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(COMMAND)
        command.chmod(0o755)
    for name in PROGRAMS:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    return tmp_path


def environment(checkout: Path, breaks: str = "no part", how: str = "true") -> dict[str, str]:
    """``how`` is what the command does whose words are ``breaks``."""
    return {
        "PATH": str(checkout / "bin"),
        "TMPDIR": str(checkout),
        "BREAKS": breaks,
        "HOW": how,
    }


def run(checkout: Path, *breaks: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / ".ci/run"],
        env=environment(checkout, *breaks),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def outcomes(printed: str) -> dict[str, str]:
    """Part -> how it ended."""
    rows = printed.partition("=== time of each part\n")[2].splitlines()
    return {row.split()[0]: row.partition("processor time  ")[2] for row in rows[:-1]}


def test_it_passes_if_every_part_does(checkout: Path) -> None:
    result = run(checkout)
    assert outcomes(result.stdout) == dict.fromkeys(PARTS, "passed"), result
    assert result.returncode == 0


@pytest.mark.parametrize(
    ("part", "command", "how", "outcome"),
    [
        ("check", "make check", "exit 3", "failed (3)"),
        ("kubernetes", "make test-kubernetes", "exit 2", "failed (2)"),
        ("seeds", "quadrant chaos sim", "kill -KILL $$", "failed (137)"),
        ("install", "make install", "exit 1", "failed (1)"),
        ("alone", "make test-alone", "exit 1", "failed (1)"),
    ],
)
def test_one_part_that_fails_fails_the_run_and_the_others_run(
    checkout: Path, part: str, command: str, how: str, outcome: str
) -> None:
    result = run(checkout, command, how)
    expected = dict.fromkeys(PARTS, "passed") | {part: outcome}
    assert outcomes(result.stdout) == expected, result
    assert result.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_lanes_and_removes_the_folder(
    checkout: Path, number: signal.Signals
) -> None:
    pid_file = checkout / "sleeping"
    how = f"echo $$ >{pid_file}; exec sleep 100"
    command, variables = [checkout / ".ci/run"], environment(checkout, "make test-slow", how)
    with subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL) as process:
        while not (pid_file.exists() and (pid := pid_file.read_text().strip())):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(timeout=60) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    assert not list(checkout.glob("tmp.*"))
