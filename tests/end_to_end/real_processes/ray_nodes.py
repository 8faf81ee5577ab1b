"""Ray nodes on this machine, each with a version of the package of its own.

A node's processes import what its ``PYTHONPATH`` names first. So a copy of the package in a folder,
with another version and perhaps another text, is what an image of another version is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.supervisor import ray_head
from coordinator.supervisor.child_process import descendants
from coordinator.supervisor.readiness import quiet_port
from shared.die_with_parent import die_with_parent
from tests.conftest import ROOT

ROOMS = ("coordinator", "shard_worker", "shared")
VERSION_BEFORE = "0.0.9"
WITHIN = 240.0
"""Seconds until a Ray node is up: its processes take some of processor time each."""


def version_before(folder: Path, change: Callable[[Path], None] = lambda folder: None) -> Path:
    """A copy of the package that says it is another version. ``change``: what else is different."""
    for room in ROOMS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, folder / room, ignore=ignored)
    information = folder / f"quadrant-{VERSION_BEFORE}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: quadrant\nVersion: {VERSION_BEFORE}\n"
    )
    change(folder)
    return folder


def replace_text(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{path} has no {old!r}"
    path.write_text(text.replace(old, new, 1))


def with_another_message(folder: Path) -> None:
    replace_text(
        folder / "shard_worker/worker/transport.py",
        "    nomination_seconds: Finite\n",
        "    nomination_seconds: Finite\n    patience: Finite = 0.0\n",
    )


def without_a_handshake(folder: Path) -> None:
    (folder / "shard_worker/worker/worker_version.py").unlink()


def with_another_method(folder: Path) -> None:
    """Ray then cannot make an actor of the coordinator's class."""
    replace_text(folder / "shard_worker/worker/actor.py", "def inquire(", "def _another_name(")


@dataclass(slots=True)
class RayNodes:
    """A head, and nodes that join it, each with an address of its own and room for one worker."""

    folder: Path
    port: int = field(default_factory=lambda: quiet_port("127.0.1.1"))
    _processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    _started: int = 0

    @property
    def address(self) -> str:
        return f"{self._host(0)}:{self.port}"

    @staticmethod
    def _host(number: int) -> str:
        """Not 127.0.0.1, which Ray takes for the machine's own address."""
        return f"127.0.1.{number + 1}"

    def start_head(self, *, cpus: int = 1) -> None:
        options = [
            f"--num-cpus={cpus}",
            f"--port={self.port}",
            f"--temp-dir={self.folder}",
            "--include-dashboard=false",
        ]
        self._start(0, "--head", "--no-monitor", *options)

    def start(self, number: int, package: Path | None = None) -> None:
        """Start a node. ``package``: where its version of the package is; None: our own."""
        path = {} if package is None else {"PYTHONPATH": str(package)}
        self._start(number, f"--address={self.address}", "--num-cpus=1", **path)

    def stop(self, number: int) -> None:
        """Its machine is gone."""
        process = self._processes.pop(number)
        for pid in [process.pid, *descendants(process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(10)

    def close(self) -> None:
        for number in sorted(self._processes, reverse=True):
            self.stop(number)

    def _start(self, number: int, *options: str, **more: str) -> None:
        """Started again where it gave up: Ray takes half a minute for the longest that a start may
        take, which a busy machine exceeds."""
        environment = ray_head.environment(None, ours=True)
        del environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"]  # there is more than one node
        deadline = time.monotonic() + WITHIN
        while True:
            self._started += 1
            log = self.folder.parent / f"ray-{number}-{self._started}.log"
            with log.open("wb") as file:
                self._processes[number] = process = subprocess.Popen(
                    [*_COMMAND, f"--node-ip-address={self._host(number)}", *options],
                    env=os.environ | environment | more,
                    cwd=self.folder.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    preexec_fn=die_with_parent(),  # noqa: PLW1509
                )
            while process.poll() is None and "Ray runtime started" not in log.read_text():
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            if process.poll() is None:
                return
            assert time.monotonic() < deadline, log.read_text()


_COMMAND = [
    *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block"),
    *("--object-store-memory=80000000", "--include-log-monitor=false"),
    *("--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"),
]


@contextlib.contextmanager
def ray_nodes(folder: Path) -> Iterator[RayNodes]:
    """``folder``: a short path. All nodes end with the body."""
    nodes = RayNodes(folder / "ray")
    nodes.folder.mkdir()
    try:
        yield nodes
    finally:
        nodes.close()
