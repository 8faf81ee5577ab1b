"""CPU time of the processes of a run, by role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import psutil

LOAD = "load"
"""Role of the process that generates the load and runs the supervisor."""
WORKERS = "workers"


@dataclass(frozen=True, slots=True)
class ProcessTime:
    pid: int
    parent: int
    seconds: float
    """User and system time since its start."""


def processes() -> list[ProcessTime]:
    """All readable processes; those that end meanwhile are left out."""
    return [
        ProcessTime(pid=process.pid, parent=process.info["ppid"], seconds=times.user + times.system)
        for process in psutil.process_iter(["ppid", "cpu_times"])
        if (times := process.info["cpu_times"]) is not None
    ]


def by_role(processes: Iterable[ProcessTime], roots: Mapping[int, str]) -> dict[str, float]:
    """CPU seconds by role: a process has the role of its nearest ancestor in ``roots``.

    ``roots``: pid -> role. The role :data:`LOAD` is not inherited: processes that a supervisor
    starts have roles of their own, or are not counted.
    """
    by_pid = {process.pid: process for process in processes}
    total = dict.fromkeys(roots.values(), 0.0)
    for process in by_pid.values():
        role = roots.get(process.pid) or _inherited(process.parent, by_pid, roots)
        if role is not None:
            total[role] += process.seconds
    return total


def _inherited(pid: int, by_pid: Mapping[int, ProcessTime], roots: Mapping[int, str]) -> str | None:
    while pid in by_pid:
        if pid in roots:
            return None if roots[pid] == LOAD else roots[pid]
        pid = by_pid[pid].parent
    return None
