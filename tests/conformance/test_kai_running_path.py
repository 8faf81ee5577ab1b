"""KAI Scheduler's own test tables through coordinator, workers and ledger, in two forms.

A scenario that comes out otherwise stands in ``DIFFERS``, with its reason; one that stands there
and comes out as in KAI fails, so that the list stays true.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from laboratory.replay.kai.rounds import observed_states
from laboratory.replay.kai.scenario import read_kai_scenario
from laboratory.replay.kai.service import run_kai_sharded
from shared.codec.packed import replace
from tests.conformance.forms import Form
from tests.conformance.kai_at_rest import differences, plan_of
from tests.conformance.kai_differing import DIFFERS
from tests.conformance.kai_names import NAMES
from tests.conformance.tables import tables
from tests.conformance.test_kai import Scenarios, kai

__all__ = ["kai"]
FORMS = (pytest.param(Form.ONE, marks=pytest.mark.all), Form.THREE_SOFT)
TABLES = tables(NAMES)
SHORT = "actions/reclaim/reclaim"
"""The table of ``make test``; Volcano's are all in it, with three shards."""


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.value)
@pytest.mark.parametrize(
    "table", [t if t == SHORT else pytest.param(t, marks=pytest.mark.all) for t in TABLES]
)
def test_the_running_path_decides_as_kai(
    kai: Scenarios, table: str, form: Form, subtests: pytest.Subtests
) -> None:
    for name in TABLES[table]:
        with subtests.test(name):
            read = read_kai_scenario(kai[name])
            rest = run_kai_sharded(read, form.sharding(0))
            lines = differences(kai[name], read, rest, anywhere=form is Form.THREE_SOFT)
            if form in DIFFERS.get(name, ()):
                assert lines, "comes out as in KAI now: take it out of DIFFERS"
            else:
                assert lines == []


def test_every_listed_difference_is_a_scenario() -> None:
    assert set(DIFFERS) <= set(NAMES)


def test_a_difference_at_rest_is_found(kai: Scenarios) -> None:
    """The comparison finds each single wrong result."""
    name = next(
        name
        for name in NAMES
        if kai[name]["policy"]["actions"] == "reclaim"
        and name not in DIFFERS
        and plan_of([*observed_states(read_kai_scenario(kai[name]))][-1].round).victims
    )
    scenario: Mapping[str, Any] = kai[name]
    read = read_kai_scenario(scenario)
    good = run_kai_sharded(read, Form.ONE.sharding(0))
    pod = good.evicted[0]
    for wrong in (
        replace(good, evicted=[]),
        replace(good, evicted=[*good.evicted, pod]),
        replace(good, binds={}, pipelined={}),
        replace(good, binds=dict.fromkeys(good.binds, "elsewhere")),
    ):
        assert differences(scenario, read, wrong, anywhere=False) != []
