"""``python -m tests.laboratory.chaos.memory``: resident memory by process through waves of jobs.

Each wave submits jobs of one task, waits until all have finished, deletes them, and waits until
watches from before may end. Prints MiB of each process before, during and after each wave, and the
processor time of the coordinator.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path

import orjson
import psutil

from coordinator.objects.changes import KEPT_SECONDS
from coordinator.supervisor.supervisor import COORDINATOR, RAY, Supervisor
from laboratory.workloads.bulk_client import BulkClient
from laboratory.workloads.generators import (
    CPU,
    LIST_LIMIT,
    ClusterShape,
    Item,
    job_manifest,
    node_items,
    pod_template,
    role_of,
)
from shared.settings.settings import load_settings
from tests.builders.objects import a_list

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
DELETIONS = 20
"""Requests at a time."""
SWEEP_SECONDS = 30.0
"""Time to sweep 10,000 publications, a part each second."""


def resident(parts: Supervisor) -> dict[str, float]:
    """Process -> MiB. Parsers are processes below the coordinator."""
    pids = {role: pid for role, pid in parts.pids().items() if role != RAY}
    pids |= {f"worker {number}": pid for number, pid in enumerate(parts.worker_pids())}
    below = psutil.Process(pids[COORDINATOR]).children(recursive=True)
    pids |= {f"parser {number}": child.pid for number, child in enumerate(below)}
    return {name: psutil.Process(pid).memory_info().rss / 2**20 for name, pid in pids.items()}


def show(moment: str, parts: Supervisor) -> None:
    spent = psutil.Process(parts.pids()[COORDINATOR]).cpu_times()
    columns = "".join(f"  {name} {mib:.0f}" for name, mib in resident(parts).items())
    seconds = spent.user + spent.system
    sys.stdout.write(f"{moment:12}{columns}  (coordinator: {seconds:.1f} s of processor time)\n")
    sys.stdout.flush()


def job(name: str) -> Item:
    template = pod_template(CPU, duration=0.05, amount="100m")
    return job_manifest(name, [role_of(1, template)], minimum=1)


async def submit(api: BulkClient, items: list[Item]) -> None:
    for first in range(0, len(items), LIST_LIMIT):
        await api.submit(orjson.dumps(a_list(*items[first : first + LIST_LIMIT])))


async def until_finished(api: BulkClient) -> None:
    while True:
        counts = (await api.status())["jobs"]
        if counts["finished"] == counts["submitted"]:
            return
        await asyncio.sleep(0.2)


async def delete(api: BulkClient, names: Iterable[str]) -> None:
    remaining = iter(names)

    async def some() -> None:
        for name in remaining:
            assert await api.delete(f"{JOBS}/{name}")

    async with asyncio.TaskGroup() as group:
        for _ in range(DELETIONS):
            group.create_task(some())


async def measure(jobs: int, waves: int) -> None:
    with tempfile.TemporaryDirectory(prefix="qm-", ignore_cleanup_errors=True) as path:
        settings = load_settings(run_dir=Path(path), shards=1, mode="soft", standby=True)
        async with Supervisor(settings) as parts, BulkClient(*parts.urls) as api:
            await submit(api, list(node_items(ClusterShape(nodes=50, units=64))))
            show("before", parts)
            for wave in range(waves):
                names = [f"wave-{wave}-{number}" for number in range(jobs)]
                await submit(api, [job(name) for name in names])
                await until_finished(api)
                show("finished", parts)
                await delete(api, names)
                show("deleted", parts)
                await asyncio.sleep(KEPT_SECONDS + SWEEP_SECONDS)
                show("at rest", parts)


def main() -> None:
    parser = ArgumentParser(prog="python -m tests.laboratory.chaos.memory", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs of each wave")
    parser.add_argument("--waves", type=int, default=2)
    options = parser.parse_args()
    asyncio.run(measure(options.jobs, options.waves))


if __name__ == "__main__":
    main()
