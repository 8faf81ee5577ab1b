"""Volcano's own test tables through coordinator, workers and ledger, in three forms: until nothing
changes, and halted where one session ends.

A scenario that comes out otherwise stands in ``DIFFERS``, with its reason; one that stands there
and comes out as in Volcano fails, so that the list stays true.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from laboratory.replay.scenario import replay
from shared.codec.packed import replace
from tests.conformance.at_rest import differences_at_rest
from tests.conformance.forms import Form, differences_halted_in, differences_in
from tests.conformance.names import NAMES
from tests.conformance.one_session import differences_after_one_session
from tests.conformance.tables import tables

Scenarios = Mapping[str, Mapping[str, Any]]
TABLES = tables(NAMES)
FORMS = [
    form if form is Form.THREE_SOFT else pytest.param(form, marks=pytest.mark.all) for form in Form
]

DIFFERS: Mapping[str, str] = {}
"""Scenario -> why it comes out otherwise in every form."""


DIFFERS_HALTED: Mapping[str, str] = {
    "actions/preempt/preempt::TestTopologyAwarePreempt::preempt low-priority pod when "
    "high-priority pod has PodAntiAffinity conflict": (
        "the service looks again while the victim is still there, as the next session would: its "
        "anti-affinity keeps the pod out, and the promise is given up until the victim has left"
    ),
}
"""The same where the run is halted after one session; until rest they come out as in Volcano."""


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.value)
@pytest.mark.parametrize("table", TABLES)
def test_the_running_path_decides_as_volcano(
    volcano: Scenarios, table: str, form: Form, subtests: pytest.Subtests
) -> None:
    for name in TABLES[table]:
        with subtests.test(name):
            lines = differences_in(form, volcano[name])
            if name in DIFFERS:
                assert lines, "comes out as in Volcano now: take it out of DIFFERS"
            else:
                assert lines == []


@pytest.mark.all
@pytest.mark.parametrize("form", Form, ids=lambda form: f"{form.value} --cycles 1")
@pytest.mark.parametrize("table", TABLES)
def test_halted_after_one_session_the_table_itself_holds(
    volcano: Scenarios, table: str, form: Form, subtests: pytest.Subtests
) -> None:
    for name in TABLES[table]:
        with subtests.test(name):
            lines = differences_halted_in(form, volcano[name])
            if name in DIFFERS_HALTED:
                assert lines, "holds as it stands now: take it out of DIFFERS_HALTED"
            else:
                assert lines == []


def test_every_listed_difference_is_a_scenario() -> None:
    assert {*DIFFERS, *DIFFERS_HALTED} <= set(NAMES)


def test_a_difference_at_rest_is_found(volcano: Scenarios) -> None:
    """The comparison finds each single wrong result."""
    scenario = volcano["actions/allocate/allocate::TestAllocate::one Job with two Pods on one node"]
    good = replay(scenario)
    assert differences_at_rest(scenario, good, good) == []
    (pod, node), *others = good.binds.items()
    for wrong in (
        replace(good, binds=dict(others)),
        replace(good, binds={**good.binds, "there/is-none": node}),
        replace(good, binds={**good.binds, pod: "elsewhere"}),
        replace(good, pipelined={"there/is-none": node}),
    ):
        assert len(differences_at_rest(scenario, good, wrong)) == 1
    soft = replace(good, binds={**good.binds, pod: "elsewhere"})
    assert differences_at_rest(scenario, good, soft, shards_prefer_own=True) == []


def test_a_promise_and_its_victims_are_held_at_rest(volcano: Scenarios) -> None:
    scenario = volcano[
        "actions/reclaim/reclaim::TestReclaim::Two Queue with one Queue overusing resource, should "
        "reclaim"
    ]
    session = replay(scenario)
    promised = replace(session, binds=session.pipelined, pipelined={})
    assert differences_at_rest(scenario, session, promised) == []
    assert len(differences_at_rest(scenario, session, replace(promised, binds={}))) == 1
    [victim] = session.evicted
    assert len(differences_at_rest(scenario, session, replace(promised, evicted=[]))) == 1
    twice = differences_at_rest(scenario, session, replace(promised, evicted=[victim, victim]))
    assert twice[0] == f"evicted more than once: {{'{victim}': 2}}"


def test_phases_count_where_nothing_moved(volcano: Scenarios) -> None:
    scenario = volcano["actions/enqueue/enqueue::TestEnqueue::when podgroup status is pending"]
    session = replay(scenario)
    groups = {key: {**group, "phase": "None"} for key, group in session.pod_groups.items()}
    assert len(differences_at_rest(scenario, session, replace(session, pod_groups=groups))) == 2


def test_a_difference_after_one_session_is_found(volcano: Scenarios) -> None:
    """The comparison also holds results that the table leaves out, and allows a service to bind at
    once."""
    scenario = volcano[
        "actions/reclaim/reclaim::TestReclaim::Two Queue with one Queue overusing resource, should "
        "reclaim"
    ]
    session = replay(scenario)
    assert differences_after_one_session(scenario, session, session) == []
    promised = replace(session, binds=session.pipelined, pipelined={})
    assert differences_after_one_session(scenario, session, promised) == []
    for wrong in (
        replace(session, evicted=[]),
        replace(session, pipelined={}),
        replace(session, tasks={group: {} for group in session.tasks}),
    ):
        assert differences_after_one_session(scenario, session, wrong)
