"""Metrics of searches for victims under a KAI policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shard_worker.dialects.kai.actions.run import EVICTING
from shard_worker.dialects.kai.evictions import SearchEnd
from shard_worker.dialects.kai.rules.budget import BudgetBound
from shard_worker.worker.figures import STEPS, WorkerFigures
from shared.policy.model import Dialect, Policy

Put = Callable[..., None]
"""(name of the metric, value, labels)."""


def searching_actions(policy: Policy) -> Iterator[str]:
    """The actions of a policy that search for victims as KAI does."""
    if policy.dialect is Dialect.KAI:
        yield from (name for name in policy.actions if name in EVICTING)


def put_searches(put: Put, figures: WorkerFigures, shard: int, action: str) -> None:
    """The series of one action in one shard. All results, budgets and steps: how many series there
    are does not depend on what has passed."""
    for result in (ended.name.lower() for ended in SearchEnd):
        number = figures.searches.get(f"{action} {result}", 0)
        put("searches_total", number, shard, action, result)
    for budget in (bound.name.lower() for bound in BudgetBound):
        number = figures.search_budgets.get(f"{action} {budget}", 0)
        put("search_budgets_exhausted_total", number, shard, action, budget)
    for step in STEPS:
        number = figures.scenarios.get(f"{action} {step}", 0)
        put("search_scenarios_total", number, shard, action, step)
    put("search_seconds_total", figures.search_seconds.get(action, 0.0), shard, action)
