"""Questions to a Prometheus server, by its HTTP API."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import aiohttp


async def ask_prometheus(
    session: aiohttp.ClientSession, address: str, query: str, *, verify: bool = True
) -> Any:
    """The answer to an instant query, as JSON. ``verify``: the certificate of the server. Raises
    aiohttp.ClientError, TimeoutError by the session's bound, and ValueError for what is no JSON."""
    url = f"{address}/api/v1/query"
    async with session.get(url, params={"query": query}, ssl=verify) as response:
        if response.status == 400:  # the body says what is wrong with the query
            return await response.json()
        response.raise_for_status()
        return await response.json()


def read_samples(answer: Any) -> list[tuple[Mapping[str, str], float]]:
    """(labels, value) of an instant vector; values that are no number are left out. Raises
    ValueError."""
    try:
        if answer["status"] != "success":
            raise ValueError(f"the query failed: {answer.get('error', 'no reason given')}")
        samples = [
            (sample["metric"], float(sample["value"][1])) for sample in answer["data"]["result"]
        ]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"not an answer of Prometheus: {error!r} is missing or wrong") from error
    return [(labels, value) for labels, value in samples if math.isfinite(value)]
