"""The small rules of a search: sizes of probes, times, stale gangs, signatures, budgets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.kai.rules.budget import ActionBudget, BudgetBound, told
from shard_worker.dialects.kai.rules.min_runtime import (
    ReclaimMethod,
    is_protected,
    preempt_runtime,
    reclaim_runtime,
)
from shard_worker.dialects.kai.rules.probes import probe_sizes
from shard_worker.dialects.kai.rules.signatures import FailedSearches, covers
from shard_worker.dialects.kai.rules.stale import Staleness, judge
from shard_worker.dialects.kai.search.generators import prefixes
from shared.policy.kai_model import SearchBudgets


def sizes(tasks: int, most: int) -> list[int]:
    """The sizes that are tried where up to ``most`` tasks can be placed."""
    generator = probe_sizes(tasks)
    tried = [next(generator)]
    while True:
        try:
            tried.append(generator.send(tried[-1] <= most))
        except StopIteration:
            return tried


@pytest.mark.parametrize(
    ("tasks", "most", "tried"),
    [
        (1, 1, [1]),
        (2, 2, [1, 2]),
        (5, 5, [1, 2, 4, 5]),
        (10, 0, [1]),
        (10, 5, [1, 2, 4, 8, 6, 5, 10]),
        (5, 4, [1, 2, 4, 5]),
        (6, 5, [1, 2, 4, 6, 5, 6]),
        (500, 3, [1, 2, 4, 3, 500]),
    ],
)
def test_sizes_double_then_halve_and_end_with_the_whole_gang(
    tasks: int, most: int, tried: list[int]
) -> None:
    assert sizes(tasks, most) == tried


@given(st.integers(1, 200), st.integers(0, 200))
def test_the_largest_size_that_can_be_placed_is_found(tasks: int, most: int) -> None:
    tried = sizes(tasks, most)
    solved = [size for size in tried if size <= min(most, tasks)]
    assert max(solved, default=0) == min(most, tasks)
    assert len(tried) <= 2 * tasks.bit_length() + 2


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(2, 2, [2]), (1, 9, [1, 2, 3, 5, 9]), (3, 4, [3, 4]), (5, 4, []), (0, 3, [0, 1, 2, 3])],
)
def test_prefixes_of_nodes(first: int, last: int, expected: list[int]) -> None:
    assert list(prefixes(first, last)) == expected


TIMES = {"leaf": None, "team": 20.0, "division": 30.0, "other": 5.0, "top": 40.0}


@pytest.mark.parametrize(
    ("reclaimer", "method", "seconds"),
    [
        (["near", "team", "division", "top"], ReclaimMethod.LCA, 20.0),  # from leaf: the team's
        (["other", "top"], ReclaimMethod.LCA, 30.0),  # from division, below top
        (["elsewhere"], ReclaimMethod.LCA, 40.0),  # no queue in common: the victim's topmost
        (["other", "top"], ReclaimMethod.QUEUE, 20.0),
    ],
)
def test_the_time_of_the_queue_where_the_branches_part(
    reclaimer: list[str], method: ReclaimMethod, seconds: float
) -> None:
    victim = ["leaf", "team", "division", "top"]
    assert reclaim_runtime(reclaimer, victim, TIMES, 1.0, method) == seconds


def test_against_its_own_queue_the_nearest_time_counts_else_the_default() -> None:
    assert preempt_runtime(["leaf", "team", "top"], TIMES, 1.0) == 20.0
    assert preempt_runtime(["leaf"], TIMES, 1.0) == 1.0
    assert is_protected(100.0, 10.0, now=109.0)
    assert not is_protected(100.0, 10.0, now=110.0)
    assert not is_protected(None, 10.0, now=0.0)


@pytest.mark.parametrize(
    ("stale", "since", "grace", "found"),
    [
        (False, 10.0, 0.0, Staleness(None, evict=False)),
        (True, None, 60.0, Staleness(100.0, evict=False)),
        (True, None, 0.0, Staleness(100.0, evict=True)),
        (True, 41.0, 60.0, Staleness(41.0, evict=False)),
        (True, 40.0, 60.0, Staleness(40.0, evict=True)),
        (True, 1.0, -1.0, Staleness(1.0, evict=False)),
    ],
)
def test_a_broken_gang_has_its_grace(
    stale: bool, since: float | None, grace: float, found: Staleness
) -> None:
    assert judge(stale=stale, since=since, grace=grace, now=100.0) == found


def test_only_an_equal_or_larger_request_is_hopeless() -> None:
    failed = FailedSearches()
    failed.failed("kind", [{0: 2, 1: 1}])
    assert failed.is_hopeless("kind", [{0: 2, 1: 1}])
    assert failed.is_hopeless("kind", [{0: 3, 1: 1}, {0: 1}])
    assert not failed.is_hopeless("kind", [{0: 2}])
    assert not failed.is_hopeless("other", [{0: 9, 1: 9}])
    failed.failed("kind", [{0: 9, 1: 9}])  # larger: tells less
    assert failed.is_hopeless("kind", [{0: 2, 1: 1}])
    failed.failed("kind", [{0: 1}])
    assert failed.is_hopeless("kind", [{0: 1}])
    failed.forget()
    assert not failed.is_hopeless("kind", [{0: 9, 1: 9}])


FOOTPRINTS = st.lists(st.dictionaries(st.integers(0, 2), st.integers(1, 3)), max_size=3)


@given(FOOTPRINTS, FOOTPRINTS, FOOTPRINTS)
def test_covering_is_an_order(
    one: list[dict[int, int]], two: list[dict[int, int]], three: list[dict[int, int]]
) -> None:
    assert covers(one, one)
    if covers(one, two) and covers(two, three):
        assert covers(one, three)


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


BUDGETS = SearchBudgets(action=100.0, job=40.0, generator=30.0, generators={"Quick": 5.0})


@pytest.mark.parametrize(
    ("generator", "elapsed", "bound"),
    [
        ("Quick", 4.0, None),
        ("Quick", 5.0, BudgetBound.GENERATOR),
        ("Other", 29.0, None),
        ("Other", 30.0, BudgetBound.GENERATOR),
        ("Other", 40.0, BudgetBound.JOB),
        ("Other", 100.0, BudgetBound.ACTION),
    ],
)
def test_which_time_ends_a_search(
    generator: str, elapsed: float, bound: BudgetBound | None
) -> None:
    clock = Hand()
    action = ActionBudget(BUDGETS, "reclaim", clock)
    job = action.job()
    job.begin(generator)
    clock.time = elapsed
    assert job.exhausted(generator) is bound
    assert action.exhausted() is (BudgetBound.ACTION if elapsed >= 100 else None)


def test_a_late_job_gets_the_rest_of_the_action_but_at_least_its_minimum() -> None:
    clock = Hand()
    budgets = SearchBudgets(action=100.0, actions={"preempt": 20.0}, least_of_a_job=3.0)
    action = ActionBudget(budgets, "preempt", clock)
    clock.time = 15.0
    assert action.job().left_of_action == 5.0
    clock.time = 19.0
    assert action.job().left_of_action == 3.0
    unbounded = ActionBudget(SearchBudgets(action=0.0), "reclaim", clock)
    assert unbounded.job().left_of_action == 0.0


def test_without_a_clock_only_the_number_of_scenarios_counts() -> None:
    job = ActionBudget(SearchBudgets(action=1e-9, job=1e-9, scenarios=2), "reclaim").job()
    job.begin("Quick")
    assert job.exhausted("Quick") is None
    job.simulated = 2
    assert job.exhausted("Quick") is BudgetBound.SCENARIOS


@pytest.mark.parametrize(
    ("bound", "budgets", "text"),
    [
        (BudgetBound.SCENARIOS, BUDGETS, "ended after 7 simulated scenarios, the most for one job"),
        (BudgetBound.ACTION, BUDGETS, "maxActionSearchDuration.default (100 s)"),
        (
            BudgetBound.ACTION,
            SearchBudgets(actions={"reclaim": 0.5}),
            "maxActionSearchDuration.reclaim (0.5 s)",
        ),
        (BudgetBound.JOB, BUDGETS, "maxJobSearchDuration (40 s) after 7 simulated scenarios"),
        (BudgetBound.GENERATOR, BUDGETS, "maxGeneratorSearchDuration.Quick (5 s)"),
        (
            BudgetBound.GENERATOR,
            SearchBudgets(generators={}),
            "maxGeneratorSearchDuration.default (120 s)",
        ),
    ],
)
def test_the_message_names_the_budget_and_a_remedy(
    bound: BudgetBound, budgets: SearchBudgets, text: str
) -> None:
    reports = told(bound, budgets, action="reclaim", generator="Quick", simulated=7)
    assert text in reports
    assert "ask for fewer tasks at a time" in reports
    assert ("raise it" in reports) is (bound is not BudgetBound.SCENARIOS)
