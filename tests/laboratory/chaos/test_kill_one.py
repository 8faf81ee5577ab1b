"""The timeline of a killed process, from the files that a run writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coordinator.supervisor.live_run import LiveRun
from laboratory.chaos.kill_one import KillTarget, Recovery, RecoveryWatch, follow


class RunDirectory:
    """A run directory whose files are written here, and a process that may be killed."""

    def __init__(self, run_dir: Path) -> None:
        self.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        self.run = LiveRun(run_dir, os.getpid(), run_dir / "history.jsonl")
        (run_dir / "log").mkdir()
        self.log = run_dir / "log" / "coordinator.log"

    def event(self, kind: str, writer: str, epoch: str) -> None:
        line = {"t": time.time(), "ev": kind, "writer": writer, "epoch": epoch}
        self._write(self.run.history, line)

    def logged(self, event: str, **fields: Any) -> None:
        now = datetime.now(UTC).isoformat()
        self._write(self.log, {"ts": now, "event": event, **fields})

    @staticmethod
    def _write(path: Path, line: dict[str, Any]) -> None:
        with path.open("a") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[RunDirectory]:
    staged = RunDirectory(tmp_path)
    yield staged
    staged.child.kill()
    staged.child.wait()


def whats(recovery: Recovery) -> list[str]:
    return [moment.what.partition(":")[0] for moment in recovery.in_order()]


def test_a_killed_worker_is_followed_to_the_first_commit_after(stage: RunDirectory) -> None:
    stage.event("epoch", "0", "1:old")
    stage.event("commit", "0", "1:old")  # before: neither its commit nor its epoch counts
    watch = RecoveryWatch(stage.run, KillTarget("shard", stage.child.pid, 0, "1:old"))
    watch.kill()
    stage.event("commit", "0", "1:old")  # was on its way
    stage.logged("Lost a shard worker", shard=1, why="another shard's")
    stage.logged("Lost a shard worker", shard=0, why="ActorDiedError: it died\nmore of it")
    stage.event("epoch", "0", "2:new")
    stage.event("commit", "1", "1:other")
    stage.logged("Started a shard worker", shard=0, epoch="3:next", pid=77)
    recovery = follow(watch, seconds=60, each=lambda: None)
    assert recovery.complete
    assert whats(recovery) == [
        f"killed shard-0 (process {stage.child.pid})",
        "the coordinator noticed",
        "lease void",
        "first commit after",
        "replacement of shard-0 up",
    ]
    assert recovery.in_order()[1].what == "the coordinator noticed: ActorDiedError: it died"
    assert recovery.in_order()[3].what.endswith("shard-1")
    assert stage.child.wait(timeout=60) == -9


def test_a_recovery_without_a_successor_is_incomplete(stage: RunDirectory) -> None:
    watch = RecoveryWatch(stage.run, KillTarget("shard", stage.child.pid, 0, "1:old"))
    watch.kill()
    stage.logged("Lost a shard worker", shard=0, why="it died")
    recovery = follow(watch, seconds=0.2, each=lambda: None)
    assert (recovery.noticed, recovery.up, recovery.committed) == (True, False, False)
    assert not recovery.complete


def test_half_a_line_is_read_when_it_is_whole(stage: RunDirectory) -> None:
    watch = RecoveryWatch(stage.run, KillTarget("coordinator", stage.child.pid))
    watch.kill()
    stage.event("epoch", "coordinator", "2:new")
    with stage.run.history.open("a") as file:
        file.write('{"t": 9e9, "ev": "commit", "writer": "1",')
    watch.look()
    assert watch.recovery.void
    assert not watch.recovery.committed
    with stage.run.history.open("a") as file:
        file.write('"epoch": "1:x"}\n')
    watch.look()
    assert watch.recovery.committed


def test_a_commit_counts_from_when_the_lease_is_void(stage: RunDirectory) -> None:
    """One that another shard makes before would be the last where nothing else is submitted."""
    watch = RecoveryWatch(stage.run, KillTarget("shard", stage.child.pid, 0, "1:old"))
    watch.kill()
    stage.event("commit", "1", "1:other")
    watch.look()
    assert (watch.commits_count, watch.recovery.committed) == (False, False)
    stage.event("epoch", "0", "2:new")
    watch.look()
    assert watch.commits_count
    stage.event("commit", "1", "1:other")
    watch.look()
    assert watch.recovery.committed


def test_after_a_lost_ray_head_a_commit_of_a_new_worker_counts(stage: RunDirectory) -> None:
    """The coordinator lives on, so that no epoch of its own says that anything is over."""
    watch = RecoveryWatch(stage.run, KillTarget("ray", stage.child.pid))
    watch.kill()
    stage.event("epoch", "intake", "2:other")
    stage.event("commit", "1", "1:old")  # was on its way
    watch.look()
    assert (watch.commits_count, watch.recovery.committed) == (False, False)
    stage.event("epoch", "1", "2:new")
    stage.event("commit", "0", "1:old")
    watch.look()
    assert (watch.commits_count, watch.recovery.committed) == (True, False)
    stage.event("commit", "1", "2:new")
    watch.look()
    assert watch.recovery.committed
    assert "lease void: an old worker's is over, 2:new counts" in [
        moment.what for moment in watch.recovery.in_order()
    ]
