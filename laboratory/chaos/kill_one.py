"""Kills one process of a live run, and finds out when that was noticed, when it was replaced, and
when scheduling went on.

The moments come from what the run itself writes (the coordinators' logs, and the history with every
epoch and commit) and from its processes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from coordinator.supervisor.live_run import COORDINATOR, LEDGER, RAY, LiveRun
from shared.ledger.protocol import COORDINATOR as LEADER

POLL_SECONDS = 0.02
_LOST = '"Lost a shard worker"'
_STARTED = '"Started a shard worker"'


@dataclass(frozen=True, slots=True)
class KillTarget:
    """``shard``: of a worker; -1 for the other processes. ``pid``: the process that is killed."""

    role: str
    pid: int
    shard: int = -1
    epoch: str = ""
    """Under which the worker wrote."""

    @property
    def name(self) -> str:
        return f"shard-{self.shard}" if self.shard >= 0 else self.role


@dataclass(frozen=True, slots=True)
class RecoveryMoment:
    at: float
    """Seconds since 1970."""
    what: str


@dataclass(slots=True)
class Recovery:
    """The moments so far, in any order."""

    killed: float
    moments: list[RecoveryMoment] = field(default_factory=list)
    noticed: bool = False
    void: bool = False
    up: bool = False
    committed: bool = False

    @property
    def complete(self) -> bool:
        return self.noticed and self.up and self.committed

    def in_order(self) -> list[RecoveryMoment]:
        return sorted(self.moments, key=lambda moment: moment.at)

    def note(self, at: float, what: str) -> None:
        self.moments.append(RecoveryMoment(at, what))


class RecoveryWatch:
    """Follows a run after a kill. Call :meth:`look` until the recovery is complete."""

    def __init__(self, run: LiveRun, target: KillTarget) -> None:
        self._run = run
        self._target = target
        self._logs = [run.run_dir / "log" / f"{name}.log" for name in (COORDINATOR, "standby")]
        files = [run.history, *self._logs]
        self._from = {path: _size(path) for path in files}
        """How far each file has been read."""
        self.recovery = Recovery(killed=0.0)
        self._begun: set[str] = set()
        """Epochs that began after the kill."""

    def kill(self) -> None:
        """Raises NoRun where the process is not the run's."""
        killed = time.time()
        self._run.kill(self._target.pid)
        self.recovery = Recovery(killed=killed)
        self.recovery.note(killed, f"killed {self._target.name} (process {self._target.pid})")

    def look(self) -> None:
        """Take up what was written since the last look."""
        for path in self._logs:
            for line in self._new_lines(path):
                self._log_line(line)
        for line in self._new_lines(self._run.history):
            self._history_line(orjson.loads(line))
        if self._target.shard < 0:
            self._processes()

    def _new_lines(self, path: Path) -> Iterator[bytes]:
        try:
            with path.open("rb") as file:
                file.seek(self._from[path])
                for line in file:
                    if not line.endswith(b"\n"):
                        return  # its writer is at it
                    self._from[path] += len(line)
                    yield line
        except FileNotFoundError:
            return

    # --- what each says -----------------------------------------------------------------------

    def _log_line(self, line: bytes) -> None:
        target, recovery = self._target, self.recovery
        if not (_LOST.encode() in line or _STARTED.encode() in line):
            return
        try:
            entry: dict[str, Any] = json.loads(line)
            at = datetime.fromisoformat(entry["ts"]).timestamp()
        except (ValueError, KeyError):
            return
        if target.role in (COORDINATOR, LEDGER):
            return  # their workers live on, or are begun anew without a word that matters
        of_shard = target.shard < 0 or entry.get("shard") == target.shard
        if not of_shard or at < recovery.killed:
            return
        if _LOST.encode() in line:
            if not recovery.noticed and target.shard >= 0:
                recovery.noticed = True
                why, *_ = [*str(entry.get("why") or "").splitlines(), ""]
                recovery.note(at, f"the coordinator noticed: {why}")
        elif not recovery.up:
            recovery.up = True
            text = f"replacement of shard-{entry.get('shard')} up: process {entry.get('pid')}"
            recovery.note(at, f"{text}, epoch {entry.get('epoch')}")

    def _history_line(self, event: dict[str, Any]) -> None:
        recovery = self.recovery
        at = float(event["t"])
        if at < recovery.killed:
            return
        match event["ev"]:
            case "epoch" if self._succeeds(event["writer"]):
                self._begun.add(event["epoch"])
                if not recovery.void:
                    recovery.void = True
                    recovery.note(at, f"lease void: {self._old} over, {event['epoch']} counts")
            case "commit" if not recovery.committed and self._counts(event):
                recovery.committed = True
                recovery.note(at, f"first commit after: shard-{event['writer']}")
            case _:
                pass

    @property
    def commits_count(self) -> bool:
        """Whether a commit from now on is of the time after, and not one that was on its way."""
        return self.recovery.noticed if self._target.role == LEDGER else self.recovery.void

    def _counts(self, event: dict[str, Any]) -> bool:
        if self._target.role == RAY:  # all workers died, and each has a successor
            return event["epoch"] in self._begun
        return self.commits_count and event["epoch"] != self._target.epoch

    def _succeeds(self, writer: str) -> bool:
        """Whether an epoch of this writer makes those of the killed process void."""
        if self._target.role == RAY:
            return writer.isdecimal()  # of any worker: the coordinator lives on
        return writer == (str(self._target.shard) if self._target.shard >= 0 else LEADER)

    @property
    def _old(self) -> str:
        if self._target.role == RAY:
            return "an old worker's is"
        return f"epoch {self._target.epoch} is" if self._target.epoch else "the old leader's is"

    def _processes(self) -> None:
        target, recovery = self._target, self.recovery
        if recovery.noticed and (recovery.up or target.role == RAY):
            return
        if self._run.successor(target.role, besides=target.pid) and not recovery.noticed:
            recovery.noticed = True
            # When we saw it: the start that the kernel tells is counted from the boot, whose time
            # is not known that well.
            recovery.note(time.time(), "the supervisor noticed, and started another")

    def answered(self) -> None:
        """Note that the server answers, and says that it is well."""
        recovery = self.recovery
        if not recovery.up and recovery.noticed and self._target.role in (COORDINATOR, LEDGER):
            recovery.up = True
            pid = self._run.pid(self._target.role)
            recovery.note(time.time(), f"replacement up and ready: process {pid}")


def follow(watch: RecoveryWatch, *, seconds: float, each: Callable[[], None]) -> Recovery:
    """Look until the recovery is complete, for so long at most. ``each`` runs after each look."""
    end = time.monotonic() + seconds
    while not watch.recovery.complete and time.monotonic() < end:
        watch.look()
        each()
        time.sleep(POLL_SECONDS)
    return watch.recovery


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
