"""The whole comparison over a checkout whose bench is made up, and once over the real one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.bench_compare.__main__ import ABOVE, FAILED, INTERRUPTED, POLICY, ROOT, main

pytestmark = pytest.mark.all

BENCH = """
import importlib.metadata, json, os, pathlib, sys, time
print("a line before the figures")
assert sys.argv[1:2] == ["bench"] and "-o" in sys.argv
assert os.environ["QUADRANT_POLICY"].endswith("policy.yaml")
assert "QUADRANT_SHARDS" not in os.environ

def installed():
    # An environment of its own, with the base's project in it: it may ask for its version.
    try:
        return importlib.metadata.version("made-up") == "1" and sys.prefix.endswith("/venv")
    except importlib.metadata.PackageNotFoundError:
        return False

cost = {cost}
if cost < 0:
    pathlib.Path(os.environ["TMPDIR"], "run").mkdir()
    pathlib.Path({marker!r}).write_text(os.environ["TMPDIR"])
    time.sleep(600)
if cost == 0:
    sys.exit("it broke")
print(json.dumps({{"workloads": {{"pods": {{"cpu_us_per_task": {{"all": cost}}}}}}}}))
"""

# A project that builds itself: its lock is empty, so there is no backend to install.
BACKEND = """
import zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name, info = "made_up-1-py3-none-any.whl", "made_up-1.dist-info"
    with zipfile.ZipFile(directory + "/" + name, "w") as wheel:
        wheel.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: made-up\\nVersion: 1\\n")
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(info + "/RECORD", "")
    return name
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


class Checkout:
    """A repository with one commit, and a tree that has changed since."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.marker = root.parent / "began"
        (root / "laboratory").mkdir(parents=True)
        (root / "laboratory" / "__init__.py").touch()  # else the installed package is found first
        (root / "requirements.lock").write_text("")
        (root / "pyproject.toml").write_text(PYPROJECT)
        (root / "backend.py").write_text(BACKEND)
        self.bench("100.0")
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "base")

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(self.root), *who, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def bench(self, cost: str) -> None:
        """From now on a run of the tree costs so much."""
        text = BENCH.format(cost=cost, marker=str(self.marker))
        (self.root / "laboratory" / "cli.py").write_text(text)

    def worktrees(self) -> int:
        return len(self.git("worktree", "list").splitlines())


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setenv("QUADRANT_SHARDS", "3")
    return Checkout(tmp_path / "checkout")


def left_behind(checkout: Checkout) -> list[Path]:
    return sorted((checkout.root.parent / "tmp").iterdir())


def compare(checkout: Checkout, *more: str) -> int:
    return main(["--base", "HEAD", "--sizes", "basic", *more], root=checkout.root)


def printed_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(capsys.readouterr().out)
    return body


@pytest.mark.parametrize(("cost", "code"), [("102.0", 0), ("103.5", ABOVE), ("80.0", 0)])
def test_the_tree_is_measured_as_it_is_and_the_base_as_it_was(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], cost: str, code: int
) -> None:
    checkout.bench(cost)
    assert compare(checkout, "--pairs", "3", "-o", "json") == code
    (one,) = printed_json(capsys)["comparisons"]
    assert one["base_us_per_task"] == [100.0] * 3
    assert one["tree_us_per_task"] == [float(cost)] * 3
    assert left_behind(checkout) == []
    assert checkout.worktrees() == 1


def test_people_get_a_table(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.bench("101.0")
    assert compare(checkout, "--pairs", "1") == 0
    printed = capsys.readouterr()
    assert "1.010" in printed.out and "No median is above 1.03" in printed.out
    assert str(POLICY) in printed.out
    assert "basic 1 of 1, pods" in printed.err


def test_a_base_with_other_dependencies_gets_an_environment_of_its_own(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.bench("50.0 if installed() else 100.0")
    checkout.git("commit", "--all", "--quiet", "--message", "the cost tells the environment")
    (checkout.root / "requirements.lock").write_text("# changed\n")
    assert compare(checkout, "--pairs", "1", "--bound", "3", "-o", "json") == 0
    (one,) = printed_json(capsys)["comparisons"]
    assert (one["base_us_per_task"], one["tree_us_per_task"]) == ([50.0], [100.0])
    assert left_behind(checkout) == []


def test_a_bench_that_fails_ends_it_and_says_what_it_said(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.bench("0")
    assert compare(checkout, "--pairs", "1") == FAILED
    assert "bench basic of the tree failed (1): it broke" in capsys.readouterr().err
    assert left_behind(checkout) == []
    assert checkout.worktrees() == 1


def test_a_base_that_is_no_commit_is_refused_before_anything_is_made(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--base", "no-such"], root=checkout.root) == FAILED
    assert "'no-such' is no commit" in capsys.readouterr().err
    assert left_behind(checkout) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_leaves_nothing_behind(checkout: Checkout, number: signal.Signals) -> None:
    checkout.bench("-1")
    # A suite under nohup has SIGHUP ignored, and children inherit that.
    program = "import pathlib, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    program += "signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from tests.bench_compare.__main__ import main; "
    program += "sys.exit(main(['--base', 'HEAD'], root=pathlib.Path(sys.argv[1])))"
    environment = {**os.environ, "TMPDIR": str(checkout.root.parent / "tmp")}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(checkout.root)],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 60
        while not checkout.marker.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        _, output = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED, output
    assert left_behind(checkout) == []
    assert checkout.worktrees() == 1


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(360)  # two whole benches: 121 s on a machine with nine others at work
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git checkout")
def test_the_real_bench_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """One pair of a small one: whether everything fits together, not what it costs."""
    small = ["--nodes", "20", "--pods", "100", "--shards", "1"]
    options = ["--base", "HEAD", "--pairs", "1", "--sizes", "basic", "--bound", "100", "-o", "json"]
    assert main([*options, "--", *small]) == 0
    reports = printed_json(capsys)
    assert {one["workload"] for one in reports["comparisons"]} == {"separate pods", "one Job"}
    assert all(one["ratios"][0] > 0 for one in reports["comparisons"])
