"""The page of ``quadrant bench scale -o html``: plots and the tables of the command, no network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from importlib.metadata import version
from typing import Any

from coordinator.supervisor import cpu_time
from laboratory.cli.bench.scale_result import (
    EXPLAINED,
    HEAD,
    OF_A_TASK,
    limits_of,
    loads_of,
    rows_of,
)
from laboratory.lab.plots import Axis, PlotLine, legend, line_plot
from laboratory.lab.report import heading_cell, page, table

Values = Mapping[str, Any]


def scale_report(values: Values) -> str:
    """The page, as HTML."""
    policy = values["policy"]
    title = f"Shards on {values['nodes']:,} nodes"
    parts = [
        f"<p>Processes, HTTP and a ledger that syncs to disk, on {values['cores']} cores; policy "
        f"{escape(policy['file'] or 'the default')} ({escape(', '.join(policy['actions']))}).</p>",
        f'<p class="soft">quadrant {escape(version("quadrant"))}. {escape(EXPLAINED)}</p>',
    ]
    for load in loads_of(values):
        parts += _load(values, load)
    return page(title, parts)


def _load(values: Values, load: str) -> list[str]:
    rows = [
        [heading_cell(first), *(f"<td>{escape(cell)}</td>" for cell in rest)]
        for first, *rest in rows_of(values, load)
    ]
    name = escape(load)
    sentences = "".join(f"<li>{escape(text)}</li>" for text in limits_of(values, load))
    return [
        f"<h2>{name}</h2>",
        _plot(values, load, "Tasks a second, measured", lambda part: part["tasks_per_second"]),
        _plot(
            values,
            load,
            "Tasks a second if each process had a core",
            lambda part: part["projected_per_second"] or 0.0,
        ),
        _costs(values, load),
        table(f"All figures of {load}", HEAD, rows),
        f"<ul>{sentences}</ul>",
    ]


def _plot(values: Values, load: str, title: str, value: Callable[[Values], float]) -> str:
    """A line for each mode, over the numbers of shards."""
    modes: dict[str, list[tuple[int, float]]] = {}
    for run in values["runs"]:
        points = modes.setdefault(run["mode"], [])
        points.append((run["shards"], float(value(run["loads"][load]))))
    return _figure(title, modes)


def _costs(values: Values, load: str) -> str:
    """A line for each role, in the first mode."""
    mode = values["runs"][0]["mode"]
    roles: dict[str, list[tuple[int, float]]] = {role: [] for role in OF_A_TASK}
    for run in values["runs"]:
        if run["mode"] == mode:
            for role, points in roles.items():
                cost = run["loads"][load]["cpu_us_per_task"][role]
                points.append((run["shards"], float(cost)))
    names = {"all workers" if role == cpu_time.WORKERS else role: p for role, p in roles.items()}
    return _figure(f"Processor time in microseconds a task, mode {mode}", names)


def _figure(title: str, lines: Mapping[str, list[tuple[int, float]]]) -> str:
    numbers = [shards for shards, _ in next(iter(lines.values()))]
    places = {shards: float(at) for at, shards in enumerate(numbers)}
    across = Axis("shards", [(at, str(shards)) for shards, at in places.items()])
    drawn = [
        PlotLine(name, [places[shards] for shards, _ in points], [value for _, value in points])
        for name, points in lines.items()
    ]
    plot = line_plot(title, drawn, percent=False, across=across)
    return (
        f"<h3>{escape(title)}</h3><figure>{plot}<figcaption>{legend(list(lines))}</figcaption>"
        "</figure>"
    )
