"""Long commands with processes of their own end at Ctrl-C, at once, and leave none behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATIENCE = 60.0
ALL_AT_ONCE = 30.0
"""Seconds, on a machine that does much else: a run of the commands below takes minutes and more."""


def test_scaling_ends_with_its_processes(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    lines = [f"{number},{50 + number % 40},{1 + number % 8}" for number in range(20_000)]
    trace.write_text("\n".join(["submit,duration,gpus", *lines]))
    command = ["scaling", str(trace), "--jobs", "20000", "--processes", "2", "--seeds", "5"]
    _interrupt(command)


@pytest.mark.parametrize("command", [["chaos", "sim", "--seeds", "0..99999", "--jobs", "2"]])
def test_the_simulator_ends_with_its_processes(command: list[str]) -> None:
    _interrupt(command)


def _interrupt(command: list[str]) -> None:
    """The signal goes to the command alone, as from ``kill -INT``: its processes must not need
    one."""
    process = subprocess.Popen(
        [sys.executable, "-m", "coordinator.cli", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        children = _until_children(process.pid)
        time.sleep(1.0)  # in the middle of their work
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, error = process.communicate(timeout=PATIENCE)
        assert time.monotonic() - began < ALL_AT_ONCE
        assert process.returncode == 130
        assert "Traceback" not in error
        assert not [pid for pid in children if _lives(pid)]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def _until_children(pid: int) -> list[int]:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        if len(children := file.read_text().split()) >= 2:
            return [int(child) for child in children]
        time.sleep(0.05)
    raise AssertionError("it started no processes")


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
