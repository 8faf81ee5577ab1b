"""Guards: bounds that a policy has to keep, such as ``wait.p99{queue=prod} <= +5%``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from laboratory.lab.cluster import Cluster
from laboratory.lab.comparison import VariantComparison
from laboratory.lab.figures import figure
from laboratory.lab.measures import BY_NAME, labelled_names, measure_of, measured
from laboratory.lab.play import RunSettings, played_week
from laboratory.lab.pod_record import PodRuns
from laboratory.lab.week import Week, WeekError

_FORM = re.compile(r"\s*([\w.]+(?:\{[^}]*\})?)\s*(<=|>=)\s*([+-]?)(\d+\.?\d*)(%?)\s*")


@dataclass(frozen=True, slots=True)
class MeasureGuard:
    """A bound on one value, for every variant but the baseline."""

    text: str
    name: str
    most: bool
    """Whether the value may be at most the bound; else at least."""
    bound: float
    relative: bool
    """Whether ``bound`` is the change from the baseline: 0.05 for +5%."""

    @classmethod
    def parse(cls, text: str) -> MeasureGuard:
        """``VALUE <= +5%`` is relative to the baseline; ``VALUE <= 3600`` and ``VALUE >= 80%`` are
        bounds of the value itself. Raises :class:`WeekError`."""
        form = _FORM.fullmatch(text)
        if form is None or (form[3] and not form[5]):
            raise WeekError(
                f"--guard: {text!r} is not of the form 'wait.p99{{queue=prod}} <= +5%' (against "
                "the first policy), 'wait.p99 <= 3600' or 'sor >= 80%'"
            )
        try:
            measure_of(form[1])
        except KeyError:
            raise unknown_value(form[1], list(BY_NAME)) from None
        number = float(form[4]) / (100.0 if form[5] else 1.0)
        bound = -number if form[3] == "-" else number
        return cls(text.strip(), form[1], form[2] == "<=", bound, relative=bool(form[3]))

    def broken(self, comparison: VariantComparison) -> str:
        """Why a variant does not keep it; "" if it does."""
        value = comparison.measures[self.name].mean
        before = value - comparison.difference[self.name].mean
        bound = before * (1 + self.bound) if self.relative else self.bound
        if value <= bound if self.most else value >= bound:
            return ""
        baseline = f", under the baseline {figure(self.name, before)}" if self.relative else ""
        return f"{self.text}: {comparison.variant} has {figure(self.name, value)}{baseline}"


def unknown_value(name: str, names: Sequence[str], *, option: str = "--guard") -> WeekError:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return WeekError(f"{option}: there is no value {name}; {hint}there are: {', '.join(names)}")


def check_guards(guards: Sequence[MeasureGuard], week: Week, variants: int) -> None:
    """Raises :class:`WeekError`, before hours of runs, if runs of the week have no such value, or a
    guard is relative and nothing can break it."""
    names = [*_names_of_every_week(), *labelled_names(week)] if guards else []
    for guard in guards:
        if guard.name not in names:
            raise unknown_value(guard.name, names)
        if guard.relative and variants < 2:
            raise WeekError(
                f"--guard: {guard.text!r} compares with the first policy, and there is no other; "
                "name one more --policy, or a bound without a sign"
            )


def check_value(name: str, week: Week) -> None:
    """Raises :class:`WeekError` if runs of the week have no such value."""
    if name not in (names := [*_names_of_every_week(), *labelled_names(week)]):
        raise unknown_value(name, names, option="--search-by")


def _names_of_every_week() -> list[str]:
    """The values that do not depend on the week: those of the smallest one."""
    week, one = Week.of(submit=[0], duration=[1], gpus=[1]), np.ones(1)
    first = np.zeros(1, dtype=np.int64)
    runs = PodRuns(first, first, first, np.zeros(1), one, np.zeros(1, dtype=np.bool_))
    none = dict.fromkeys(("committed", "rechecked", "conflicts_true", "conflicts_read"), 1)
    status = {"statements": none, "levels": dict.fromkeys(("L1", "L2", "L3", "L4"), 1)}
    cluster = Cluster.equal(1, gpus=1)
    played = played_week(week, cluster, RunSettings(), submit=week.submit, runs=runs, status=status)
    return [name for name in measured(played) if "{" not in name]


def broken_guards(
    guards: Sequence[MeasureGuard], compared: Sequence[VariantComparison]
) -> list[str]:
    """A line for each guard and variant that does not keep it. One variant alone is held to the
    bounds, too."""
    held = compared[1:] or compared
    return [line for guard in guards for comparison in held if (line := guard.broken(comparison))]
