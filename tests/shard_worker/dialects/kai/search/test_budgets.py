"""Budgets by time end a search, whatever it is at, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from shard_worker.dialects.kai.actions.run import run_action
from shard_worker.dialects.kai.evictions import SearchEnd, SearchRecord
from shard_worker.dialects.kai.rules.budget import BudgetBound
from shard_worker.dialects.kai.session import KaiSession
from shared.codec.packed import replace
from shared.policy.kai_model import SearchBudgets
from tests.shard_worker.dialects.kai.clusters import image
from tests.shard_worker.dialects.kai.search.test_actions import evicted, fill, two_queues
from tests.shard_worker.dialects.kai.search.test_random_searches import (
    EVICTING,
    SLOW,
    DrawnSearch,
    clusters,
    opened,
    outcome,
)


class Ticking:
    """A clock that goes on by a second whenever somebody looks."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 1.0
        return self.time


def bounded(session: KaiSession, **fields: object) -> list[SearchRecord]:
    """Bound the session's searches, with a clock that ticks; returns the searches to come."""
    session.kai = replace(session.kai, budgets=SearchBudgets(**fields))  # type: ignore[arg-type]
    session.clock = Ticking()
    records: list[SearchRecord] = []
    session.on_search = records.append
    return records


def crowded(**policy: object) -> KaiSession:
    """A gang of two for which two jobs of another queue have to go."""
    cluster = two_queues(rich=2, poor=2, **policy)
    fill(cluster, "a", 4)
    cluster.job("waits", queue="poor", tasks=2)
    return cluster.open()


UNBOUNDED = {"action": 0.0, "job": 0.0, "generator": 0.0, "generators": {}}


@pytest.mark.parametrize(
    ("fields", "bound", "message"),
    [
        ({"job": 3.0}, BudgetBound.JOB, "maxJobSearchDuration (3 s)"),
        ({"action": 4.0}, BudgetBound.ACTION, "maxActionSearchDuration.default (4 s)"),
        (
            {"actions": {"reclaim": 4.0}},
            BudgetBound.ACTION,
            "maxActionSearchDuration.reclaim (4 s)",
        ),
        ({"generator": 2.0}, BudgetBound.GENERATOR, "maxGeneratorSearchDuration.default (2 s)"),
        (
            {"generators": {"NodeLocalGreedy": 2.0, "MultiNodeGang": 1.0}},
            BudgetBound.GENERATOR,
            "maxGeneratorSearchDuration.MultiNodeGang (1 s)",
        ),
    ],
)
def test_the_budget_that_is_over_first_ends_it_and_is_told(
    fields: Mapping[str, object], bound: BudgetBound, message: str
) -> None:
    session = crowded()
    (record,) = _run(session, {**UNBOUNDED, **fields})
    assert evicted(session) == []
    assert (record.ended, record.bound) == (SearchEnd.BUDGET, bound)
    assert record.seconds > 0
    (text,) = session.searches.ended.values()
    assert message in text, text


def _run(session: KaiSession, fields: Mapping[str, object]) -> list[SearchRecord]:
    records = bounded(session, **fields)
    run_action(session, "reclaim")
    return records


def test_a_generator_that_is_out_of_time_leaves_the_rest_to_the_next() -> None:
    session = crowded()
    (record,) = _run(session, {**UNBOUNDED, "generators": {"NodeLocalGreedy": 1.0}})
    assert (record.ended, record.bound) == (SearchEnd.SOLVED, None)
    assert len(evicted(session)) == 2


def test_a_search_has_its_minimum_though_the_action_is_out_of_time() -> None:
    session = crowded()
    (record,) = _run(session, {**UNBOUNDED, "action": 2.0, "least_of_a_job": 1000.0})
    assert record.ended is SearchEnd.SOLVED


def test_scenarios_ruled_out_by_counts_use_up_the_job_budget() -> None:
    """No scenario is simulated: nobody who may go has a device on the only node that would do."""
    cluster = two_queues(rich=0, poor=9)
    for node in range(100):
        fill(cluster, f"n{node}-", 2)
    fill(cluster, "kept", 4, priority=120)
    cluster.job("waits", queue="poor", gpus=4)
    session = cluster.open()
    (record,) = _run(session, {**UNBOUNDED, "job": 5.0})
    assert (record.ended, record.bound) == (SearchEnd.BUDGET, BudgetBound.JOB)
    assert record.simulated == 0
    assert record.ruled_out > 0


@SLOW
@given(clusters(), st.sampled_from(EVICTING), st.integers(1, 12))
def test_a_search_that_a_budget_ended_leaves_no_trace(
    drawn: DrawnSearch, action: str, seconds: int
) -> None:
    session = opened(drawn)
    before = image(session)
    records = bounded(session, job=float(seconds), action=0.0)
    run_action(session, action)
    if not any(record.ended is SearchEnd.SOLVED for record in records):
        assert image(session) == before
    event(f"{action}: cut {any(record.bound for record in records)}")


@SLOW
@given(clusters(), st.sampled_from(EVICTING))
def test_a_clock_that_stands_still_bounds_nothing(drawn: DrawnSearch, action: str) -> None:
    """As in a seeded run, where no time passes within a turn."""
    without, still = opened(drawn), opened(drawn)
    still.clock = lambda: 7.0
    for session in (without, still):
        run_action(session, action)
    assert outcome(without) == outcome(still)
