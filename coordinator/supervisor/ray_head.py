"""The Ray head: its command line, and the environment of processes that join it.

Plain Ray on this machine alone: it listens only on the loopback address, requires a token, and
chooses every port but one itself, so that any number of heads can run side by side. Its state need
not survive.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from pathlib import Path

import psutil

ADDRESS_FILE = "ray_current_cluster"
"""File in Ray's temporary directory with its address, written once everything runs."""

HOST = "127.0.0.1"

LONGEST_TEMP_DIR = 40
"""Ray's sockets have paths 64 bytes longer than its temporary directory; the system allows 107."""


def arguments(temp_dir: Path, *, cpus: int, object_store_bytes: int, port: int) -> list[str]:
    """The command line. The same port brings a head back at its old address."""
    options = {
        "port": port,
        "node-ip-address": HOST,
        "num-cpus": cpus,
        "object-store-memory": object_store_bytes,
        "temp-dir": temp_dir,
        "include-dashboard": "false",
        "include-log-monitor": "false",  # we read the workers' logs from their files
        "min-worker-port": 0,  # the default is a fixed range, in which two heads collide
        "max-worker-port": 0,
        "dashboard-agent-listen-port": 0,
    }
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    # The autoscaler's monitor adds machines where somebody provides them. Here nobody does, and it
    # is a fifth of the processor time of a start (8.2 s with it, 6.4 without).
    ray.append("--no-monitor")
    return ray + [f"--{name}={value}" for name, value in options.items()]


def environment(token_file: Path | None, *, ours: bool) -> dict[str, str]:
    """The environment for the head and for processes that join it. ``ours``: the head was started
    here."""
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
    if token_file is not None:
        settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token_file)}
    if not ours:
        return settings
    if token_file is None:
        # Else a token in the user's home decides it for the head, and not for nodes that join it.
        settings["RAY_AUTH_MODE"] = "disabled"
    return settings | {
        "RAY_task_events_report_interval_ms": "0",  # a record per call, which nobody reads
        "RAY_memory_monitor_refresh_ms": "0",  # it would kill workers by its own judgement
        "RAY_prestart_worker_first_driver": "0",  # idle processes for tasks we never send
        "RAY_enable_worker_prestart": "0",
        # Ray's 15 leaves a worker a tenth of what others get on a busy machine: ours are no batch
        # tasks but half of the scheduler, and a search of one second took half a minute.
        "RAY_worker_niceness": "0",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # nothing to save, else it waits 30 s
        # Despite its name, this is what makes Ray keep 127.0.0.1, and listen nowhere else.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }


CONTROL_STORE = "gcs_server"
NEEDED = (CONTROL_STORE, "raylet")
"""Programs that a head cannot do without. ``ray start --block`` ends where one of them fails, but
goes on without a raylet that ended by SIGTERM, as a raylet does that lost one of its agents (Ray
2.60). No option keeps the agents from being started."""
LOOK_SECONDS = 0.1
ASK_SECONDS = 1.0
"""Interval of connections to the control store."""
_CONNECT_SECONDS = 0.1


class HeadProcesses:
    """Watches the processes of a head that is up, which may live on without one it needs."""

    def __init__(self) -> None:
        self._head = 0
        self._needed: dict[str, psutil.Process] = {}
        self._lost = ""
        self._looked = self._asked = 0.0

    def lost(self, head: int, port: int) -> str:
        """The program that the head with this process id has lost; "" for none. ``port``: of its
        control store, which SIGTERM makes close it and stay (Ray 2.60)."""
        if head != self._head:
            self._head, self._lost, self._needed = head, "", _programs(head)
        elif not self._lost and time.monotonic() >= self._looked + LOOK_SECONDS:
            self._looked = now = time.monotonic()
            self._lost = next((name for name in NEEDED if not self._lives(name)), "")
            if not self._lost and now >= self._asked + ASK_SECONDS:
                self._asked = now
                self._lost = CONTROL_STORE if _is_refused(port) else ""
        return self._lost

    def _lives(self, name: str) -> bool:
        process = self._needed.get(name)
        try:
            return process is not None and process.status() not in _ENDED and process.is_running()
        except psutil.NoSuchProcess:
            return False


def _is_refused(port: int) -> bool:
    """Whether nothing listens at a port here. A process that stands still does listen."""
    try:
        socket.create_connection((HOST, port), _CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def _programs(head: int) -> dict[str, psutil.Process]:
    """The needed processes below a head, by program."""
    found: dict[str, psutil.Process] = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(head).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                found.setdefault(process.name(), process)
    return found


def forget_address(temp_dir: Path) -> None:
    """Delete the address file, which a killed head leaves behind."""
    (temp_dir / ADDRESS_FILE).unlink(missing_ok=True)


def read_address(temp_dir: Path) -> str | None:
    """HOST:PORT of a head that has come up; None before. Does not tell whether it still runs."""
    with contextlib.suppress(OSError):
        return (temp_dir / ADDRESS_FILE).read_text().strip() or None
    return None
