"""Volcano's own test tables through a replay: each scenario is one test, named by its id.

The files are a reference beside the checkout; without them the tests skip, and for no other reason.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from laboratory.replay.scenario import replay
from tests.conformance.judge import differences
from tests.conformance.names import NAMES
from tests.conformance.tables import tables

Scenarios = Mapping[str, Mapping[str, Any]]
TABLES = tables(NAMES)


def test_every_scenario_is_named(volcano: Scenarios) -> None:
    assert sorted(volcano) == sorted(NAMES)


@pytest.mark.parametrize("table", TABLES)
def test_comes_out_as_in_volcano(volcano: Scenarios, table: str, subtests: pytest.Subtests) -> None:
    for name in TABLES[table]:
        with subtests.test(name):
            scenario = volcano[name]
            assert differences(replay(scenario), scenario) == []


@pytest.mark.all
def test_the_order_of_the_objects_decides_nothing(volcano: Scenarios) -> None:
    """Volcano walks through its jobs and nodes in a random order, so that what a scenario expects
    holds in every order."""
    draw = random.Random(1)
    wrong = {}
    for name, scenario in volcano.items():
        mixed = {kind: draw.sample(them, len(them)) for kind, them in scenario["cluster"].items()}
        problems = differences(replay({**scenario, "cluster": mixed}), scenario)
        if problems:
            wrong[name] = problems
    assert wrong == {}


def test_a_difference_is_found(volcano: Scenarios) -> None:
    """The judge of the other tests finds each single wrong expectation."""
    scenario = next(
        results for results in volcano.values() if results["expect"].get("podGroupPhase")
    )
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
