"""How long, and how far, victims are searched for.

KAI bounds a search by time alone, so that its outcome depends on how fast the machine is. Beside
its times there is a bound of simulated scenarios; without a clock that is the only one, so that a
replay comes out the same everywhere.

In KAI an action has its time for all jobs of a cycle. A service has no cycles: there each search is
a turn of its own, and has the action's time to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from shared.policy.kai_model import SearchBudgets
from shared.units.amount_text import plural

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

    @property
    def seconds(self) -> float:
        """Since the search began; 0 without a clock."""
        return self.of_action.now() - self._began

    def exhausted(self, generator: str) -> BudgetBound | None:
        """The bound that lets this generator try no further scenario."""
        scenarios = self.of_action.budgets.scenarios
        if scenarios and self.simulated >= scenarios:
            return BudgetBound.SCENARIOS
        return self.out_of_time(generator)

    def out_of_time(self, generator: str) -> BudgetBound | None:
        """The bound by time that lets this generator go on no longer."""
        if self.of_action.clock is None:
            return None
        budgets, now = self.of_action.budgets, self.of_action.now()
        if _over(now - self._began, self.left_of_action):
            return BudgetBound.ACTION
        if _over(now - self._began, budgets.job):
            return BudgetBound.JOB
        limit = generator_limit(budgets.generators, generator, budgets.generator)
        if _over(now - self._generators.get(generator, now), limit):
            return BudgetBound.GENERATOR
        return None


def told(
    bound: BudgetBound, budgets: SearchBudgets, *, action: str, generator: str, simulated: int
) -> str:
    """Why a search ended before it was through, for people: which budget, how large it is, and what
    would help."""
    tried = f"after {plural(simulated, 'simulated scenario')}"
    match bound:
        case BudgetBound.SCENARIOS:
            return f"ended {tried}, the most for one job; ask for fewer tasks at a time"
        case BudgetBound.ACTION:
            key = action if action in budgets.actions else "default"
            name, limit = f"{bound.value}.{key}", budgets.actions.get(action, budgets.action)
        case BudgetBound.JOB:
            name, limit = bound.value, budgets.job
        case BudgetBound.GENERATOR:
            key = generator if generator in budgets.generators else "default"
            name = f"{bound.value}.{key}"
            limit = generator_limit(budgets.generators, generator, budgets.generator)
    return f"ended by {name} ({limit:g} s) {tried}; raise it, or ask for fewer tasks at a time"


def generator_limit(limits: Mapping[str, float], generator: str, default: float) -> float:
    """Seconds that a generator has for one job."""
    return limits.get(generator, default)


def _over(elapsed: float, limit: float) -> bool:
    return limit > 0 and elapsed >= limit
