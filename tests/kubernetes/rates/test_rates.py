"""``quadrant bench kubernetes``, small: every pod is bound, and each process is told apart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from laboratory.cli.bench.bench_kubernetes import Rates
from laboratory.local_kubernetes.binaries import Binaries
from tests.coordinator.cli.interrupting import interrupt, shards_work

pytestmark = pytest.mark.timeout(280)
PODS = 40


def bench(*options: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "laboratory.cli", "bench", "kubernetes", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=270, check=False)


def runs(binaries: Binaries, *options: str | Path) -> dict[str, dict[str, Any]]:
    size = ("--servers", binaries.folder, "--nodes", "10", "--pods", str(PODS), "--shards", "2")
    result = bench(*size, *options, "-o", "json")
    assert result.returncode == 0, result.stderr
    return {run["scheduler"]: run for run in json.loads(result.stdout)["runs"]}


def test_waiting_gangs_are_bound_and_the_cost_of_each_process_is_shown(
    kubernetes_binaries: Binaries,
) -> None:
    run = runs(kubernetes_binaries, "--gang", "10")["quadrant"]
    assert run["pods"] == PODS
    assert run["by_process_us_per_pod"].keys() >= {"coordinator", "workers", "ledger"}
    assert run["servers_us_per_pod"].keys() == {"etcd", "kube-apiserver"}


@pytest.mark.thorough
def test_another_scheduler_is_given_the_same(kubernetes_binaries: Binaries) -> None:
    result = runs(kubernetes_binaries, "--kubelets", "--against", kubernetes_binaries.scheduler)
    assert result.keys() == {"quadrant", "kube-scheduler"}
    theirs = result["kube-scheduler"]
    assert theirs["pods"] == PODS
    assert theirs["by_process_us_per_pod"].keys() == {"kube-scheduler"}
    assert theirs["scheduler_us_per_pod"] > 0


def test_missing_server_binaries_are_named(tmp_path: Path, kubernetes_binaries: Binaries) -> None:
    assert "--servers" in bench().stderr
    servers = ("--servers", kubernetes_binaries.folder)
    assert "there is no" in bench(*servers, "--against", tmp_path / "kube-scheduler").stderr
    other = tmp_path / "other"
    other.touch()
    refused = bench(*servers, "--against", other, "--nodes", "1", "--pods", "1")
    assert (refused.returncode, "vc-scheduler" in refused.stderr) == (1, True)


def test_vc_scheduler_needs_its_controllers_beside_it(
    tmp_path: Path, kubernetes_binaries: Binaries
) -> None:
    program = tmp_path / "vc-scheduler"
    program.touch()
    refused = bench("--servers", kubernetes_binaries.folder, "--against", program)
    assert refused.returncode == 1
    assert "vc-controller-manager and Volcano's definitions" in refused.stderr


@pytest.mark.thorough
def test_own_figures_stay_where_another_scheduler_ends(
    tmp_path: Path, kubernetes_binaries: Binaries
) -> None:
    program = tmp_path / "kube-scheduler"
    program.write_text("#!/bin/sh\necho no room\nexit 3\n")
    program.chmod(0o755)
    size = ("--servers", kubernetes_binaries.folder, "--nodes", "2", "--pods", "2", "--shards", "1")
    result = bench(*size, "--against", program, "-o", "json")
    assert result.returncode == 1
    assert "kube-scheduler ended with 3:\nno room" in result.stderr, result.stderr
    assert [run["scheduler"] for run in json.loads(result.stdout)["runs"]] == ["quadrant"]


def test_pods_bound_within_one_look_have_no_rate() -> None:
    rates = Rates(
        scheduler="quadrant", pods=2, seconds=0.0, first_bind=1.0, again=0.0, memory={}, costs={}
    )
    assert rates.row()["pods_per_second"] is None


@pytest.mark.thorough
def test_it_ends_at_ctrl_c_with_its_servers(kubernetes_binaries: Binaries, short_dir: Path) -> None:
    size = ("--kubelets", "--nodes", "100", "--pods", "10000", "--shards", "2")
    command = ["bench", "kubernetes", "--servers", str(kubernetes_binaries.folder), *size]
    interrupt(command, when=shards_work, run_dir=short_dir)
