"""Values of measures as text for people."""

from __future__ import annotations

from collections.abc import Mapping

from laboratory.lab.comparison import VariantComparison
from laboratory.lab.measures import measure_of

KEY_VALUES = (
    *("makespan", "jct.mean", "jct.p99", "bounded_slowdown.mean", "wait.mean", "wait.p50"),
    *("wait.p90", "wait.p99", "gar.p50", "gar.waiting", "sor", "gfr", "fgd.ratio"),
    *("largest_gang.mean", "largest_gang.p10", "jtted.mean", "jain"),
    *("finish_time_fairness.worst", "goodput.lost", "evictions", "cross_shard", "conflicts"),
    "retries",
)
"""Values of the overview."""
SHARES = frozenset({"gar", "sor", "gfr", "fgd", "goodput", "cross_shard"})
FORECAST_HEAD = (
    *("asked", "given", "hit", "by p50", "by p90"),
    *("error p50", "error p90", "relative p50", "relative p90"),
)
COUNTS = frozenset({"largest_gang", "evictions", "conflicts", "retries"})


def figure(name: str, value: float) -> str:
    """A value in its unit."""
    measure = measure_of(name)
    if measure.unit == "s":
        return seconds(value)
    if measure.name in SHARES:
        return f"{value:.2%}"
    return f"{value:,.1f}".removesuffix(".0") if measure.name in COUNTS else f"{value:.3f}"


def seconds(value: float) -> str:
    """``12.3 s``, ``4 min 10 s``, ``3 h 12 min`` or ``5 d 2 h``."""
    if abs(value) < 60:
        return f"{value:.3g} s"
    sign, value = "-" if value < 0 else "", abs(value)
    for most, (large, name), (small, part) in _SPANS:
        rounded = round(value / small) * small
        if rounded < most:
            return f"{sign}{rounded // large} {name} {rounded % large // small} {part}"
    return f"{sign}{value / 86400:,.0f} d"


_SPANS = (
    (3600, (60, "min"), (1, "s")),
    (86400, (3600, "h"), (60, "min")),
    (100 * 86400, (86400, "d"), (3600, "h")),
)


def change(name: str, comparison: VariantComparison) -> str:
    """The difference from the baseline: relative, or absolute where the baseline is 0."""
    difference = comparison.difference[name].mean
    before = comparison.measures[name].mean - difference
    if difference == 0:
        return "+0.0%"
    return f"{difference / before:+.1%}" if before else f"+{figure(name, difference)}"


def forecast_cells(group: Mapping[str, float | None]) -> list[str]:
    """The accuracy of one group of estimates under :data:`FORECAST_HEAD`."""

    def cell(name: str) -> str:
        value = group[name.replace(" ", "_")]
        if value is None:
            return ""
        if name == "asked":
            return f"{value:,}"
        return seconds(value) if name.startswith("error") else f"{value:.0%}"

    return [cell(name) for name in FORECAST_HEAD]
