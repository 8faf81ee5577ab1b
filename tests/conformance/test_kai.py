"""KAI Scheduler's own test tables through a replay: each scenario is one test, named by its id.

The files are a reference beside the checkout; without them the tests skip, and for no other reason.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from laboratory.replay.kai.outcome import as_json
from laboratory.replay.kai.rounds import observed_states
from laboratory.replay.kai.scenario import read_kai_scenario
from tests.conformance.conftest import scenarios
from tests.conformance.kai_judge import wrong
from tests.conformance.kai_names import NAMES
from tests.conformance.tables import tables

Scenarios = Mapping[str, Mapping[str, Any]]
TABLES = tables(NAMES)


@pytest.fixture
def kai(shared_reference: Path) -> Scenarios:
    return scenarios(shared_reference / "conformance" / "kai")


def lines_of(scenario: Mapping[str, Any]) -> list[dict[str, Any]]:
    read = read_kai_scenario(scenario)
    return [as_json(read.id, observed) for observed in observed_states(read)]


def test_every_scenario_is_named(kai: Scenarios) -> None:
    assert sorted(NAMES) == sorted(kai)


@pytest.mark.parametrize("table", TABLES)
def test_comes_out_as_in_kai(kai: Scenarios, table: str, subtests: pytest.Subtests) -> None:
    for name in TABLES[table]:
        with subtests.test(name):
            scenario = kai[name]
            assert wrong(scenario, lines_of(scenario)) == []


@pytest.mark.all
def test_the_order_of_the_objects_decides_nothing(kai: Scenarios) -> None:
    draw = random.Random(1)
    differing = {}
    for name in NAMES:
        scenario = kai[name]
        mixed = {kind: draw.sample(them, len(them)) for kind, them in scenario["cluster"].items()}
        shuffled = {**scenario, "cluster": mixed}
        if result := wrong(scenario, lines_of(shuffled)):
            differing[name] = result
    assert differing == {}


def test_a_difference_is_found(kai: Scenarios) -> None:
    """The judge finds each single wrong expectation."""
    scenario = next(kai[name] for name in NAMES if kai[name]["expect"].get("jobs"))
    lines = lines_of(scenario)[:1]
    job = next(iter(scenario["expect"]["jobs"]))
    for expect in (
        {"jobs": {job: {"status": "Unknown"}}},
        {"jobs": {job: {"node": "there is none"}}},
        {"jobs": {job: {"requestedGpus": 99}}},
        {"nodes": {name: {"idleGpus": 99} for name in list(lines[0]["nodes"])[:1]}},
        {"maxBinds": -1},
        {"maxEvictions": -1},
        {"maxPipelined": -1},
    ):
        assert wrong({**scenario, "expect": expect}, lines), expect
