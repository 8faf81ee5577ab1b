"""``python -m tests.many_needs``: how fast small jobs are answered beside thousands of needs.

Starts everything with two shard workers, has the jobs with terms of their own run and the needs
wait, and then sends small jobs one by one at a fixed rate, whether or not those before them are
answered. Ends with 1 where a worker or the lease was lost.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import quantiles
from typing import Annotated

import aiohttp
import typer

from coordinator.supervisor.supervisor import Supervisor
from laboratory.workloads.bulk_client import BulkClient
from laboratory.workloads.generators import lists
from shared.settings.settings import load_settings
from tests.builders.objects import Item
from tests.many_needs.objects import job, need, node, own_term

NODES = 160
LISTS = "/apis/quadrant.dev/v1alpha1/lists"
PATIENCE = 600.0


async def measure(needs: int, terms: int, rate: int, seconds: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="qn-") as path:
        settings = load_settings(run_dir=Path(path), shards=2)
        supervisor = Supervisor(settings)
        async with (
            supervisor,
            BulkClient(supervisor.url) as api,
            aiohttp.ClientSession(supervisor.url) as http,
        ):
            await _send(http, map(node, range(NODES)))
            await _send(http, map(own_term, range(terms)))
            await _until_running(api, 2 * terms)
            await _send(http, map(need, range(needs)))
            before = await _until_running(api, 2 * terms + NODES)
            waits = await _at_rate(http, rate, seconds)
            after = await _until_running(api, 2 * terms + NODES + rate * seconds)
            supervisor.check()  # a leader that loses its lease ends
    p50, p99 = quantiles(waits, n=100)[49], quantiles(waits, n=100)[98]
    lost = after["workers_lost"] - before["workers_lost"]
    typer.echo(
        f"{needs} needs, {terms} jobs with own terms; {len(waits)} POSTs at {rate} a second: "
        f"median {p50 * 1000:.0f} ms, 99% within {p99 * 1000:.0f} ms, at most "
        f"{max(waits) * 1000:.0f} ms; {lost} workers lost"
    )
    return not lost


async def _send(http: aiohttp.ClientSession, items: Iterable[Item]) -> None:
    for body in lists(list(items), limit=250):
        async with http.post(LISTS, json=body) as report:
            assert report.status == 200, await report.text()


async def _until_running(api: BulkClient, tasks: int) -> dict[str, int]:
    deadline = time.monotonic() + PATIENCE
    while (status := await api.status())["tasks"]["running"] != tasks:
        assert time.monotonic() < deadline, status
        await asyncio.sleep(0.5)
    return status


async def _at_rate(http: aiohttp.ClientSession, rate: int, seconds: int) -> list[float]:
    """Seconds until each was answered."""
    waits: list[float] = []

    async def send(number: int) -> None:
        began = time.perf_counter()
        await _send(http, [job(f"s{number}", "1m")])
        waits.append(time.perf_counter() - began)

    begin = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(rate * seconds):
            await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
            group.create_task(send(number))
    return waits


def main(
    needs: Annotated[int, typer.Option(help="Jobs that wait, each with other requests")] = 20_000,
    terms: Annotated[int, typer.Option(help="Running jobs that keep their tasks apart")] = 5_000,
    rate: Annotated[int, typer.Option(help="Small jobs a second")] = 100,
    seconds: Annotated[int, typer.Option(help="How long they come")] = 10,
) -> None:
    sys.exit(0 if asyncio.run(measure(needs, terms, rate, seconds)) else 1)


if __name__ == "__main__":
    typer.run(main)
