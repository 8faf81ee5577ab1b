"""A run that `quadrant up` keeps on this machine, as another process finds it.

The supervisor holds a lock on a file in its run directory, and its process id stands there. Only
processes below it count as the run's: a stale file, or the answer of another server, names nobody
whom we would end.
"""

from __future__ import annotations

import fcntl
import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import psutil

from coordinator.supervisor.child_process import descendants, send_signal

LOCK = "supervisor.lock"
COORDINATOR = "coordinator"
LEDGER = "ledger"
RAY = "ray"
_ARGUMENT = {COORDINATOR: "coordinator.service", RAY: "ray.scripts.scripts"}
"""Role -> an argument of its command line."""
_SERVERS = ("valkey", "redis")
_PORT = "QUADRANT_LISTEN_PORT"


class NoRun(Exception):
    """There is no run of ours here; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class LiveRun:
    run_dir: Path
    supervisor: int
    """Its process id."""
    history: Path

    def pid(self, role: str, *, port: int | None = None) -> int:
        """The process of a role. ``port``: of several coordinators the one that listens there.
        Raises NoRun."""
        candidates = [*self._of(role)]
        if port is not None and len(candidates) > 1:
            candidates = [child for child in candidates if _listens_at(child, port)]
        if not candidates:
            raise NoRun(
                f"the run in {self.run_dir} has no process of its own for the {role}: it may be "
                "starting, or run elsewhere; try again in a moment, or end it where it runs"
            )
        return int(candidates[0].pid)

    def successor(self, role: str, *, besides: int) -> bool:
        """Whether a process of the role runs other than the one with the id ``besides``."""
        return any(child.pid != besides for child in self._of(role))

    def owns(self, pid: int) -> bool:
        return pid in descendants(self.supervisor)

    def kill(self, pid: int) -> None:
        """SIGKILL a process of the run and all below it. Raises NoRun for any other."""
        if not self.owns(pid):
            raise NoRun(
                f"process {pid} is not one of the run in {self.run_dir}: the server that answers "
                "is another one; name this run's with --server, or its directory with --run-dir"
            )
        send_signal(signal.SIGKILL, {pid} | descendants(pid))

    def _of(self, role: str) -> Iterator[psutil.Process]:
        try:
            children = psutil.Process(self.supervisor).children()
        except psutil.NoSuchProcess:
            children = []
        for child in children:
            try:
                name, arguments = child.name(), child.cmdline()
            except psutil.Error:
                continue  # it ended while we looked
            if role == LEDGER:
                ours = any(server in name for server in _SERVERS)
            else:
                ours = _ARGUMENT[role] in arguments
            if ours:
                yield child


def claim(lock: BinaryIO, history: Path, *, pid: int) -> None:
    """Write into the lock file who holds it."""
    lock.truncate(0)
    lock.write(json.dumps({"pid": pid, "history": str(history)}).encode())
    lock.flush()


def find_run(run_dir: Path) -> LiveRun:
    """The run whose supervisor holds the lock of this directory. Raises NoRun."""
    none = NoRun(
        f"no `quadrant up` of this machine runs in {run_dir}; start one, or name the directory of "
        "one with --run-dir or QUADRANT_RUN_DIR (only processes of such a run are killed)"
    )
    try:
        with (run_dir / LOCK).open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                state = json.loads(lock.read())
            else:
                raise none
    except (OSError, ValueError) as error:
        raise none from error
    return LiveRun(run_dir, int(state["pid"]), Path(state["history"]))


def _listens_at(child: psutil.Process, port: int) -> bool:
    try:
        return bool(child.environ().get(_PORT) == str(port))
    except psutil.Error:
        return False
