"""CPU time of the processes of a run, by the part they play (Linux: from /proc)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

LOAD = "load"
"""The process that makes the load, and holds the supervisor."""
WORKERS = "workers"


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    seconds: float
    """User and system time since it started."""


def processes(proc: Path = PROC) -> list[Process]:
    """All processes that can be read; those that end meanwhile are left out."""
    entries = (entry for entry in proc.iterdir() if entry.name.isdecimal())
    return [process for entry in entries if (process := _read(entry)) is not None]


def _read(entry: Path) -> Process | None:
    try:
        stat = (entry / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold anything, so count from its end: field 3 comes first.
    rest = stat[stat.rindex(")") + 2 :].split()
    seconds = (int(rest[11]) + int(rest[12])) / os.sysconf("SC_CLK_TCK")
    return Process(pid=int(entry.name), parent=int(rest[1]), seconds=seconds)


def by_role(found: Iterable[Process], roots: Mapping[int, str]) -> dict[str, float]:
    """CPU seconds so far by role: a process plays the part of its nearest ancestor in ``roots``.

    ``roots``: pid -> role. The role :data:`LOAD` is not inherited: what a supervisor starts has a
    role of its own or is not counted.
    """
    known = {process.pid: process for process in found}
    total = dict.fromkeys(roots.values(), 0.0)
    for process in known.values():
        role = roots.get(process.pid) or _inherited(process.parent, known, roots)
        if role is not None:
            total[role] += process.seconds
    return total


def _inherited(pid: int, known: Mapping[int, Process], roots: Mapping[int, str]) -> str | None:
    while pid in known:
        if pid in roots:
            return None if roots[pid] == LOAD else roots[pid]
        pid = known[pid].parent
    return None
