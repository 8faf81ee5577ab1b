"""The report: one HTML file without network, made of nothing but a ``summary.json``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from laboratory.lab.figures import FORECAST_HEAD, KEY_VALUES, figure, forecast_cells, seconds
from laboratory.lab.measures import MEASURES
from laboratory.lab.plots import PlotLine, legend, line_plot
from laboratory.lab.waits.forecast_accuracy import DEFINITIONS

Body = Mapping[str, Any]

COPY = """document.addEventListener("click", event => {
  const button = event.target.closest("button[data-command]");
  if (!button) return;
  const said = text => { button.textContent = text; };
  navigator.clipboard.writeText(button.dataset.command).then(
    () => said("Copied"), () => said(button.dataset.command));
});"""
UNKNOWN = (
    "People react: with other waits they would have submitted other jobs at other times.",
    "A job runs as long as it did, wherever it is placed; an evicted pod begins again at zero.",
    "Jobs that failed, or that nobody submitted because the queue was long, are not in the week.",
    "The service's timers count by the speedup: a retry after one second comes so many seconds of "
    "the week later.",
)
"""Limits of a counterfactual."""
FIGURES = (
    ("gar", "GPU allocation ratio over time", True),
    ("waiting", "Waiting jobs over time", False),
    ("largest_gang", "GPUs of the largest gang that fits over time", False),
)


def report(body: Body) -> str:
    """The page, as HTML."""
    week, title = body["week"], f"{body['week']['file']} under {len(body['compared'])} variants"
    again = f"quadrant lab {shlex.quote(week['file'])} --again summary.json"
    parts = [
        _configuration(body),
        f"<pre>{escape(again)}</pre>{copy_button(again)}",
        _search(body),
        _overview(body, again),
        *(
            _series(body, name, heading, again, percent=percent)
            for name, heading, percent in FIGURES
        ),
        _groups(body, again),
        _forecasts(body, again),
        _worse(body, again),
        _definitions(),
        "<h2>What this run cannot know</h2><ul>",
        *(f"<li>{escape(line)}</li>" for line in UNKNOWN),
        "</ul>",
    ]
    return page(title, parts)


def page(title: str, parts: Iterable[str]) -> str:
    """An HTML page without network; ``parts``: of its body below the title."""
    style = files("laboratory.lab").joinpath("report.css").read_text()
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f"<h1>{escape(title)}</h1>"
    )
    return "".join([head, *parts, f"</main><script>{COPY}</script></body></html>\n"])


def _configuration(body: Body) -> str:
    week, settings = body["week"], body["settings"]
    lost = sum(week["dropped"].values())
    arrivals = "all at once" if settings["backlog"] else "as they arrived"
    seeds = ", ".join(map(str, settings["seeds"]))
    left_out = f" {lost:,} of {week['rows']:,} rows were left out." if lost else ""
    return (
        f"<p>{week['jobs']:,} jobs of {week['pods']:,} pods, {arrivals}, on "
        f"{len(body['cluster']['nodes']):,} nodes with {sum(body['cluster']['gpus']):,} GPUs; mode "
        f"{settings['mode']}, speedup {settings['speedup']:g}, seeds {seeds}.{left_out}</p>"
        f'<p class="soft">quadrant {escape(body["quadrant"])}, week {week["digest"][:12]}. Values '
        "are means over the seeds with 95% confidence intervals.</p>"
    )


def _search(body: Body) -> str:
    if (search := body.get("search")) is None:
        return ""
    rows = [
        [
            heading_cell("as it is" if one["value"] is None else f"{one['value']:g}"),
            f"<td>{figure(search['measure'], one['mean'])}</td>",
        ]
        for one in search["tried"]
    ]
    caption, argument = "Values tried", escape(search["argument"])
    return (
        f"<h2>{caption}</h2><p>{argument} = {search['chosen']:g} had the best "
        f"{escape(search['measure'])} on the first {search['jobs']:,} jobs. All other values of "
        "this page are those of the other jobs, which had no part in the choice.</p>"
        f"{table(caption, [search['argument'], search['measure']], rows)}"
    )


def _name(variant: Body) -> str:
    return f"{variant['policy']}, {variant['shards']} shard{'s' if variant['shards'] > 1 else ''}"


def _names(body: Body) -> list[str]:
    return [_name(compared["variant"]) for compared in body["compared"]]


def copy_button(command: str) -> str:
    label = f"Copy as command: {command}"
    return (
        f'<button type="button" data-command="{escape(command)}" aria-label="{escape(label)}">'
        "Copy as command</button>"
    )


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """``rows`` are cells with their tags; the first of each is its heading."""
    cells = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    lines = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{escape(caption)}">'
        f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def heading_cell(text: str) -> str:
    """A row's heading, which breaks after dots and underscores, and before a group."""
    broken = re.sub(r"([._]|(?=\{))", r"\1<wbr>", escape(text))
    return f'<th scope="row">{broken}</th>'


def _overview(body: Body, again: str) -> str:
    rows = [_measure_row(body, name) for name in KEY_VALUES]
    command = f"{again} -o json | jq '.compared[] | {{variant, measures}}'"
    measures = table("Measures", ["measure", *_names(body)], rows)
    return f"<h2>Measures</h2>{measures}{copy_button(command)}"


def _measure_row(body: Body, name: str) -> list[str]:
    row = [heading_cell(name)]
    for number, compared in enumerate(body["compared"]):
        value, difference = compared["measures"].get(name), compared["difference"].get(name)
        if value is None:
            row.append("<td></td>")
            continue
        text = figure(name, value["mean"])
        if value["low"] is not None:
            text += f"<small>{figure(name, value['low'])} to {figure(name, value['high'])}</small>"
        before = value["mean"] - difference["mean"]
        if number and before:
            text += f"<small>{difference['mean'] / before:+.1%}</small>"
        row.append(f'<td data-measure="{escape(name)}" data-value="{value["mean"]!r}">{text}</td>')
    return row


def _series(body: Body, name: str, heading: str, again: str, *, percent: bool) -> str:
    names, series = _names(body), body["series"]
    lines = [PlotLine(n, s["time"], s[name]) for n, s in zip(names, series, strict=True)]
    rows = []
    for at in range(len(series[0]["time"])):
        cells = [
            f"<td>{seconds(line['time'][at])}</td><td>"
            + (f"{line[name][at]:.1%}" if percent else f"{line[name][at]:.1f}")
            + "</td>"
            for line in series
        ]
        rows.append([heading_cell(str(at + 1)), *cells])
    head = ["part", *(text for variant in names for text in ("until about", variant))]
    command = f"{again} -o json | jq -c '.series[] | [.time, .{name}]'"
    seed = body["settings"]["seeds"][0]
    return (
        f"<h2>{heading}</h2><figure>{line_plot(heading, lines, percent=percent)}<figcaption>"
        f"{legend(names)}Means over {len(rows)} equal parts of the time, seed {seed}."
        f"</figcaption></figure><details><summary>The same as a table</summary>"
        f"{table(heading, head, rows)}</details>{copy_button(command)}"
    )


def _groups(body: Body, again: str) -> str:
    names = dict.fromkeys(name for c in body["compared"] for name in c["measures"] if "{" in name)
    rows = [_measure_row(body, name) for name in names]
    waits = table("Waits by queue and by size", ["measure", *_names(body)], rows)
    command = f"{again} -o json | jq '.compared[].measures'"
    return f"<h2>Waits by queue and by size</h2>{waits}{copy_button(command)}"


def _forecasts(body: Body, again: str) -> str:
    """The accuracy of the estimates of the wait, if they were recorded."""
    if "forecast" not in body:
        return ""
    command = f"{again} --forecast -o json | jq '.forecast'"
    parts = ["<h2>Estimates of the wait against what happened</h2>"]
    for variant in body["forecast"]:
        rows = [
            [heading_cell(group["group"]), *(f"<td>{text}</td>" for text in forecast_cells(group))]
            for group in variant["groups"]
        ]
        name = _name(variant)
        estimates = table(f"Estimates under {name}", ["jobs", *FORECAST_HEAD], rows)
        parts.append(f"<h3>{escape(name)}</h3>{estimates}")
    return "".join([*parts, _list(DEFINITIONS), copy_button(command)])


def _worse(body: Body, again: str) -> str:
    if len(body["compared"]) < 2:
        return ""
    parts = ["<h2>Jobs that got worse</h2>"]
    for compared in body["compared"][1:]:
        name = _name(compared["variant"])
        parts.append(
            f"<h3>{escape(name)}</h3><p>With every seed {compared['worse']:,} jobs ended later "
            f"than under the baseline, and {compared['better']:,} earlier.</p>"
        )
        if compared["worst"]:
            parts.append(table(f"Worst jobs under {name}", _WORST, _worst_rows(compared)))
    command = f"{again} -o json | jq '.compared[] | {{variant, worst}}'"
    return "".join([*parts, copy_button(command)])


_WORST = (
    *("job", "queue", "user", "GPUs"),
    *("completion", "completion before", "wait", "wait before"),
)


def _worst_rows(compared: Body) -> list[list[str]]:
    return [
        [
            heading_cell(job["job"]),
            f"<td>{escape(job['queue'])}</td><td>{escape(job['user'])}</td>",
            f"<td>{job['size']:g}</td>",
            *(
                f"<td>{seconds(job[time])}</td>"
                for time in ("jct", "jct_before", "wait", "wait_before")
            ),
        ]
        for job in compared["worst"]
    ]


def _prose(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _definitions() -> str:
    return f"<h2>Definitions</h2>{_list({one.name: one.definition for one in MEASURES})}"


def _list(definitions: Mapping[str, str]) -> str:
    lines = "".join(
        f"<dt><code>{escape(name)}</code></dt><dd>{_prose(text)}</dd>"
        for name, text in definitions.items()
    )
    return f"<dl>{lines}</dl>"
