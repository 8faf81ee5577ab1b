"""The best value of one argument of a policy: chosen on the first part of a week, reported on the
rest, which had no part in the choice."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from laboratory.lab.cluster import Cluster
from laboratory.lab.experiment import Experiment, SeedRun, of_variant, play_all
from laboratory.lab.guard import check_value, unknown_value
from laboratory.lab.measures import BY_NAME, measure_of, measured
from laboratory.lab.play import RunSettings, fitted
from laboratory.lab.policies import NamedPolicy, named
from laboratory.lab.week import Week, WeekError, WeekSource
from shared.codec.packed import replace
from shared.policy.file import unwrap
from shared.policy.model import Policy
from shared.policy.volcano import DEFAULT_POLICY

MOST_VALUES = 10
"""Values of a range that are tried; a longer one is sampled evenly, with both ends."""
FIRST_PART = 0.5
"""Fraction of the jobs, by submission, on which the value is chosen."""
_FORM = re.compile(r"\s*([\w-]+(?:\.[\w-]+)+)\s*=\s*(\d+(?:\.\d+)?)\s*\.\.\s*(\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True, slots=True)
class ArgumentRange:
    """An argument of a plugin, and the bounds of its values."""

    argument: str
    """``binpack.weight``; begins with the name of the plugin."""
    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> ArgumentRange:
        """Raises :class:`WeekError`."""
        form = _FORM.fullmatch(text)
        if form is None or float(form[2]) >= float(form[3]):
            raise WeekError(
                f"--search: {text!r} is not of the form binpack.weight=1..10, with a plugin, its "
                "argument, and two bounds of which the second is larger"
            )
        return cls(form[1], _values(form[2], form[3]))


def _values(low: str, high: str) -> tuple[float, ...]:
    first, last = float(low), float(high)
    whole = "." not in low + high
    steps = MOST_VALUES - 1 if not whole else min(MOST_VALUES - 1, int(last - first))
    every = (first + (last - first) * step / steps for step in range(steps + 1))
    return tuple(dict.fromkeys(round(value) if whole else round(value, 6) for value in every))


@dataclass(frozen=True, slots=True)
class TriedValue:
    """A value of the argument, and the mean of the measure over the seeds on the first part."""

    value: float | None
    """None: as the policy has it."""
    mean: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The choice, and what it is worth on jobs that had no part in it."""

    argument: str
    measure: str
    jobs: int
    """Number of jobs in the first part."""
    tried: tuple[TriedValue, ...]
    chosen: float
    held_out: Experiment
    """The rest of the week under the policy as it is, the baseline, and with the chosen value."""
    runs: list[SeedRun]
    """The runs of ``held_out``."""

    def as_json(self) -> dict[str, Any]:
        return {
            "argument": self.argument,
            "measure": self.measure,
            "jobs": self.jobs,
            "tried": [asdict(one) for one in self.tried],
            "chosen": self.chosen,
        }


def with_argument(policy: NamedPolicy, argument: str, value: float) -> NamedPolicy:
    """The policy with another value of one argument. Raises :class:`WeekError` if it has no such
    plugin, or the plugin no such argument."""
    document = deepcopy(unwrap(policy.text).document) if policy.text else _document(DEFAULT_POLICY)
    plugin, _, rest = argument.partition(".")
    name = f"{policy.name}, {argument} {value:g}"
    failure = ""
    for key in (argument, rest):  # binpack.weight of binpack, leastrequested.weight of nodeorder
        changed = deepcopy(document)
        if not _set(changed, plugin, key, value):
            raise WeekError(
                f"--search: policy {policy.name} has no plugin {plugin}; name a plugin that it "
                "has, or add it to the policy"
            )
        found = NamedPolicy(name, yaml.safe_dump(changed, sort_keys=False))
        try:
            found.parse()
        except WeekError as error:
            failure = failure or str(error)
        else:
            return found
    raise WeekError(f"--search: {argument}: {failure}")


def _document(policy: Policy) -> dict[str, object]:
    tiers = [{"plugins": [{"name": option.name} for option in tier]} for tier in policy.tiers]
    return {"actions": ", ".join(policy.actions), "tiers": tiers}


def _set(document: dict[str, Any], plugin: str, key: str, value: float) -> bool:
    """Whether the policy has the plugin."""
    options = [
        option
        for tier in document.get("tiers") or ()
        for option in tier.get("plugins") or ()
        if option.get("name") == plugin
    ]
    for option in options:
        option["arguments"] = {**(option.get("arguments") or {}), key: value}
    return bool(options)


def search(
    week: Week,
    cluster: Cluster,
    argument: str,
    *,
    policy: NamedPolicy | Path | str | None = None,
    measure: str = "jct.mean",
    seeds: Sequence[int] = (1, 2, 3),
    shards: int = 1,
    source: WeekSource | None = None,
    processes: int = 1,
    progress: Callable[[float], None] = lambda _: None,
    **settings: Any,
) -> SearchResult:
    """Choose a value of ``argument``, such as ``binpack.weight=1..10``, by the mean of ``measure``
    over the seeds. ``settings``: those of :class:`RunSettings` by name; ``source``: how the week
    was read; ``progress`` is called with the fraction of all runs. Raises :class:`WeekError`."""
    wanted, better = ArgumentRange.parse(argument), _direction(measure)
    base = policy if isinstance(policy, NamedPolicy) else named(policy)
    variants = [with_argument(base, wanted.argument, value) for value in wanted.values]
    jobs = round(len(week) * FIRST_PART)
    if not 0 < jobs < len(week):
        raise WeekError("--search: a week of one job cannot be split; give more jobs")
    common = RunSettings(**settings)
    first = Experiment(
        week=fitted(week.head(jobs), cluster, base.parse()),
        source=source or WeekSource(),
        cluster=cluster,
        policies=(base, *variants),
        shards=(shards,),
        seeds=tuple(seeds),
        settings=replace(common, receipts=False, forecast=False),  # of the other half alone
    )
    rest = replace(
        first,
        settings=common,
        week=fitted(week.tail(jobs), cluster, base.parse()),
        source=replace(first.source, skip=first.source.skip + jobs),
    )
    check_value(measure, first.week)
    total = len(seeds) * (len(variants) + 3)

    def report(done: float) -> None:
        progress(done / total)

    tried = _tried(first, play_all(first, processes=processes, progress=report), wanted, measure)
    best = min(range(len(variants)), key=lambda at: -better * tried[at + 1].mean)
    held_out = replace(rest, policies=(base, variants[best]))
    before = len(seeds) * (len(variants) + 1)
    runs = play_all(held_out, processes=processes, progress=lambda done: report(before + done))
    value = wanted.values[best]
    return SearchResult(wanted.argument, measure, jobs, tried, value, held_out, runs)


def _tried(
    first: Experiment, runs: Sequence[SeedRun], wanted: ArgumentRange, measure: str
) -> tuple[TriedValue, ...]:
    means = [
        fmean(measured(run.played)[measure] for run in of_variant(runs, variant))
        for variant in first.variants
    ]
    return tuple(map(TriedValue, (None, *wanted.values), means))


def _direction(measure: str) -> int:
    """1 if higher is better, -1 if lower is."""
    try:
        better = measure_of(measure).better
    except KeyError:
        raise unknown_value(measure, list(BY_NAME), option="--search-by") from None
    if not better:
        raise WeekError(f"--search-by: neither more nor less {measure} is better; name another")
    return better
