"""The comparison as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from laboratory.lab.comparison import VariantComparison
from laboratory.lab.experiment import Experiment
from laboratory.lab.figures import FORECAST_HEAD, KEY_VALUES, change, figure, forecast_cells


def print_table(experiment: Experiment, compared: Sequence[VariantComparison]) -> None:
    Console(soft_wrap=True).print(_table(experiment, compared))


def _table(experiment: Experiment, compared: Sequence[VariantComparison]) -> Table:
    week, settings = experiment.week, experiment.settings
    table = Table(
        title=f"{len(week):,} jobs of {week.source} on {len(experiment.cluster):,} nodes, mode "
        f"{settings.mode}, mean over {len(experiment.seeds)} seeds, and the change from the first",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column("MEASURE", no_wrap=True)
    for comparison in compared:
        table.add_column(str(comparison.variant).upper(), justify="right")
    for name in KEY_VALUES:
        cells = [figure(name, compared[0].measures[name].mean)]
        cells += [
            f"{figure(name, other.measures[name].mean)} ({change(name, other)})"
            for other in compared[1:]
        ]
        table.add_row(name, *cells)
    for word in ("worse", "better"):
        counts = [f"{getattr(comparison, word):,}" for comparison in compared[1:]]
        table.add_row(f"jobs {word} with every seed", "", *counts)
    return table


def print_forecasts(forecasts: Sequence[Mapping[str, Any]]) -> None:
    """The accuracy of the estimates, as the summary has it."""
    for variant in forecasts:
        name = (
            f"{variant['policy']}, {variant['shards']} shard{'s' if variant['shards'] > 1 else ''}"
        )
        table = Table(
            title=f"Estimates of the wait against what happened: {name}, all seeds",
            title_justify="left",
            box=None,
            pad_edge=False,
        )
        table.add_column("JOBS", no_wrap=True)
        for column in FORECAST_HEAD:
            table.add_column(column.upper(), justify="right")
        for group in variant["groups"]:
            table.add_row(group["group"], *forecast_cells(group))
        Console(soft_wrap=True).print(table)
