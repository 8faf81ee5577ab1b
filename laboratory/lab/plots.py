"""Line plots as inline SVG: colours of the page, and a dash of its own for each line, so that they
are told apart in print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 8.0, 10.0, 44.0
DASHES = ("", "7 4", "2 3", "10 3 2 3", "1 5", "12 6")
MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class PlotLine:
    name: str
    times: Sequence[float]
    """Seconds"""
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Axis:
    """The horizontal axis of a plot."""

    name: str
    marks: Sequence[tuple[float, str]]
    """(place among the values of the lines, text)"""


def line_plot(
    title: str, lines: Sequence[PlotLine], *, percent: bool, across: Axis | None = None
) -> str:
    """An SVG with axes; the legend is :func:`legend`. ``across`` None: times since the first
    submission."""
    latest = max(max(line.times, default=0.0) for line in lines) or 1.0
    highest = 1.0 if percent else max(max(line.values, default=0.0) for line in lines) or 1.0
    parts = [
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(title)}">',
        *_grid(highest, percent=percent),
        *_below(latest, across or _time_axis(latest)),
    ]
    for number, line in enumerate(lines):
        points = " ".join(
            f"{_x(time / latest):.1f},{_y(value / highest):.1f}"
            for time, value in zip(line.times, line.values, strict=True)
        )
        parts.append(f'<polyline class="line c{number % 6}" {_dash(number)} points="{points}"/>')
    return "".join([*parts, "</svg>"])


def legend(names: Sequence[str]) -> str:
    items = [
        f'<li><svg class="key" viewBox="0 0 40 10" aria-hidden="true"><path class="line '
        f'c{number % 6}" {_dash(number)} d="M0 5H40"/></svg> {escape(name)}</li>'
        for number, name in enumerate(names)
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def _time_axis(latest: float) -> Axis:
    unit, name = (86400.0, "days") if latest > 2 * 86400 else (3600.0, "hours")
    marks = [(tick * unit, f"{tick:,.10g}") for tick in ticks(latest / unit)]
    return Axis(f"{name} after the first submission", marks)


def _grid(highest: float, *, percent: bool) -> list[str]:
    parts = []
    for tick in ticks(highest):
        y, text = _y(tick / highest), f"{tick:.0%}" if percent else f"{tick:,.10g}"
        parts.append(
            f'<path class="grid" d="M{LEFT:g} {y:.1f}H{WIDTH - RIGHT:g}"/>'
            f'<text x="{LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        )
    return parts


def _below(latest: float, axis: Axis) -> list[str]:
    parts = [
        f'<text x="{_x(at / latest):.1f}" y="{HEIGHT - 24:g}" text-anchor="middle">'
        f"{escape(text)}</text>"
        for at, text in axis.marks
    ]
    return [
        *parts,
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{HEIGHT - 5:g}" text-anchor="middle">'
        f"{escape(axis.name)}</text>",
    ]


def ticks(highest: float) -> list[float]:
    """Round values from 0 up to the highest: multiples of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(highest / (MOST_TICKS - 1)))
    step = next(power * n for n in (1, 2, 5, 10) if highest < power * n * MOST_TICKS)
    return [step * number for number in range(int(highest / step + 1e-9) + 1)]


def _dash(number: int) -> str:
    dash = DASHES[number % len(DASHES)]
    return f'stroke-dasharray="{dash}"' if dash else ""


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT - 12)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
