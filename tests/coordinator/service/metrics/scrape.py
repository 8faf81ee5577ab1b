"""Scrape of ``/metrics``, as numbers by name and labels."""

from __future__ import annotations

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Series = dict[tuple[str, Labels], float]


async def scrape(url: str) -> Series:
    """Every sample of ``/metrics``; the prefix is left out of the names."""
    async with aiohttp.ClientSession() as http, http.get(f"{url}/metrics") as answer:
        assert answer.status == 200
        return read(await answer.text())


def read(text: str) -> Series:
    results: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name.removeprefix("quadrant_"), frozenset(sample.labels.items()))
            assert key not in results, f"twice: {key}"
            results[key] = sample.value
    return results


def total(series: Series, name: str, **labels: str) -> float:
    """The sum of a metric's series that have these labels; KeyError where there is none."""
    expected = frozenset(labels.items())
    values = [
        value for (metric, have), value in series.items() if metric == name and expected <= have
    ]
    if not values:
        raise KeyError(name, labels)
    return sum(values)
