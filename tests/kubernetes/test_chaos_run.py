"""``quadrant chaos run --cluster kubernetes``: etcd and the API server are struck as well."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from laboratory.chaos.kubernetes.volcano import GPU_AMOUNT, GPU_SHARES
from laboratory.checker.check import check, check_lines
from laboratory.checker.report.report import CheckReport
from laboratory.checker.report.rules import Rule
from laboratory.local_kubernetes.binaries import Binaries
from shared.model.gpu_request import WHOLE

SEED, KAI_SEED = 4, 24
LOAD_SECONDS = 12, 40
LOSING_SECONDS = 32
LOSING_SEED, KAI_LOSING_SEED = 5, 188
"""They put an old copy of the ledger back. The second is of KAI's, and its plan kills each role,
the standby before the leader, and the Ray head last: each is there to be killed."""
STRUCK = {"worker", "leader", "standby", "ledger", "ray", "api-server", "etcd"}
RUNS = 3
"""Where others use the machine a process may not be back in time to be killed: it is run anew."""

LOADED = (Rule.DEVICE_CAPACITY, Rule.DEVICES, Rule.VOLUMES, Rule.EVICTION_POLICY, Rule.VICTIM_GANG)
"""Rules that need shared GPUs, volumes, claims, and victims under a budget."""
KAI_LOADED = (*LOADED, Rule.QUEUE_TREE)


def chaos(*options: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "laboratory.cli", "chaos", "run", *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=460, check=False)


def judged_load(binaries: Binaries, tmp_path: Path, seed: int, rules: Sequence[Rule]) -> Path:
    """The history of a load that each of the rules judges.

    Without faults, so that all of it is placed within the seconds of the load. In the same seconds
    a machine with other work comes to less of it."""
    for seconds in LOAD_SECONDS:
        history = tmp_path / f"{seconds}.jsonl"
        cluster = ("--cluster", "kubernetes", "--servers", binaries.folder, "--no-faults")
        load = ("--seed", str(seed), "--duration", str(seconds), "--history", history)
        result = chaos(*cluster, *load)
        assert result.returncode == 0, result.stdout + result.stderr[-3000:]
        facts = facts_of(check(history, closed=True))
        if all(facts[rule] > 0 for rule in rules):
            return history
    raise AssertionError(facts)


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_every_rule_judges_some_of_the_load(kubernetes_binaries: Binaries, tmp_path: Path) -> None:
    history = judged_load(kubernetes_binaries, tmp_path, SEED, LOADED)
    whole = [GPU_SHARES, GPU_AMOUNT, 0]
    broken = broken_where_a_device_is_given_twice(history, "devices", whole)
    assert Rule.DEVICE_CAPACITY.label in broken


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_every_kai_rule_judges_some_of_the_load(
    kubernetes_binaries: Binaries, tmp_path: Path
) -> None:
    history = judged_load(kubernetes_binaries, tmp_path, KAI_SEED, KAI_LOADED)
    # By our annotation, in parts of the books; and by KAI's labels, in thousandths.
    for column, whole in (("devices", WHOLE), ("gpus", 1000)):
        broken = broken_where_a_device_is_given_twice(history, column, [whole])
        assert Rule.DEVICE_CAPACITY.label in broken, column


def facts_of(report: CheckReport) -> dict[Rule, int]:
    by_name = {row.rule: row.checked for row in report.rows}
    return {rule: by_name[rule.label] for rule in KAI_LOADED}


def broken_where_a_device_is_given_twice(history: Path, column: str, whole: list[int]) -> set[str]:
    """Rules that are broken where a pod says that it has a whole device of which another pod on its
    node has a part. ``column``: where binds say it."""
    lines = history.read_bytes().splitlines(keepends=True)
    holders: dict[str, tuple[str, str]] = {}
    """Node -> (task, device) of a pod that is there."""
    for number, line in enumerate(lines):
        event = json.loads(line)
        for node in event.get("nodes", []) if event["src"] == "cluster" else []:
            task, device = holders.get(node, ("", ""))
            if event["ev"] == "bind" and device:
                lines[number] = json.dumps(event | {column: [[[device, whole]]]}).encode() + b"\n"
                return {result.rule for result in check_lines(lines, name="changed").violations}
            if event["ev"] == "bind" and event[column][0]:
                holders[node] = event["tasks"][0], event[column][0][0][0]
            if event["ev"] in ("succeeded", "failed", "lost") and event["tasks"] == [task]:
                del holders[node]
    raise AssertionError("no pod came beside one that has a device")


def losing_run(binaries: Binaries, history: Path, seed: int) -> set[str]:
    """Run the seed, which keeps every promise; return its faults."""
    options = ("--seed", str(seed), "--duration", str(LOSING_SECONDS), "-o", "json")
    cluster = ("--cluster", "kubernetes", "--servers", binaries.folder)
    result = chaos(*cluster, *options, "--history", history)
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    report = json.loads(result.stdout)
    assert report["violations"] == []
    assert report["tasks_bound"] > 10  # fewer where others use the machine
    assert report["faults"]["old copy of the ledger"] == 1
    return set(report["faults"])


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "seed", [LOSING_SEED, pytest.param(KAI_LOSING_SEED, marks=pytest.mark.thorough)]
)
def test_every_promise_is_kept_also_with_an_old_copy_of_the_ledger(
    kubernetes_binaries: Binaries, tmp_path: Path, seed: int
) -> None:
    missed: set[str] = {f"kill {target}" for target in STRUCK} if seed == KAI_LOSING_SEED else set()
    for run in range(RUNS):
        history = tmp_path / f"history-{run}.jsonl"
        missed -= losing_run(kubernetes_binaries, history, seed)
        if not missed:
            break
    assert not missed
    both = [history.with_name(f"{history.stem}-before.jsonl"), history]
    for part in both:
        events = {json.loads(line)["ev"] for line in part.read_bytes().splitlines()}
        assert {"bind", "start", "commit", "end"} <= events, part.name
    after = facts_of(check(history, closed=True))
    assert after[Rule.DEVICE_CAPACITY] > 0, "devices of pods that another ledger had bound"


def test_missing_server_binaries_are_named(tmp_path: Path) -> None:
    without = chaos("--cluster", "kubernetes")
    assert (without.returncode, without.stdout) == (1, "")
    assert "--servers" in without.stderr
    empty = chaos("--cluster", "kubernetes", "--servers", tmp_path)
    assert "has no etcd" in empty.stderr
    assert "Traceback" not in without.stderr + empty.stderr
