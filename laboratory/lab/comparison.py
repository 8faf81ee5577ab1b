"""Variants compared over their seeds: intervals, differences, and the jobs that got worse."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from laboratory.lab.experiment import Experiment, SeedRun, Variant, of_variant
from laboratory.lab.measures import amounts, measured

STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Two-sided 95% quantiles of Student's t for 1 to 30 degrees of freedom."""
NORMAL = 1.960
WORST_JOBS = 20
"""Number of jobs that are listed by name."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds with its 95% confidence interval; of one seed, low and high are None."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class WorseJob:
    """A job that ended later than under the baseline with every seed. Times in seconds, mean over
    the seeds."""

    job: str
    queue: str
    user: str
    size: float
    jct_before: float
    jct: float
    wait_before: float
    wait: float


@dataclass(frozen=True, slots=True)
class VariantComparison:
    """One variant: its measures, and the difference from the baseline's with the same seeds."""

    variant: Variant
    measures: dict[str, Interval]
    difference: dict[str, Interval]
    worse: int
    """Jobs that ended later than under the baseline with every seed."""
    better: int
    """Jobs that ended earlier with every seed."""
    worst: list[WorseJob]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def interval(values: Sequence[float]) -> Interval:
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(mean, None, None)
    free = len(values) - 1
    quantile = STUDENT[free - 1] if free <= len(STUDENT) else NORMAL
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def compare(experiment: Experiment, runs: Sequence[SeedRun]) -> list[VariantComparison]:
    """Every variant against the first."""
    variants = experiment.variants
    values = [[measured(run.played) for run in of_variant(runs, variant)] for variant in variants]
    base = of_variant(runs, variants[0])
    compared = []
    for variant, mine in zip(variants, values, strict=True):
        names = list(mine[0])
        worse, better, worst = _jobs(base, of_variant(runs, variant))
        compared.append(
            VariantComparison(
                variant=variant,
                measures={name: interval([seed[name] for seed in mine]) for name in names},
                difference={
                    name: interval(
                        [seed[name] - old[name] for seed, old in zip(mine, values[0], strict=True)]
                    )
                    for name in names
                },
                worse=worse,
                better=better,
                worst=worst,
            )
        )
    return compared


def _jobs(base: Sequence[SeedRun], mine: Sequence[SeedRun]) -> tuple[int, int, list[WorseJob]]:
    week = mine[0].played.week
    before, after = (np.array([run.played.jct for run in runs]) for runs in (base, mine))
    wait_before, wait = (np.array([run.played.wait for run in runs]) for runs in (base, mine))
    later = after.min(axis=0) > before.max(axis=0)
    earlier = after.max(axis=0) < before.min(axis=0)
    rise = np.where(later, after.mean(axis=0) - before.mean(axis=0), -np.inf)
    size = amounts(week)
    rows = np.argsort(-rise, kind="stable")[: min(WORST_JOBS, int(later.sum()))]
    worst = [
        WorseJob(
            job=week.name[row],
            queue=week.queue[row],
            user=week.user[row],
            size=float(size[row]),
            jct_before=float(before[:, row].mean()),
            jct=float(after[:, row].mean()),
            wait_before=float(wait_before[:, row].mean()),
            wait=float(wait[:, row].mean()),
        )
        for row in rows.tolist()
    ]
    return int(later.sum()), int(earlier.sum()), worst
