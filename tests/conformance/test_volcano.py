"""Volcano's own test tables through ``quadrant replay``: what this version has to reproduce.

Each scenario is one test, named by its id. The files are a reference beside the checkout; without
them the tests skip. Scenarios that need what is not in this version are not listed, and a test
holds that each of those is refused by name instead of being replayed wrongly.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from coordinator.replay import Result, ScenarioError, replay
from shared.policy import PolicyError

ALLOCATE = "actions/allocate/allocate::"
SHARD = "actions/allocate/allocate_shard::TestAllocateWithShard::"
NODE_ORDER = "plugins/nodeorder/nodeorder::TestNodeOrderPlugin::"

REPRODUCED = [
    f"{SHARD}hard sharding mode - allocate to node in shard",
    f"{SHARD}soft sharding mode - prefer node in shard",
    f"{NODE_ORDER}leastAllocated strategy",
    f"{NODE_ORDER}mostAllocated strategy",
    f"{NODE_ORDER}balanced allocation prefers balanced node",
    f"{ALLOCATE}TestAllocate::prepredicate failed: node selector does not match",
    f"{ALLOCATE}TestAllocate::prepredicate failed and tasks are not used up, continue on until min "
    "member meet",
    f"{ALLOCATE}TestAllocate::master's min member can not be allocated, break from allocating",
    f"{ALLOCATE}TestAllocate::one Job with two Pods on one node",
    f"{ALLOCATE}TestFareShareAllocate::queue's one jobs has no pending tasks, should be put back "
    "to queues for next job",
    f"{ALLOCATE}TestAllocate_FlatPathHonorsAndClearsNomination::flat path honors and clears "
    "NominatedHyperNode",
]


@functools.cache
def scenarios(folder: Path) -> Mapping[str, dict[str, Any]]:
    files = sorted(folder.glob("*.json"))
    return {s["id"]: s for file in files for s in json.loads(file.read_text(encoding="utf-8"))}


@pytest.fixture
def volcano(shared_reference: Path) -> Mapping[str, dict[str, Any]]:
    folder = shared_reference / "conformance" / "volcano"
    if not folder.is_dir():
        pytest.skip("Volcano's scenarios are not beside this checkout")
    return scenarios(folder)


@pytest.mark.parametrize("name", REPRODUCED, ids=lambda name: name.rpartition("::")[2].strip())
def test_reproduces(volcano: Mapping[str, dict[str, Any]], name: str) -> None:
    scenario = volcano[name]
    check(replay(scenario), scenario["expect"], scenario["cluster"])


def check(result: Result, expect: Mapping[str, Any], cluster: Mapping[str, Any]) -> None:
    """Hold a result against everything a scenario expects."""
    known = {
        "bindsNum",
        "bindMap",
        "bindNumsInHyperNode",
        "evicted",
        "pipelined",
        "podGroupPhase",
        "taskStatusNums",
    }
    assert set(expect) <= known
    if "bindsNum" in expect:
        assert len(result.binds) == expect["bindsNum"]
    if "bindMap" in expect:
        assert result.binds == expect["bindMap"]
    assert sorted(expect.get("evicted", [])) == []
    for group, nodes in expect.get("pipelined", {}).items():
        pods = {
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for pod in cluster["pods"]
            if pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
            == group.partition("/")[2]
        }
        placed = [node for pod, node in result.pipelined.items() if pod in pods]
        assert placed
        assert set(placed) <= set(nodes)
    for group, phase in expect.get("podGroupPhase", {}).items():
        assert result.pod_groups[group]["phase"] == phase
    for group, counts in expect.get("taskStatusNums", {}).items():
        assert result.tasks[group] == counts


def test_the_rest_is_refused_by_name_or_agrees(volcano: Mapping[str, dict[str, Any]]) -> None:
    """A scenario outside the list either names what this version lacks or comes out right."""
    wrong = []
    refused = 0
    for name, scenario in volcano.items():
        if name in REPRODUCED:
            continue
        try:
            result = replay(scenario)
        except (ScenarioError, PolicyError) as error:
            assert "not in this version" in str(error), error
            refused += 1
            continue
        try:
            check(result, scenario["expect"], scenario["cluster"])
        except AssertionError:
            wrong.append(name)
    assert refused
    assert wrong == KNOWN_DIFFERENCES


# Preferences between pods are scores that this version leaves out (intake says so in a notice).
KNOWN_DIFFERENCES = [
    f"{NODE_ORDER}inter-pod affinity prefers node with matching pod",
    f"{NODE_ORDER}pod topology spread prefers node to reduce skew",
]
