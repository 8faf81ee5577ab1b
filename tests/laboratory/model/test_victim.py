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
    exploration = explore()
    assert exploration.broken is None, exploration.trace
    assert exploration.states > 1000


@pytest.mark.parametrize("rule", EvictionRule)
def test_without_a_rule_a_way_to_break_one_is_found(rule: EvictionRule) -> None:
    exploration = explore(ALL - {rule})
    assert exploration.broken is MISSED[rule], exploration.trace
    assert exploration.trace


def test_the_command_explores_evictions_too() -> None:
    result = CliRunner().invoke(app, ["model", "--without", EvictionRule.STOP, "-o", "json"])
    body = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (body["without"], body["broken"]) == (EvictionRule.STOP, EvictionPromise.INNOCENT)
    assert body["trace"] == explore(ALL - {EvictionRule.STOP}).trace


def test_a_check_that_there_is_not_is_refused_with_the_names_of_all() -> None:
    result = CliRunner().invoke(app, ["model", "--without", "stop"])
    assert result.exit_code == 2
    assert "stop-incarnation" in result.stderr and "epoch" in result.stderr
