"""A package of somebody else's plugin, installed as a user would."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = Path(__file__).parent / "third_party"
ROOMS = ("coordinator", "shard_worker", "shared", "tests")
POLICY = """
actions: allocate
tiers: [{plugins: [{name: gang}, {name: rack-lab, arguments: {rack-lab.weight: 3}}]}]
"""
TRY = """
import json, sys
from shard_worker.dialects.open_session import open_session
from shared.policy.dialect import parse_policy
import rack_lab
from shard_worker.harness import Cluster

session = open_session(parse_policy(sys.argv[1]))
cluster = Cluster("gang", rack_lab.RackLab)
cluster.node("old", cpu=8, labels={"rack/free": "1"})
cluster.node("new", cpu=2, labels={"rack/free": "4"})
cluster.node("open", cpu=64, labels={"rack/free": "9", "rack/service": "true"})
cluster.job("train", tasks=3, cpu=1)
binds = {str(task): node for task, node in cluster.run().binds.items()}
report = {"at": rack_lab.__file__, "points": session.spoken["rack-lab"], "binds": binds}
json.dump(report, sys.stdout)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Where an installer put it."""
    target = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [*command, *offline, "--target", str(target), str(PACKAGE)], check=True, timeout=100
    )
    return target


def test_it_imports_the_framework_alone() -> None:
    tree = ast.parse((PACKAGE / "rack_lab.py").read_text())
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {module for module in modules if module.split(".")[0] in ROOMS}
    assert ours == {"shard_worker.framework.plugin"}


def test_installed_it_is_named_in_a_policy_and_decides(site: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(site), str(ROOT)])
    tried = subprocess.run(
        [sys.executable, "-c", TRY, POLICY],
        env=os.environ | {"PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        check=True,
        timeout=60,
    )
    report = json.loads(tried.stdout)
    assert Path(report["at"]).parent == site
    assert report["points"] == ["Predicate", "NodeOrder", "JobOrder", "Preemptable", "JobValid"]
    assert report["binds"] == {
        "default/train-0": "new",
        "default/train-1": "new",
        "default/train-2": "old",
    }
