"""Long commands end at Ctrl-C, at once, with 130 and a line, and leave no process behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from coordinator.supervisor.child_process import descendants

PATIENCE = 100.0
ALL_AT_ONCE = 30.0
"""Seconds, on a machine that does much else: a run of the commands below takes minutes and more."""
WORK_SECONDS = 2.5
"""Processor time after which a command is in the middle of its work: it starts with less."""

Ready = Callable[[int], bool]


def test_scaling_ends_with_its_processes(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    lines = [f"{number},{50 + number % 40},{1 + number % 8}" for number in range(20_000)]
    trace.write_text("\n".join(["submit,duration,gpus", *lines]))
    command = ["scaling", str(trace), "--jobs", "20000", "--processes", "2", "--seeds", "5"]
    _interrupt(command, when=_children_work)


def test_the_simulator_ends_with_its_processes() -> None:
    _interrupt(["chaos", "sim", "--seeds", "0..99999", "--jobs", "2"], when=_children_work)


@pytest.mark.parametrize(
    "command",
    [
        "chaos model --thorough",
        "bench reclaim-many --session --nodes 4000",
        "replay {dump} --shards 4",
        "replay {dump} --cycles 10000",
    ],
)
def test_what_works_alone_ends(large_dump: Path, command: str) -> None:
    _interrupt(command.format(dump=large_dump).split(), when=_works)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "command",
    [
        "demo --jobs 5000 --nodes 10 --shards 2",
        "bench basic --shards 2",
        "bench reclaim --nodes 400 --shards 2",
        "bench fill --nodes 100 --pods 800",
        "chaos run --duration 600 --shards 2",
        "up --shards 2 --listen 127.0.0.1:0",
    ],
)
def test_what_starts_a_whole_service_ends_with_it(command: str, short_dir: Path) -> None:
    _interrupt(command.split(), when=_shards_work, run_dir=short_dir)


# --- a command in the middle of its work ----------------------------------------------------------


def _children_work(pid: int) -> bool:
    """Both of the processes that share the work have begun it."""
    return sum(_works(child) for child in descendants(pid)) >= 2


def _works(pid: int) -> bool:
    return _processor_seconds(pid) > WORK_SECONDS


def _shards_work(pid: int) -> bool:
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


@pytest.fixture(scope="module")
def large_dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster whose decision takes many seconds."""
    path = tmp_path_factory.mktemp("dump") / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*_objects()]}))
    return path


def _objects() -> Iterator[dict[str, object]]:
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    for number in range(400):
        status = {"allocatable": room, "capacity": room}
        metadata: dict[str, object] = {"name": f"n{number}"}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
    for number in range(4000):
        requests = {"cpu": f"{100 + number % 700}m"}  # few of a kind: each is judged by itself
        metadata = {"name": f"p{number}", "namespace": "default"}
        spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _interrupt(command: Sequence[str], *, when: Ready, run_dir: Path | None = None) -> None:
    """Ctrl-C reaches all processes of the command's group, the command's own first."""
    environ = dict(os.environ)
    if run_dir is not None:
        environ |= {"QUADRANT_RUN_DIR": str(run_dir), "HOME": str(run_dir)}
    process = subprocess.Popen(
        [sys.executable, "-m", "coordinator.cli", *command],
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
            assert process.poll() is None, f"it ended with {process.returncode} before"
            assert time.monotonic() < give_up, "it did not come to its work"
            time.sleep(0.05)
        children = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        began = time.monotonic()
        _, error = process.communicate(timeout=PATIENCE)
        assert time.monotonic() - began < ALL_AT_ONCE
        assert process.returncode == 130, error
        assert "Traceback" not in error
        assert [_command_line(pid) for pid in children if _lives(pid)] == []
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        elif process.stderr is not None:
            process.stderr.close()
        for pid in children:
            if _lives(pid):
                os.kill(pid, signal.SIGKILL)


def _lives(pid: int) -> bool:
    try:
        return str(psutil.Process(pid).status()) not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False
