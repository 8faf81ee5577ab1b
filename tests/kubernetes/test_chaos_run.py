"""``quadrant chaos run --cluster kubernetes``: etcd and the API server are struck as well."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.verification.local_kubernetes.binaries import Binaries

SECONDS = 25
SEED = 4
"""Its plan kills each role once."""
LOSING_SECONDS = 32
LOSING_SEED = 5
"""It puts an old copy of the ledger back."""


def chaos(*options: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coordinator.cli", "chaos", "run", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=460, check=False)


@pytest.mark.timeout(480)
def test_every_promise_is_kept(kubernetes_binaries: Binaries, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    options = ("--seed", str(SEED), "--duration", str(SECONDS), "--history", history, "-o", "json")
    cluster = ("--cluster", "kubernetes", "--servers", kubernetes_binaries.folder)
    done = chaos(*cluster, *options)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["violations"] == []
    assert report["tasks_bound"] > 50
    struck = {"worker", "leader", "standby", "redis", "ray", "api-server", "etcd"}
    assert {f"kill {target}" for target in struck} <= report["faults"].keys()
    events = {json.loads(line)["ev"] for line in history.read_bytes().splitlines()}
    assert {"bind", "start", "succeeded", "commit", "status", "end"} <= events


@pytest.mark.timeout(480)
def test_with_an_old_copy_of_the_ledger_it_goes_on_by_itself(
    kubernetes_binaries: Binaries, tmp_path: Path
) -> None:
    history = tmp_path / "history.jsonl"
    options = ("--seed", str(LOSING_SEED), "--duration", str(LOSING_SECONDS), "-o", "json")
    cluster = ("--cluster", "kubernetes", "--servers", kubernetes_binaries.folder)
    done = chaos(*cluster, *options, "--history", history)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["violations"] == []
    assert report["faults"]["old copy of the ledger"] == 1
    both = [history.with_name("history-before.jsonl"), history]
    for part in both:
        events = {json.loads(line)["ev"] for line in part.read_bytes().splitlines()}
        assert {"bind", "start", "commit", "end"} <= events, part.name


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    without = chaos("--cluster", "kubernetes")
    assert (without.returncode, without.stdout) == (1, "")
    assert "--servers" in without.stderr
    empty = chaos("--cluster", "kubernetes", "--servers", tmp_path)
    assert "has no etcd" in empty.stderr
    assert "Traceback" not in without.stderr + empty.stderr
