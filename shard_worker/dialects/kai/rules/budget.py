"""How long, and how far, victims are searched for.

KAI bounds a search by time alone, so that its outcome depends on how fast the machine is. Beside
its times there is a bound of simulated scenarios; without a clock that is the only one, so that a
replay comes out the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from shared.policy.kai_model import SearchBudgets

Clock = Callable[[], float]
"""Seconds, from any beginning."""


class BudgetBound(Enum):
    """The budget that ended a search."""

    ACTION = "maxActionSearchDuration"
    JOB = "maxJobSearchDuration"
    GENERATOR = "maxGeneratorSearchDuration"
    SCENARIOS = "scenarios of one job"


@dataclass(slots=True)
class ActionBudget:
    """The budget of one run of an action. ``clock`` None: times do not count."""

    budgets: SearchBudgets
    action: str
    clock: Clock | None = None
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.now()

    def now(self) -> float:
        return 0.0 if self.clock is None else self.clock()

    def exhausted(self) -> BudgetBound | None:
        """The bound that lets no further job be searched for."""
        limit = self.budgets.actions.get(self.action, self.budgets.action)
        return BudgetBound.ACTION if _over(self.now() - self._began, limit) else None

    def job(self) -> JobBudget:
        """The budget of the next job, which begins now."""
        left = self.budgets.actions.get(self.action, self.budgets.action)
        if left:
            left = max(left - (self.now() - self._began), self.budgets.least_of_a_job)
        return JobBudget(self, left)


@dataclass(slots=True)
class JobBudget:
    """The budget of one search."""

    of_action: ActionBudget
    left_of_action: float
    """Seconds; 0: without a bound."""
    simulated: int = 0
    _began: float = field(init=False)
    _generators: dict[str, float] = field(default_factory=dict)
    """Generator -> when it began."""

    def __post_init__(self) -> None:
        self._began = self.of_action.now()

    def begin(self, generator: str) -> None:
        self._generators[generator] = self.of_action.now()

    def exhausted(self, generator: str) -> BudgetBound | None:
        """The bound that lets this generator try no further scenario."""
        budgets, now = self.of_action.budgets, self.of_action.now()
        if budgets.scenarios and self.simulated >= budgets.scenarios:
            return BudgetBound.SCENARIOS
        if _over(now - self._began, self.left_of_action):
            return BudgetBound.ACTION
        if _over(now - self._began, budgets.job):
            return BudgetBound.JOB
        limit = generator_limit(budgets.generators, generator, budgets.generator)
        if _over(now - self._generators.get(generator, now), limit):
            return BudgetBound.GENERATOR
        return None


def generator_limit(limits: Mapping[str, float], generator: str, default: float) -> float:
    """Seconds that a generator has for one job."""
    return limits.get(generator, default)


def _over(elapsed: float, limit: float) -> bool:
    return limit > 0 and elapsed >= limit
