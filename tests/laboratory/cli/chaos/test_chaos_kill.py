"""``quadrant chaos kill`` against a running ``quadrant up``: each process that it can kill."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.objects import node

START_SECONDS = 100.0
RECOVERY_SECONDS = "120"
"""On a machine that does much else: a Ray head takes ten seconds alone."""
COMMAND = (sys.executable, "-m", "laboratory.cli")
KILLED = ("shard-1", "coordinator", "ledger", "ray", "shard-0")
"""In this order: the last worker is one that was started after all other processes were killed."""

Kill = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def kill() -> Iterator[Kill]:
    """Runs ``quadrant chaos kill ARGUMENTS`` beside a server with two shards and one node."""
    run_dir = Path(tempfile.mkdtemp(prefix="qt-"))  # sockets need short paths
    environ = {**os.environ, "QUADRANT_RUN_DIR": str(run_dir), "HOME": str(run_dir)}
    environ["KUBECONFIG"] = str(run_dir / "kubeconfig")
    words = (*COMMAND, "up", "--shards", "2", "--listen", "127.0.0.1:0")
    up = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environ,
        start_new_session=True,
    )

    def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            env=environ,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    try:
        assert up.stdout is not None
        ready, _, _ = select.select([up.stdout], [], [], START_SECONDS)
        assert ready, "not up in time"
        applied = run("apply", "-f", "-", stdin=json.dumps(node("n0")))
        assert applied.returncode == 0, applied.stderr
        yield lambda *words: run("chaos", "kill", *words)
    finally:
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=60)
        shutil.rmtree(run_dir, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_each_process_is_killed_and_the_way_back_is_told(kill: Kill) -> None:
    for name in KILLED:
        result = kill(name, "--seconds", RECOVERY_SECONDS, "-o", "json")
        assert (result.returncode, result.stderr) == (0, ""), (name, result.stderr, result.stdout)
        body: dict[str, Any] = json.loads(result.stdout)
        assert body["missing"] == []
        assert body["check"]["ok"]
        whats = [moment["what"] for moment in body["timeline"]]
        assert whats[0].startswith(f"killed {name} (process ")
        assert any(" noticed" in what for what in whats), whats
        assert any(what.startswith("replacement") for what in whats), whats
        assert any(what.startswith("first commit after: shard-") for what in whats), whats
        # A ledger that comes back within its leader's lease has the same leader.
        assert name == "ledger" or any(what.startswith("lease void: ") for what in whats), whats
        seconds = [moment["seconds"] for moment in body["timeline"]]
        assert seconds == sorted(seconds)
        assert seconds[0] == 0.0


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.all
def test_for_people_the_timeline_comes_before_the_verdict(kill: Kill) -> None:
    result = kill("shard-0", "--no-probe", "--seconds", "15")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("   0.000 s  killed shard-0 (process ")
    # Nothing was submitted, so that nothing had to be committed: it says so, and ends with 1.
    assert "         -   not seen in time: first commit after" in lines
    assert lines[-1] == "Every promise was kept."
    assert result.returncode == 1


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_unknown_kill_target_is_refused_with_the_remedy(kill: Kill, tmp_path: Path) -> None:
    for words, code, text in (
        (["shard-7"], 1, "shard-7: there are 2 shards, shard-0 and so on"),
        (["redis"], 2, "redis: not known; write shard-0 (or another shard), coordinator"),
        (["ray", "--run-dir", str(tmp_path)], 1, "no `quadrant up` of this machine runs in"),
    ):
        result = kill(*words)
        assert (result.returncode, result.stdout) == (code, "")
        assert text in result.stderr
        assert "Traceback" not in result.stderr
