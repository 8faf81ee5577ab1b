"""How good the estimates of the wait were, by size of the job and by how long it had waited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from coordinator.explain.estimate import SHOWN_DIGITS
from laboratory.lab.measures import LARGEST, SHORTEST, SIZES, amounts, size_class
from laboratory.lab.play import Played

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

HOURS = ((3600.0, "below 1 h"), (8 * 3600.0, "1 h to 8 h"))
"""Seconds that a job had waited, below which a question belongs to a class."""
LONGEST = "8 h and more"
DEFINITIONS = {
    "asked": "Questions about waiting jobs: about each of at most 1,000 jobs (drawn with one seed) "
    "in the first minute, and 1, 2, 4, 8 and so on hours later, as long as it waits.",
    "given": "Share of the questions to which there was an estimate: at least five jobs of the "
    "queue, of similar width, had waited as long.",
    "hit": "Hit rate: share of the estimates whose job started between the p50 and the p90, which "
    "are what a user is shown. 40% if estimates are right.",
    "by_p50": "Share of the estimates whose job started by the p50: 50% if they are right.",
    "by_p90": "Share of the estimates whose job started by the p90: 90% if they are right.",
    "error": "Difference between the p50 and the wait that was left, in seconds: median and 90th "
    "percentile over estimates.",
    "relative": "The same / max(wait that was left, 10 s).",
}
"""The columns; ``docs/laboratory.md`` shows the same sentences."""


@dataclass(frozen=True, slots=True)
class ForecastAccuracy:
    """The estimates of one group, as :data:`DEFINITIONS` has it; None: there was no estimate."""

    group: str
    """``all``, ``size=2-7`` (GPUs) or ``waited=1 h to 8 h``."""
    asked: int
    given: float
    hit: float | None = None
    by_p50: float | None = None
    by_p90: float | None = None
    error_p50: float | None = None
    error_p90: float | None = None
    relative_p50: float | None = None
    relative_p90: float | None = None


@dataclass(frozen=True, slots=True)
class _Questions:
    """Columns of all questions of some runs."""

    size: NDArray[np.str_]
    waited: NDArray[np.str_]
    p50: Floats
    p90: Floats
    remaining: Floats


def forecast_accuracy(runs: Sequence[Played]) -> list[ForecastAccuracy]:
    """Over all estimates of some runs: all, by size, and by how long the job had waited."""
    questions = _questions(runs)
    return [_accuracy(name, questions, members) for name, members in _groups(questions)]


def _questions(runs: Sequence[Played]) -> _Questions:
    sizes: list[str] = []
    waited: list[str] = []
    columns: list[list[Floats]] = [[], [], []]
    for played in runs:
        assert played.forecasts is not None
        given = played.forecasts
        sizes += map(size_class, amounts(played.week)[given.job].tolist())
        waited += map(_waited_class, given.waited.tolist())
        for column, values in zip(columns, (given.p50, given.p90, given.remaining), strict=True):
            column.append(values)
    p50, p90, remaining = map(np.concatenate, columns)
    return _Questions(np.array(sizes, "U"), np.array(waited, "U"), p50, p90, remaining)


def _waited_class(seconds: float) -> str:
    return next((name for below, name in HOURS if seconds < below), LONGEST)


def _groups(questions: _Questions) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Names of groups and their members, in the order of sizes and hours."""
    yield "all", np.ones(len(questions.p50), dtype=np.bool_)
    sizes, hours = [*(name for _, name in SIZES), LARGEST], [*(name for _, name in HOURS), LONGEST]
    for what, names, column in (
        ("size", sizes, questions.size),
        ("waited", hours, questions.waited),
    ):
        for name in names:
            if (members := column == name).any():
                yield f"{what}={name}", members


def _accuracy(group: str, questions: _Questions, members: NDArray[np.bool_]) -> ForecastAccuracy:
    asked = int(members.sum())
    given = members & ~np.isnan(questions.p50)
    if not given.any():
        return ForecastAccuracy(group, asked, 0.0)
    p50, p90 = questions.p50[given], questions.p90[given]
    left = questions.remaining[given]
    shown = np.round(left, SHOWN_DIGITS)  # an estimate of 0.0 s is right where a message took 20 ms
    error = np.abs(left - p50)
    relative = error / np.maximum(left, SHORTEST)
    return ForecastAccuracy(
        group=group,
        asked=asked,
        given=len(p50) / asked,
        hit=float(((p50 <= shown) & (shown <= p90)).mean()),
        by_p50=float((shown <= p50).mean()),
        by_p90=float((shown <= p90).mean()),
        error_p50=float(np.percentile(error, 50)),
        error_p90=float(np.percentile(error, 90)),
        relative_p50=float(np.percentile(relative, 50)),
        relative_p90=float(np.percentile(relative, 90)),
    )
