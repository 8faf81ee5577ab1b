"""One victim in every order of events: its incarnations never get in each other's way."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from laboratory.cli.chaos.chaos import app
from laboratory.model.eviction import ALL, EvictionPromise, EvictionRule, explore

MISSED = {
    EvictionRule.BIND: EvictionPromise.ONE,
    EvictionRule.STOP: EvictionPromise.INNOCENT,
    EvictionRule.REPORT: EvictionPromise.ONE,
    EvictionRule.ANSWER: EvictionPromise.ONE,
}


def test_no_order_of_events_breaks_a_promise() -> None:
    found = explore()
    assert found.broken is None, found.trace
    assert found.states > 1000


@pytest.mark.parametrize("rule", EvictionRule)
def test_without_a_rule_a_way_to_break_one_is_found(rule: EvictionRule) -> None:
    found = explore(ALL - {rule})
    assert found.broken is MISSED[rule], found.trace
    assert found.trace


def test_the_command_explores_evictions_too() -> None:
    said = CliRunner().invoke(app, ["model", "--without", EvictionRule.STOP, "-o", "json"])
    found = json.loads(said.stdout)
    assert said.exit_code == 1
    assert (found["without"], found["broken"]) == (EvictionRule.STOP, EvictionPromise.INNOCENT)
    assert found["trace"] == explore(ALL - {EvictionRule.STOP}).trace


def test_a_check_that_there_is_not_is_refused_with_the_names_of_all() -> None:
    said = CliRunner().invoke(app, ["model", "--without", "stop"])
    assert said.exit_code == 2
    assert "stop-incarnation" in said.stderr and "epoch" in said.stderr
