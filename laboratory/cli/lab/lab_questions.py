"""``--search`` and ``--fewest-nodes``: what they need, and how their answers are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from coordinator.cli.options.failure import EXIT_USAGE, CommandError
from coordinator.cli.options.options import Output
from laboratory.lab.cluster import Cluster
from laboratory.lab.figures import figure
from laboratory.lab.questions.fewest_nodes import FewestNodes, TriedNodes, fewest_nodes

if TYPE_CHECKING:
    from laboratory.lab.experiment import Experiment
    from laboratory.lab.questions.search import SearchResult
    from laboratory.lab.week import Week


def check_search(experiment: Experiment) -> None:
    if len(experiment.variants) > 1:
        raise CommandError(
            "--search: takes one --policy and one number of --shards; leave the others out",
            code=EXIT_USAGE,
        )


def print_search(result: SearchResult) -> None:
    """The values tried; the comparison on the held-out jobs is printed after it."""
    table = Table(
        title=f"{result.argument} on the first {result.jobs:,} jobs; below, the others",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column(result.argument.upper())
    table.add_column(result.measure.upper(), justify="right")
    for one in result.tried:
        value = "as it is" if one.value is None else f"{one.value:g}"
        mark = " (chosen)" if one.value == result.chosen else ""
        table.add_row(value + mark, figure(result.measure, one.mean))
    Console(soft_wrap=True).print(table)


def answer_fewest_nodes(
    experiment: Experiment,
    week: Week,
    guards: Sequence[str],
    *,
    processes: int,
    output: Output,
) -> None:
    """Bisect for each variant, and print the answers. Raises :class:`WeekError`."""
    cluster, settings = experiment.cluster, asdict(experiment.settings)
    kept = {name: settings[name] for name in ("mode", "speedup", "backlog", "window")}

    def shape(nodes: int) -> Cluster:
        first = float(cluster.cpu[0]), float(cluster.memory[0])
        return Cluster.equal(nodes, gpus=int(cluster.gpus[0]), cpu=first[0], memory=first[1])

    answers: list[tuple[int, FewestNodes]] = []
    for policy in experiment.policies:
        for shards in experiment.shards:
            found = fewest_nodes(
                week,
                guards,
                shape,
                nodes=len(cluster),
                policy=policy,
                seeds=experiment.seeds,
                shards=shards,
                processes=processes,
                progress=_report,
                **kept,
            )
            answers.append((shards, found))
    if output is Output.JSON:
        body: list[dict[str, Any]] = [{"shards": n, **asdict(found)} for n, found in answers]
        sys.stdout.write(json.dumps(body, separators=(",", ":")) + "\n")
        return
    table = Table("POLICY", "SHARDS", "NODES", "ONE LESS BREAKS", box=None, pad_edge=False)
    for shards, found in answers:
        less = next((one.broken for one in found.tried if one.nodes == found.nodes - 1), "")
        table.add_row(found.policy, str(shards), f"{found.nodes:,}", less)
    Console(soft_wrap=True).print(table)


def _report(one: TriedNodes) -> None:
    sys.stderr.write(f"{one.nodes:,} nodes: {one.broken or 'the guards are kept'}\n")
