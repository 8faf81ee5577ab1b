"""One victim in every order of events: its incarnations never get in each other's way."""

from __future__ import annotations

import pytest

from coordinator.chaos.model.victim import ALL, Promise, Rule, explore

MISSED = {
    Rule.BIND: Promise.ONE,
    Rule.STOP: Promise.INNOCENT,
    Rule.REPORT: Promise.ONE,
    Rule.ANSWER: Promise.ONE,
}


def test_no_order_of_events_breaks_a_promise() -> None:
    found = explore()
    assert found.broken is None, found.trace
    assert found.states > 1000


@pytest.mark.parametrize("rule", Rule)
def test_without_a_rule_a_way_to_break_one_is_found(rule: Rule) -> None:
    found = explore(ALL - {rule})
    assert found.broken is MISSED[rule], found.trace
    assert found.trace
