"""Quadrant on three machines: coordinator, standby, ledger and Ray's head on one, shard workers on
the other two."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from coordinator.cli.options.failure import EXIT_INTERRUPTED
from laboratory.local_kubernetes.authority import Authority
from shared.secrets.secret_file import new_secret, write_secret
from tests.machines.machine import RAY, Machine, machines

LEDGER_PORT, RAY_PORT, API_PORT = 6380, 6379, 8080
START_SECONDS = 180.0
STOP_SECONDS = 60.0
CUT_SECONDS = 30.0
SHARDS = 4

Json = dict[str, Any]
OnHead = Callable[[Machine], AbstractContextManager[dict[str, str]]]
"""A program on the head before Quadrant runs, and Quadrant's settings because of it."""
_ASK = """
import sys, urllib.request
for url in sys.argv[1:]:
    try:
        sys.stdout.write(urllib.request.urlopen(url, timeout=3).read().decode())
        break
    except OSError:
        pass
"""
"""Prints what the first of these addresses answers."""


@dataclass(slots=True)
class Cluster:
    head: Machine
    workers: list[Machine]
    settings: dict[str, str]
    """Settings of the coordinators, as variables."""
    ray: dict[str, str]
    """Environment of Ray's processes."""
    _joined: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    _up: subprocess.Popen[bytes] | None = None

    @property
    def history(self) -> Path:
        return Path(self.settings["QUADRANT_HISTORY"])

    # --- processes ------------------------------------------------------------------------------

    def start_ray_head(self) -> subprocess.Popen[bytes]:
        return self._ray(self.head, "--head", f"--port={RAY_PORT}", "--num-cpus=0")

    def join_ray(self, machine: Machine) -> None:
        address = f"--address={self.head.address}:{RAY_PORT}"
        self._joined[machine.number] = self._ray(machine, address, f"--num-cpus={SHARDS}")

    def until_ray_runs(self, machine: Machine) -> None:
        self.until_said(machine, "ray", "Ray runtime started")

    def until_said(self, machine: Machine, log: str, text: str) -> None:
        """Wait until a process has this in its log."""
        path = machine.folder / f"{machine.number}-{log}.log"
        deadline = time.monotonic() + START_SECONDS
        while text not in path.read_text():
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.2)

    def shard_workers(self) -> list[int]:
        """How many run on each of the workers' machines."""
        return [sum("ShardActor" in line for line in m.commands()) for m in self.workers]

    @contextlib.contextmanager
    def cut_off(self, machine: Machine) -> Iterator[None]:
        """It reaches nobody for :data:`CUT_SECONDS`, however soon the body ends; afterwards every
        shard has a worker."""
        machine.cut_off()
        end = time.monotonic() + CUT_SECONDS
        yield
        time.sleep(max(0.0, end - time.monotonic()))
        machine.join()
        self.until(all_up)

    def pull(self, machine: Machine) -> None:
        del self._joined[machine.number]
        machine.pull()

    def keep_ray(self) -> None:
        """Start Ray again where it ended, as whoever keeps it would: it does when its head is gone
        for a minute."""
        for machine in self.workers:
            joined = self._joined.get(machine.number)
            if joined is not None and joined.poll() is not None:
                self.join_ray(machine)

    def _ray(self, machine: Machine, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        more = [
            f"--node-ip-address={machine.address}",
            "--object-store-memory=80000000",
            "--include-log-monitor=false",
            *(["--include-dashboard=false"] if "--head" in options else []),
            *([f"--temp-dir={machine.folder / RAY}"] if "--head" in options else []),
        ]
        return machine.run([*command, *options, *more], log="ray", **self.ray)

    def kill_ray_head(self) -> None:
        """Its processes on the head, as they are: not the workers, which are elsewhere."""
        for pid, command in self.head.processes_there():
            if "ray" in command and "coordinator" not in command:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def stop_quadrant(self) -> None:
        """Ask `up` to end; it ends all that it started, and so the history is complete."""
        assert self._up is not None, "Quadrant was not started"
        assert self.end(self._up) == EXIT_INTERRUPTED, self.logs()
        left = [command for command in self.head.commands() if "coordinator." in command]
        assert not left, f"`up` has ended, and has left {left}"

    def end(self, process: subprocess.Popen[bytes]) -> int:
        """Ask a process on the head to end, wait until it has, and return its exit code."""
        for inner in psutil.Process(process.pid).children():  # of the command that entered
            inner.terminate()
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            running = "\n".join(self.head.commands())
            pytest.fail(
                f"{process.args!r} has not ended; on the head run\n{running}\n{self.logs()}"
            )

    def begin(self) -> None:
        """Start Quadrant, and wait until every shard has a worker."""
        command = [sys.executable, "-m", "laboratory.cli", "up"]
        self._up = self.head.run(
            [*command, "--listen", f"127.0.0.1:{API_PORT}"], log="up", **self.settings
        )
        self.until(all_up)

    # --- what users do --------------------------------------------------------------------------

    @property
    def urls(self) -> list[str]:
        """URLs of both coordinators, as `up` prints them."""
        output = (self.head.folder / "1-up.log").read_text()
        result = re.search(r"^export QUADRANT_SERVER=(\S+)$", output, re.MULTILINE)
        return result[1].split(",") if result else []

    def status(self) -> Json:
        """Empty where nobody leads."""
        paths = [f"{url}/apis/quadrant.dev/v1alpha1/status" for url in self.urls]
        result = self.head.ask([sys.executable, "-c", _ASK, *paths])
        return dict(json.loads(result.stdout)) if result.stdout else {}

    def until(self, holds: Callable[[Json], bool], seconds: float = START_SECONDS) -> Json:
        deadline = time.monotonic() + seconds
        while not (status := self.status()) or not holds(status):
            assert time.monotonic() < deadline, (status, self.logs())
            self.keep_ray()
            time.sleep(0.5)
        return status

    def logs(self) -> str:
        """The ends of all logs, for a failure."""
        ends = []
        for path in sorted(self.head.folder.rglob("*.log")):
            lines = path.read_text(errors="replace").splitlines()[-8:]
            ends.append("\n".join([f"--- {path.name}", *lines]))
        return "\n".join(ends)


def all_up(status: Json) -> bool:
    return all(shard["up"] for shard in status["shards"])


@contextlib.contextmanager
def three_machines(folder: Path, on_head: OnHead) -> Iterator[Cluster]:
    """Everything runs but Quadrant itself."""
    authority = Authority(folder, "machines")
    with machines(3, folder) as (head, *workers), on_head(head) as more:
        certificate, key = authority.issue("ledger", address=head.address)
        token = write_secret(folder / "ray.token", new_secret())
        ledger: list[str | Path] = [sys.executable, "-m", "tests.machines.ledger"]
        head.run(
            [*ledger, folder / "ledger", head.address, str(LEDGER_PORT), certificate, key],
            log="ledger",
        )
        ray = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "RAY_memory_monitor_refresh_ms": "0",
        }
        settings = {
            "QUADRANT_RUN_DIR": str(folder / "run"),
            "QUADRANT_DATA_DIR": str(folder / "run/data"),
            "QUADRANT_HISTORY": str(folder / "history.jsonl"),
            "QUADRANT_REDIS_URL": f"rediss://{head.address}:{LEDGER_PORT}",
            "QUADRANT_REDIS_PASSWORD": "secret",
            "QUADRANT_REDIS_CA_FILE": str(authority.certificate),
            "QUADRANT_RAY_ADDRESS": f"{head.address}:{RAY_PORT}",
            "QUADRANT_RAY_TOKEN_FILE": str(token),
            "QUADRANT_WORKER_CPUS": "1",
            "QUADRANT_SHARDS": str(SHARDS),
            "QUADRANT_STANDBY": "true",
            **more,
        }
        cluster = Cluster(head, workers, settings, ray)
        cluster.start_ray_head()
        cluster.until_ray_runs(head)
        for machine in workers:
            cluster.join_ray(machine)
        for machine in workers:  # or all shards would begin on the one that is quicker
            cluster.until_ray_runs(machine)
        yield cluster
