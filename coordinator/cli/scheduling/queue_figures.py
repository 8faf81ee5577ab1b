"""Figures of the server's queues, read from ``/metrics``: share, amounts, waiting jobs by
reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

METRICS = "/metrics"
_SAMPLE = re.compile(r"quadrant_(queue_\w+|unadmitted_jobs)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:\\.|[^"\\])*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@dataclass(slots=True)
class QueueMetrics:
    share: float = 0.0
    """Share of the deserved amount, of the resource it has most of; above 1 it has more than its
    due."""
    amounts: dict[str, dict[str, float]] = field(default_factory=dict)
    """By kind (allocated, deserved, ...) and resource, in wholes: cores, bytes, devices."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Jobs that wait, by reason."""


def queue_figures(text: str) -> dict[str, QueueMetrics]:
    """By name of the queue, from the text of the metrics."""
    by_queue: dict[str, QueueMetrics] = {}
    for name, labels, value in _samples(text):
        figures = by_queue.setdefault(labels.get("queue", ""), QueueMetrics())
        match name:
            case "queue_share":
                figures.share = value
            case "queue_resource":
                figures.amounts.setdefault(labels["kind"], {})[labels["resource"]] = value
            case "unadmitted_jobs" if value:
                figures.waiting[labels["reason"]] = int(value)
            case _:
                pass
    return by_queue


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line)
        if match is not None:
            yield match[1], {k: _plain(v) for k, v in _LABEL.findall(match[2])}, float(match[3])


def _plain(value: str) -> str:
    return re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), value)
