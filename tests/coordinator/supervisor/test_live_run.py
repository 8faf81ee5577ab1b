"""Only what a supervisor of this machine keeps is found, and only that is killed."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.supervisor.live_run import LOCK, LiveRun, NoRun, claim, find_run
from shared.secrets.private_dir import open_private


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Path]:
    """A directory whose lock this process holds, as a supervisor does."""
    with open_private(tmp_path / LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        claim(lock, tmp_path / "history.jsonl", pid=os.getpid())
        yield tmp_path


def test_the_run_of_a_held_lock_is_found(supervised: Path) -> None:
    run = find_run(supervised)
    assert (run.supervisor, run.history) == (os.getpid(), supervised / "history.jsonl")


def test_without_a_supervisor_it_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(NoRun, match=r"start one, or name the directory"):
        find_run(tmp_path)
    with open_private(tmp_path / LOCK) as lock:  # left behind: nobody holds it
        claim(lock, tmp_path / "history.jsonl", pid=os.getpid())
    with pytest.raises(NoRun, match=r"start one, or name the directory"):
        find_run(tmp_path)


def test_only_processes_of_the_run_are_killed(supervised: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        stranger = LiveRun(supervised, child.pid, supervised / "history.jsonl")
        with pytest.raises(NoRun, match=r"is not one of the run"):
            stranger.kill(os.getpid())
        assert child.poll() is None
        find_run(supervised).kill(child.pid)
        assert child.wait(timeout=60) == -9
    finally:
        child.kill()
        child.wait()


def test_roles_are_found_among_the_supervisors_children(supervised: Path) -> None:
    run = find_run(supervised)
    with pytest.raises(NoRun, match=r"no process of its own for the ray"):
        run.pid("ray")
    code = "import time; print('up', flush=True); time.sleep(60)"
    arguments = [sys.executable, "-c", code, "ray.scripts.scripts"]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    try:
        # Popen returns while the kernel still replaces the process: its command line is empty.
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        assert run.pid("ray") == child.pid
        assert not run.successor("ray", besides=child.pid)
        assert run.successor("ray", besides=1)
    finally:
        child.kill()
        child.communicate()
