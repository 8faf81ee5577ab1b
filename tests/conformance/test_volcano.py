"""Volcano's own test tables through a replay: each scenario is one test, named by its id.

The files are a reference beside the checkout; without them the tests skip, and for no other reason.
"""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from coordinator.verification.replay.scenario import replay
from tests.conformance.judge import differences
from tests.conformance.names import NAMES


@functools.cache
def scenarios(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.json"))
    return [scenario for file in files for scenario in json.loads(file.read_text("utf-8"))]


@pytest.fixture
def volcano(shared_reference: Path) -> list[dict[str, Any]]:
    folder = shared_reference / "conformance" / "volcano"
    if not folder.is_dir():
        pytest.skip("Volcano's scenarios are not beside this checkout")
    return scenarios(folder)


def test_every_scenario_is_named(volcano: list[dict[str, Any]]) -> None:
    assert Counter(scenario["id"] for scenario in volcano) == Counter(NAMES)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.split("::", 1)[1])
def test_comes_out_as_in_volcano(volcano: list[dict[str, Any]], name: str) -> None:
    scenario = next(found for found in volcano if found["id"] == name)
    assert differences(replay(scenario), scenario) == []


def test_the_order_of_the_objects_decides_nothing(volcano: list[dict[str, Any]]) -> None:
    """Volcano walks through its jobs and nodes in a random order, so that what a scenario expects
    holds in every order."""
    draw = random.Random(1)
    wrong = {}
    for scenario in volcano:
        mixed = {kind: draw.sample(them, len(them)) for kind, them in scenario["cluster"].items()}
        found = differences(replay({**scenario, "cluster": mixed}), scenario)
        if found:
            wrong[scenario["id"]] = found
    assert wrong == {}


def test_a_difference_is_found(volcano: list[dict[str, Any]]) -> None:
    """What the judge of the other tests says of results that are wrong in one thing each."""
    scenario = next(found for found in volcano if found["expect"].get("podGroupPhase"))
    result = replay(scenario)
    assert differences(result, scenario) == []
    for expect in (
        {"bindsNum": len(result.binds) + 1},
        {"bindMap": {"there/is-none": "here"}},
        {"evicted": ["there/is-none"]},
        {"pipelined": {"there/is-none": ["here"]}},
        {"podGroupPhase": dict.fromkeys(scenario["expect"]["podGroupPhase"], "None")},
        {"taskStatusNums": {"there/is-none": {"Binding": 1}}},
        {"bindNumsInHyperNode": [99]},
        {"somethingNew": 1},
    ):
        wrong: Mapping[str, Any] = {**scenario, "expect": expect}
        assert len(differences(result, wrong)) == 1, expect
