"""Pairs of measurements, and what they say together. Pure: how a side is measured is passed in.

One measurement is worth little: the machine is warmer, or busier, than a minute ago. Two sides that
are measured right after one another share that, so that the ratio within a pair is kept, and of
several pairs the median. Which side goes first alternates: going first is a drift of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any


class Side(StrEnum):
    BASE = "base"
    TREE = "tree"


class NotMeasured(Exception):
    """A run of the bench gave no figures; the message says which, and what it said last."""


Roles = dict[str, float]
"""Process -> microseconds of processor time a task."""

Figures = dict[str, Roles]
"""Workload -> its figures."""

Measure = Callable[[Side, str], Figures]
"""Run the bench of one side in one size."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Both sides of one workload."""

    base: Roles
    tree: Roles

    def of(self, side: Side) -> Roles:
        return self.base if side is Side.BASE else self.tree

    def total(self, side: Side) -> float:
        """Sum over all processes, in microseconds a task."""
        return sum(self.of(side).values())

    @property
    def ratio(self) -> float:
        return self.total(Side.TREE) / self.total(Side.BASE)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All pairs of one workload in one size."""

    size: str
    workload: str
    pairs: tuple[Pair, ...]

    @property
    def median(self) -> float:
        return median(pair.ratio for pair in self.pairs)

    @property
    def lowest(self) -> float:
        return min(pair.ratio for pair in self.pairs)

    @property
    def highest(self) -> float:
        return max(pair.ratio for pair in self.pairs)

    def typical(self, side: Side) -> float:
        """The median of one side alone, in microseconds a task."""
        return median(pair.total(side) for pair in self.pairs)

    @property
    def roles(self) -> list[str]:
        """The processes that cost anything, of either side."""
        result = (pair.of(side) for pair in self.pairs for side in Side)
        return list(dict.fromkeys(name for roles in result for name, us in roles.items() if us))

    def typical_of(self, role: str, side: Side) -> float:
        """The same of one process: where a difference comes from."""
        return median(pair.of(side).get(role, 0.0) for pair in self.pairs)


def order_of(number: int) -> tuple[Side, Side]:
    """Order of the sides in the pair with this number, from 0: the first one alternates."""
    return (Side.BASE, Side.TREE) if number % 2 == 0 else (Side.TREE, Side.BASE)


def measured_pairs(
    measure: Measure, *, size: str, count: int
) -> Iterator[tuple[int, dict[Side, Figures]]]:
    """Pair after pair: its number from 1, and the figures of both sides. Raises NotMeasured."""
    for number in range(count):
        yield number + 1, {side: measure(side, size) for side in order_of(number)}


def comparisons(size: str, pairs: Sequence[Mapping[Side, Figures]]) -> list[Comparison]:
    """One for each workload that both sides have in every pair, in the order of the working tree.

    Raises NotMeasured where there is none: nothing could be compared."""
    everywhere = [
        name
        for name in pairs[0][Side.TREE]
        if all(name in figures for pair in pairs for figures in pair.values())
    ]
    if not everywhere:
        raise NotMeasured(f"bench {size}: the two revisions have no workload in common")
    return [
        Comparison(
            size,
            name,
            tuple(Pair(pair[Side.BASE][name], pair[Side.TREE][name]) for pair in pairs),
        )
        for name in everywhere
    ]


def figures_of(result: Mapping[str, Any]) -> Figures:
    """Parse the output of ``quadrant bench -o json``. Raises NotMeasured where a figure is
    missing."""
    try:
        return {
            name: {role: float(us) for role, us in part["cpu_us_per_task"].items()}
            for name, part in result["workloads"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NotMeasured(f"the bench printed something else than figures: {error!r}") from None


def above(comparisons: Sequence[Comparison], bound: float) -> list[Comparison]:
    """Comparisons whose median is above the bound: the working tree costs more than it may."""
    return [one for one in comparisons if one.median > bound]


def report(
    comparisons: Sequence[Comparison], *, base: str, policy: str, bound: float
) -> dict[str, Any]:
    """Build the JSON output of the comparison."""
    return {
        "base": base,
        "policy": policy,
        "bound": bound,
        "passed": not above(comparisons, bound),
        "comparisons": [
            {
                "size": one.size,
                "workload": one.workload,
                "base_us_per_task": [round(pair.total(Side.BASE), 1) for pair in one.pairs],
                "tree_us_per_task": [round(pair.total(Side.TREE), 1) for pair in one.pairs],
                "by_process": {
                    role: {side.value: round(one.typical_of(role, side), 1) for side in Side}
                    for role in one.roles
                },
                "ratios": [round(pair.ratio, 4) for pair in one.pairs],
                "median": round(one.median, 4),
                "lowest": round(one.lowest, 4),
                "highest": round(one.highest, 4),
            }
            for one in comparisons
        ],
    }
