"""The text of ``/metrics``, made in steps: with 1,000 queues it has some 6,700 lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from shared.slices import Steps

SAMPLES = 200
"""Samples of one step: 2 ms."""


@dataclass(frozen=True, slots=True)
class _MetricSamples(Collector):
    """Some samples of one metric, as the library takes them."""

    metric: Metric

    def collect(self) -> Iterable[Metric]:
        return [self.metric]


def metrics_text(families: Iterable[Metric]) -> Steps[bytes]:
    """In the text format of Prometheus, as the library writes it in one go."""
    parts: list[bytes] = []
    for family in families:
        for first in range(0, max(1, len(family.samples)), SAMPLES):
            part = Metric(family.name, family.documentation, family.type)
            part.samples = family.samples[first : first + SAMPLES]
            text = generate_latest(_MetricSamples(part))
            # The lines HELP and TYPE stand before the first sample of a metric alone.
            parts.append(text if not first else text.split(b"\n", 2)[2])
            yield
    return b"".join(parts)
