"""Commands that are interrupted in the middle of their work, as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import psutil
import pytest

from coordinator.supervisor.child_process import descendants

PATIENCE = 100.0
ALL_AT_ONCE = 60.0
"""Seconds, on a machine that does much else: a run of such a command takes minutes and more."""
WORK_SECONDS = 1.5
"""Processor time after which a command is in the middle of its work: it starts with less."""

Ready = Callable[[int], bool]


def children_work(pid: int) -> bool:
    """Both of the processes that share the work have begun it."""
    return sum(works(child) for child in descendants(pid)) >= 2


def works(pid: int) -> bool:
    return _processor_seconds(pid) > WORK_SECONDS


def shards_work(pid: int) -> bool:
    """Ledger, Ray's head and its workers are there."""
    names = [" ".join(_command_line(child)) for child in descendants(pid)]
    return sum("ray::" in name for name in names) >= 2


def _processor_seconds(pid: int) -> float:
    try:
        return float(psutil.Process(pid).cpu_times().user)
    except psutil.Error:
        return 0.0


def _command_line(pid: int) -> Sequence[str]:
    try:
        return [str(word) for word in psutil.Process(pid).cmdline()]
    except psutil.Error:
        return ()


def interrupt(command: Sequence[str], *, when: Ready, run_dir: Path | None = None) -> None:
    """Ctrl-C reaches all processes of the command's group, the command's own first."""
    environ = dict(os.environ)
    if run_dir is not None:
        environ |= {"QUADRANT_RUN_DIR": str(run_dir), "HOME": str(run_dir)}
    process = subprocess.Popen(
        [sys.executable, "-m", "laboratory.cli", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        start_new_session=True,
    )
    children: set[int] = set()
    try:
        give_up = time.monotonic() + PATIENCE
        while not when(process.pid):
            if process.poll() is not None:
                _, error = process.communicate(timeout=PATIENCE)
                pytest.fail(f"it ended with {process.returncode} before: {error}")
            assert time.monotonic() < give_up, "it did not come to its work"
            time.sleep(0.05)
        children = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        began = time.monotonic()
        _, error = process.communicate(timeout=PATIENCE)
        assert time.monotonic() - began < ALL_AT_ONCE
        # Where the interrupt meets an `exec` of Python's own, as a dataclass makes one while it is
        # imported, Python ends by the signal itself, whoever caught it; a shell tells 130 of both.
        assert process.returncode in (130, -signal.SIGINT), (
            f"exit code {process.returncode}: {error}"
        )
        assert "Traceback" not in error
        assert left_of(children) == []
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        elif process.stderr is not None:
            process.stderr.close()
        for pid in children:
            if lives(pid):
                os.kill(pid, signal.SIGKILL)


def left_of(processes: Iterable[int]) -> list[Sequence[str]]:
    """The commands of those that go on."""
    return [_command_line(pid) for pid in processes if lives(pid)]


def lives(pid: int) -> bool:
    try:
        return str(psutil.Process(pid).status()) not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False
